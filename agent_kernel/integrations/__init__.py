"""Other people's agents on our records: their own interfaces, kept in the commits of a branch.

Each module is for one package and needs it installed; each has an extra of its name. What they store lies in records, so a
checkout rewinds a conversation together with the variables, and nothing here keeps files of its own.
"""
