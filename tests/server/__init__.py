"""Histories looked at without their kernels, through jupyter-server."""
