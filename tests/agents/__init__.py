"""Agents: models, runs, what they may do and what is kept of it."""
