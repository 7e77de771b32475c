"""What leaves a store as a file for others: notebooks and scripts, written from the history, with nothing unpickled.

`cell_code` says what the code of a cell reads, binds and changes, `slices` which commits lead to a state and which of their
cells make a variable. `files` makes notebooks and scripts of these and puts them in their place.
"""
