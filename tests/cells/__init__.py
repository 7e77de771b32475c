"""Notebooks and scripts that are written from a history."""
