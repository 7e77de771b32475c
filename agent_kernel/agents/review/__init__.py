"""What a piece of code would do, read from it before it runs.

`report` reads the code: IPython's own syntax, what it binds, what it calls. `meaning` says what the names in it stand for, and has
the tables of what reaches outside the variables.
"""

from __future__ import annotations
