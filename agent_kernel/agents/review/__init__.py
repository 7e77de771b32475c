"""What a piece of code would do, read from it before it runs.

`report` puts it together from what the code binds (`bindings`), what it calls (`calls`) and what the names in it stand
for (`meaning`); `reaching` has the tables of what reaches outside the variables, `unmagic` takes IPython's own syntax away.
"""

from __future__ import annotations
