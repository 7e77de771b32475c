"""What each cell shows, taken on its way to the front end, to be kept with the cell's commit.

`kernel` and `terminal` listen where outputs leave for the front end; `collecting` holds what they heard, folded and
bounded; `recorder` says which cell it belongs to, and hands it over when that cell has ended.
"""
