"""The verbs, on a store and on a live session."""
