"""What leaves a store as a file for others: notebooks and scripts, written from the history, with nothing unpickled.

`linear_history` says which commits lead to a state, `cell_code` what the code of a cell reads and binds, `slices` which
cells make a variable. `notebook_file` and `script_file` make files of these and put them in their place.
"""
