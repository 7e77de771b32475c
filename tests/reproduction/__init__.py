"""A history is run again: which cells, what is the same, and why something is not."""
