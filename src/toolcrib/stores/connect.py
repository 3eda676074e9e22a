"""Opens the database file, and says in words what SQLite says in codes."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

from toolcrib.errors import StoreError
from toolcrib.stores.migrations import check, migrate

_MEANINGS: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_BUSY: (
        "another process keeps it locked",
        "End that process or try again later.",
    ),
    sqlite3.SQLITE_LOCKED: (
        "another connection keeps it locked",
        "Close that connection or try again later.",
    ),
    sqlite3.SQLITE_FULL: (
        "the disk is full",
        "Free some space; waiting records are kept and written then.",
    ),
    sqlite3.SQLITE_READONLY: (
        "it cannot be written",
        "Make the file and its folder writable for this user, or name another file.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened",
        "Check that the folder exists and that this user may write there.",
    ),
    sqlite3.SQLITE_PERM: (
        "this user may not open it",
        "Make the file readable and writable for this user, or name another file.",
    ),
    sqlite3.SQLITE_NOTADB: (
        "it is not a database",
        "Name another file, or move this one away to begin a new store.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "the database is damaged",
        "Restore it from a backup, or move it away to begin a new store.",
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk does not take or give the data",
        "Check the disk, its free space and the limits of this process.",
    ),
    sqlite3.SQLITE_CONSTRAINT: (
        "an entry contradicts one that is kept already",
        "Use a new id.",
    ),
}


def explain(error: BaseException, path: Path) -> StoreError:
    """`error` as a `StoreError` that names the file and the cure."""
    if isinstance(error, StoreError):
        return error
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
    fallback = ("the store cannot do that", "Check the value, or report it with these words.")
    what, cure = _MEANINGS.get(code, fallback)
    problem = StoreError(f"{path}: {what} ({error}). {cure}")
    problem.__cause__ = error
    return problem


def not_open(path: Path) -> StoreError:
    """What is said to those who use a store before `open()` or after `close()`."""
    return StoreError(f"{path}: the store is not open. Call `await store.open()` first.")


def open_writer(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """The connection that writes; makes the file and brings it up to date.

    Files of another program are refused before anything in them is touched.
    """
    try:
        _make_file(path)
    except OSError as error:
        raise StoreError(
            f"{path}: the file cannot be made ({error.strerror}). "
            "Name a file in a folder where this user may write."
        ) from error
    connection = _connect(path, busy_timeout)
    try:
        # One transaction, or a process that makes the same file shows halfway through the look.
        connection.execute("BEGIN")
        check(connection, path)
        connection.execute("COMMIT")
        _use_wal(connection, busy_timeout)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """A connection that only reads, and so never waits for a writer."""
    connection = _connect(path, busy_timeout)
    connection.execute("PRAGMA query_only=ON")
    return connection


def _connect(path: Path, busy_timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=busy_timeout, isolation_level=None)


def _make_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # An existing file is never opened here: closing a descriptor drops the locks that other
    # connections of this process hold on the same file.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return


def _use_wal(connection: sqlite3.Connection, busy_timeout: float) -> None:
    # Two processes that make the same file at once can each keep the other from changing the
    # journal mode, and SQLite reports that without using the busy timeout.
    until = time.monotonic() + busy_timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() >= until:
                raise
            time.sleep(0.01)
