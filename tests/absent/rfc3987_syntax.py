"""Stands before the real one on the path of the tests, and is not there: to import that one makes 38 parsers, for 2 s of work.

jsonschema does so wherever a server starts or a notebook is validated, and does without one format where it cannot.
"""

raise ImportError("the tests do without rfc3987_syntax")
