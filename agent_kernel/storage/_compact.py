"""Give the space that deleted values left in a data file back to the disk.

LMDB reuses free pages but never shrinks its file, so the file is copied without them and the copy renamed over it.
A process that kept the old file open would go on writing to a file without a name: compaction therefore needs to be
the only process, which it makes sure of with the very lock by which LMDB counts its users.
"""

from __future__ import annotations

import fcntl
import os
import shutil

import lmdb

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.storage import _registry
from agent_kernel.storage._environment import Environment
from agent_kernel.storage._folder import COMPACTING, DATA, ENGINE, LOCK, sync_path, translated, url_of


def compact(env: Environment) -> int:
    """Rewrite the data file without its free pages, and return the bytes given back.

    Every store of this process on the file goes on with the new one.

    Raises:
        StoreUnavailableError: another process has the store open.
        StoreFullError: there is no room for the copy. Nothing was changed.
    """
    before = (env.folder / DATA).stat().st_size
    with _registry.guard, env.alone():
        env.shut()
        try:
            env.pinned = _lock_others_out(env)
            _replace(env)
        except (lmdb.Error, OSError) as error:
            raise translated(error, env.folder, before) from error
        finally:
            shutil.rmtree(env.folder / COMPACTING, ignore_errors=True)
            _registry.renew(env)
        env.compactions += 1
    return before - (env.folder / DATA).stat().st_size


def _lock_others_out(env: Environment) -> int:
    # The first byte of the lock file: LMDB locks it shared while open. Our descriptor stays open beside the new
    # environment, because closing any descriptor of a file drops all locks that the process has on it.
    handle = os.open(env.folder / LOCK, os.O_RDWR)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    except OSError as error:
        os.close(handle)
        reason = "another process has it open; close it there, then compact again"
        raise StoreUnavailableError(url_of(env.folder), reason) from error
    return handle


def _replace(env: Environment) -> None:
    aside = env.folder / COMPACTING
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    source = lmdb.open(
        str(env.folder), map_size=env.map_size, readonly=True, lock=False, create=False, lib_version=ENGINE
    )
    try:
        source.copy(str(aside), compact=True)
    finally:
        source.close()
    sync_path(aside / DATA)
    shutil.copymode(env.folder / DATA, aside / DATA)
    (aside / DATA).replace(env.folder / DATA)
    sync_path(env.folder)
