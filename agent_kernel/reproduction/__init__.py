"""Run a history again in a fresh kernel, and say of each variable and output whether it comes out the same."""
