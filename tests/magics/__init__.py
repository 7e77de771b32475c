"""The IPython extension, in real shells and kernels."""
