"""Agents that agents call."""
