"""Objects to bytes and back: pickling, segments, alias groups, definitions and summaries.

Nothing here knows a store, a branch or IPython.
"""
