"""sqlite3: a database in memory is saved as its pages; a connection to a file is the file's, and is named."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from agent_kernel.values.reducers import Handler
from agent_kernel.values.restore import objects as restore

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler


def handler_for(kind: type) -> Handler | None:
    return reduce_connection if kind is sqlite3.Connection else None


def _image(connection: sqlite3.Connection) -> bytes:
    try:
        return connection.serialize()
    except sqlite3.OperationalError:  # an empty database has no pages to give
        return b""


def reduce_connection(pickler: Pickler, connection: sqlite3.Connection) -> Any:
    try:
        files = [path for _, _, path in sqlite3.Connection.execute(connection, "pragma database_list")]
    except sqlite3.Error as error:
        return pickler.lose(connection, f"a database connection that is {error}")
    if any(files) or len(files) != 1:
        where = next((path for path in files if path), "")
        return pickler.lose(connection, f"a database connection to {where}", "connect again in a cell")
    if connection.in_transaction:
        return pickler.lose(connection, "a database in memory with an open transaction", "commit or roll it back first")
    pickler.dump_record.opaque.append(connection)
    pickler.note_held(
        connection, pickler.names.token_of(connection)
    )  # functions that queries call are not in its pages
    image = pickler.buffer(_image(connection))
    made = (image, connection.isolation_level, connection.row_factory, connection.text_factory)
    return restore.sqlite_memory, made
