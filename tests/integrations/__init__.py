"""Other people's suites, run with our classes in the place of theirs."""
