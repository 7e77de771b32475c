"""sqlite3: a database in memory is saved as its pages; a connection to a file is the file's, and is named."""

from __future__ import annotations

import _sqlite3
import contextlib
import ctypes
import functools
import gc
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

from agent_kernel.values.aliases import SaveFailure
from agent_kernel.values.reducers import Handler
from agent_kernel.values.restore import objects as restore

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler


def handler_for(kind: type) -> Handler | None:
    if kind is sqlite3.Row:
        return reduce_row
    return reduce_connection if kind is sqlite3.Connection else None


def reduce_row(pickler: Pickler, row: sqlite3.Row) -> Any:
    parts = restore.sqlite_row, (tuple(row.keys()), tuple(row))
    pickler.note_parts(parts)
    return parts


def _image(connection: sqlite3.Connection) -> bytes:
    try:
        return connection.serialize()
    except sqlite3.OperationalError:  # an empty database has no pages to give
        return b""


def reduce_connection(pickler: Pickler, connection: sqlite3.Connection) -> Any:
    if has_listener(connection):
        reason = "a database connection with a trace callback, an authorizer or a progress handler cannot be saved"
        return pickler.refuse(connection, reason, "remove the callback")
    try:
        files = files_of(connection)
    except sqlite3.Error as error:
        closed = "closed" in str(error)
        what = _CLOSED if closed else f"a database connection cannot be saved where it fails: {error}"
        return pickler.refuse(connection, what)
    if any(files) or len(files) != 1:
        where = next((path for path in files if path), "several databases")
        return pickler.refuse(
            connection, f"a database connection to {where} cannot be saved", "connect again in a cell"
        )
    pages = pages_of(connection)
    if pages:
        pickler.note_view(connection, pages)
    is_shared = pages in pickler.shared_owners
    if connection.in_transaction or _is_locked(connection):
        return pickler.refuse(
            connection, "a database in memory cannot be saved while a transaction is open", remedy_of_open(connection)
        )
    pickler.dump_record.opaque.append(connection)
    pickler.note_holdings(
        connection, pickler.names.token_of(connection)
    )  # functions that queries call are not in its pages
    image = _shared_database(pickler, connection, pages) if is_shared else pickler.buffer(_image(connection))
    made: tuple[Any, ...] = (image, connection.isolation_level, connection.row_factory, connection.text_factory)
    autocommit: object = getattr(connection, "autocommit", _LEGACY)  # from Python 3.12 on
    made = made if autocommit == _LEGACY else (*made, autocommit)
    functions = _functions(connection)
    if not functions:
        return restore.sqlite_memory, made
    made_by = pickler.names.token_of(connection)
    token = f"functions-{made_by}"  # of no object: another connection never has them
    reason = f"functions of a database connection cannot be saved: {', '.join(dict(functions))}"
    pickler.dump_record.save_failures[token] = SaveFailure(token, "function", reason, pickler.names.remedy_of(made_by))
    return restore.sqlite_without_functions, (token, functions, *made)


class SharedDatabase:
    """A database in memory that several connections share. Pickles as one to connect to."""

    def __init__(self, image: Any) -> None:
        self.image = image

    def __reduce__(self) -> Any:
        return restore.sqlite_shared, (self.image,)


def _shared_database(pickler: Pickler, connection: sqlite3.Connection, pages: int) -> SharedDatabase:
    """The database, if another connection was saved with it already; otherwise a new one."""
    known: SharedDatabase | None = pickler.known_in_dump.get((pages, "pages"))
    if known is None:
        known = pickler.known_in_dump[pages, "pages"] = SharedDatabase(pickler.buffer(_image(connection)))
    return known


def _is_locked(connection: sqlite3.Connection) -> bool:
    """Whether another connection to this database has a transaction open: the pages hold its uncommitted changes."""
    cursor = sqlite3.Connection.cursor(connection)
    try:
        cursor.execute("begin immediate")
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode & _PRIMARY in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    cursor.execute("commit")  # not a rollback, which would end what is being read
    return False


_PRIMARY = 0xFF  # the bits of an extended error code that hold the primary one


def pages_of(connection: sqlite3.Connection) -> int:
    """The address of the pages of an open database, the same for all connections that share it. 0 if it is not known."""
    control = _find_file_control()
    if control is None:
        return 0
    handle = ctypes.c_void_p.from_address(id(connection) + object.__basicsize__)  # the first field of its own
    found = ctypes.c_void_p()
    failed = control(handle, b"main", _FILE_POINTER, ctypes.byref(found))
    return 0 if failed else found.value or 0


_FILE_POINTER = 7  # SQLITE_FCNTL_FILE_POINTER
_KNOWN_PYTHONS = ((3, 11), (3, 15))  # in which a connection begins with SQLite's handle


@functools.cache
def _find_file_control() -> Any:
    """SQLite's own function, of the very library that Python's module uses; None where it is not found."""
    first, end = _KNOWN_PYTHONS
    library = getattr(_sqlite3, "__file__", None)
    if sys.implementation.name != "cpython" or not first <= sys.version_info[:2] < end or library is None:
        return None
    try:
        control = ctypes.CDLL(library).sqlite3_file_control
    except (OSError, AttributeError):
        return None
    control.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
    return control


def _functions(connection: sqlite3.Connection) -> tuple[tuple[str, int], ...]:
    """The names of the functions that were made for queries of the connection, and how many arguments they take."""
    return tuple(sorted(_all_functions(connection) - _find_builtin_functions()))


def names_of_functions(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The names of functions and orders of text that were made for queries; none where that cannot be asked."""
    try:
        if has_listener(connection):
            return ()
        cursor = sqlite3.Connection.cursor(connection)
        cursor.row_factory = None
        orders = cursor.execute("select cast(name as blob) from pragma_collation_list").fetchall()
        return (
            *(name for name, _ in _functions(connection)),
            *sorted(bytes(name).decode(errors="replace") for (name,) in orders if bytes(name) not in _GIVEN_ORDERS),
        )
    except sqlite3.Error:
        return ()


_GIVEN_ORDERS = frozenset((b"BINARY", b"NOCASE", b"RTRIM", b"decimal", b"uint"))


def _all_functions(connection: sqlite3.Connection) -> set[tuple[str, int]]:
    cursor = sqlite3.Connection.cursor(connection)
    cursor.row_factory = None
    found = cursor.execute("select cast(name as blob), narg from pragma_function_list where not builtin").fetchall()
    return {(bytes(name).decode(errors="replace"), arguments) for name, arguments in found}


@functools.cache
def _find_builtin_functions() -> set[tuple[str, int]]:
    """Those that every connection has, of extensions that are built in."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        return _all_functions(connection)


def has_listener(connection: sqlite3.Connection) -> bool:
    """Whether a trace callback, an authorizer or a progress handler hears of each statement, also of `serialize`."""
    return any(found is _sqlite3 for found in gc.get_referents(connection))


def remedy_of_open(connection: Any) -> str:
    """From Python 3.12 on, a connection may begin the next transaction as soon as one is committed."""
    if getattr(connection, "autocommit", None) is False:
        return "set its autocommit to True: with False, a transaction is always open"
    return "commit or roll it back first"


_CLOSED = "a database connection that is closed cannot be saved"
_LEGACY: int = getattr(sqlite3, "LEGACY_TRANSACTION_CONTROL", -1)


def files_of(connection: sqlite3.Connection) -> list[str]:
    """The files of all databases that are attached, "" for one in memory. Runs neither factory of the connection's."""
    cursor = sqlite3.Connection.cursor(connection)
    cursor.row_factory = None
    found = cursor.execute("select cast(file as blob) from pragma_database_list()").fetchall()
    return [bytes(path or b"").decode(errors="replace") for (path,) in found]
