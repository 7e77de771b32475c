"""The panels in a real browser."""
