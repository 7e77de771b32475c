"""Measures of what version control costs a notebook, as ratios within one run. Run `python -m benchmarks --help`."""
