"""Fork and race: the same task several times, or several tasks or models, in parallel on branches of one state.

A race (`race`) has entries (`list_entries`), each of which works in a worker; a judge may say which is best (`comparison.Judging`). What became of
it is read from its events (`agent_undo.race_outcome`) and looked at side by side (`comparison`).
"""

from __future__ import annotations
