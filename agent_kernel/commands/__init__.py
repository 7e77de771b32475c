"""The commands of `%agent` and `agent-kernel`: what both interfaces share.

A verb takes a scope (a repository, and a live session where there is one) and parsed arguments, and returns a result
that reads as text, as JSON and as HTML. Verbs are loaded when they are used.
"""
