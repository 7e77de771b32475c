"""One task, tried by several at once."""
