"""Tests of what stands beside the cells."""
