"""One file that a colleague opens: notebook, state, history and environment, which check themselves.

`exporting` writes it, `opening` verifies it and makes a store of it, `shown` says what is in it without running anything.
The file itself, a zip, is read and written by `storage.archive`.
"""
