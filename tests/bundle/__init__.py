"""Bundles: one file with notebook, state and history."""
