"""Code that is tried on a fork of the process before it is run."""
