"""Which data files this process has open, and what a forked child does about them.

A child may use nothing of its parent's. LMDB, told to close an inherited environment, waits for transactions whose
threads do not exist in the child; so the parent waits, before it forks, until no thread is inside one.
"""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.storage._environment import Environment
from agent_kernel.storage._folder import FileId, file_id, note_close, prepare, url_of

_FORK_WAIT_S = 10.0

guard = threading.RLock()  # of the registry; taken before any gate
_environments: dict[FileId | None, Environment] = {}
_inherited: list[Environment] = []
_seized: list[Environment] = []


def acquire(folder: Path, *, create: bool, writable: bool, full: bool, map_size: int) -> Environment:
    """Open the store in this folder, or share it if this process has it open already.

    Raises:
        NotAStoreError: there is something else, or nothing and `create` is False.
        StoreUnavailableError: it cannot be opened just now.
    """
    with guard:
        _close_inherited(folder)
        env = _environments.get(prepare(folder, create=create))
        if env is None:
            env = Environment(folder, map_size=map_size, writable=writable, full=full)
            _environments[env.found] = env
        else:
            env.folder = folder  # the newest path, if the folder was renamed
            env.strengthen(map_size=map_size, writable=writable, full=full)
        env.holders += 1
        return env


def release(env: Environment) -> None:
    """Give back what `acquire` gave; the last holder closes it."""
    with guard:
        if env.holders == 1 and not env.inherited:
            with env.alone():
                _environments.pop(env.found, None)
                env.shut()
                env.liveness.close()
                if env.writable:
                    note_close(env.folder)
        env.holders -= 1


def _note_closes() -> None:
    """Note what the data files are that this process leaves open as it ends."""
    with guard:
        for env in _environments.values():
            if env.writable:
                note_close(env.folder)


atexit.register(_note_closes)


def renew(env: Environment) -> None:
    """Open an environment again that was shut, perhaps with another data file. With `guard` held."""
    old = env.found
    env.open()
    _environments.pop(old, None)
    _environments[env.found] = env


def _close_inherited(folder: Path) -> None:
    found = file_id(folder)
    for env in tuple(_inherited):
        if not env.torn:
            env.shut()
            _inherited.remove(env)
        elif env.found == found:
            reason = "this process was forked in the middle of a transaction; start it with the spawn method"
            raise StoreUnavailableError(url_of(folder), reason)


def _before_fork() -> None:
    guard.acquire()
    for env in _environments.values():
        env.torn = not env.gate.seize(_FORK_WAIT_S)
        if not env.torn:
            _seized.append(env)


def _after_in_parent() -> None:
    while _seized:
        _seized.pop().gate.release()
    guard.release()


def _after_in_child() -> None:
    for env in _environments.values():
        env.inherited = True
    _inherited.extend(_environments.values())
    _environments.clear()
    _seized.clear()  # nobody uses an inherited gate again
    guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
