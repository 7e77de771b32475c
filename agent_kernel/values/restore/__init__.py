"""The functions that stored pickle streams call to rebuild values.

Their modules, names and arguments are a stored format: never move or rename one, never drop an argument; add a new
function instead. They find what they need (the namespace, code, classes, live objects) in the loader that is at work in
this thread. Libraries are imported by the functions that need them, so importing this package costs nothing.
"""

from __future__ import annotations

from agent_kernel.values.restore.buffers import StoredBytes as StoredBytes
from agent_kernel.values.restore.buffers import fresh_memory as fresh_memory
from agent_kernel.values.restore.code import by_name as by_name
from agent_kernel.values.restore.context import Context as Context
from agent_kernel.values.restore.context import restoring as restoring
from agent_kernel.values.restore.objects import MAKES_BARE as MAKES_BARE
from agent_kernel.values.restore.objects import flat as flat
from agent_kernel.values.restore.objects import flat_behind as flat_behind
from agent_kernel.values.restore.objects import held as held
from agent_kernel.values.restore.objects import held_as as held_as
from agent_kernel.values.restore.objects import held_state as held_state
from agent_kernel.values.restore.objects import live as live
from agent_kernel.values.restore.objects import pinned as pinned
from agent_kernel.values.restore.objects import pinned_state as pinned_state
from agent_kernel.values.restore.objects import set_attributes as set_attributes
from agent_kernel.values.restore.objects import set_factory as set_factory
from agent_kernel.values.restore.objects import taken as taken
