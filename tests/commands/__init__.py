"""The commands, on a store and on a live session."""
