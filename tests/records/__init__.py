"""What records promise."""
