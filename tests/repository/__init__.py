"""What the repository promises."""
