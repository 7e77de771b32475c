"""One module for each system that runs a workload: how it is switched on, comes back to a state, and what it stores."""
