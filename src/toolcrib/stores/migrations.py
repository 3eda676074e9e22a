"""The tables of the SQLite store, and how older files become current ones."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from toolcrib.errors import StoreError

APPLICATION_ID = 0x746F6F6C
"""Marks a database file as ours: "tool" in ASCII."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE blocks (
            pos INTEGER PRIMARY KEY AUTOINCREMENT,
            run TEXT NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL, time REAL NOT NULL,
            lines BLOB NOT NULL, sums BLOB NOT NULL, before BLOB NOT NULL, head BLOB NOT NULL,
            mac BLOB NOT NULL)""",
        # SQLite appends the position, so that a run is read in order without sorting.
        "CREATE INDEX blocks_run ON blocks(run)",
        """CREATE TABLE requests (
            id TEXT PRIMARY KEY, key TEXT NOT NULL, state TEXT NOT NULL, expires REAL NOT NULL,
            principal TEXT NOT NULL, session TEXT, decided REAL, used REAL, used_by TEXT,
            body TEXT NOT NULL)""",
        """CREATE UNIQUE INDEX requests_open ON requests(key)
            WHERE state IN ('pending', 'allowed')""",
        "CREATE INDEX requests_state ON requests(state, expires)",
        """CREATE TABLE grants (
            id TEXT PRIMARY KEY, created REAL NOT NULL, expires REAL, revoked REAL,
            body TEXT NOT NULL)""",
        """CREATE TABLE sessions (
            id TEXT PRIMARY KEY, created REAL NOT NULL, ended REAL, body TEXT NOT NULL)""",
        """CREATE TABLE calls (
            id TEXT PRIMARY KEY, tool TEXT NOT NULL, principal TEXT NOT NULL, session TEXT,
            state TEXT NOT NULL, delivery TEXT NOT NULL, created REAL NOT NULL,
            updated REAL NOT NULL, fence INTEGER NOT NULL, attempt INTEGER NOT NULL,
            lease_until REAL, idempotency_key TEXT, request TEXT, result BLOB) WITHOUT ROWID""",
        """CREATE UNIQUE INDEX calls_key ON calls(principal, idempotency_key)
            WHERE idempotency_key IS NOT NULL""",
    ),
)
"""Step n takes a file from version n to n + 1. Steps that were released never change."""


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is not ours, or newer than this program."""
    mark, version, tables = (
        connection.execute(question).fetchone()[0]
        for question in (
            "PRAGMA application_id",
            "PRAGMA user_version",
            "SELECT count(*) FROM sqlite_master",
        )
    )
    if mark != APPLICATION_ID and (mark or version or tables):
        raise StoreError(
            f"{path}: it is the database of another program. "
            "Name another file, or move this one away to begin a new store."
        )
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path}: it was written by a newer Toolcrib (file version {version}, this one knows "
            f"{len(MIGRATIONS)}). Update Toolcrib, or name another file."
        )


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to the current version in one transaction, or leave it as it was."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        check(connection, path)  # another process may have been here since the first look
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        for step in MIGRATIONS[version:]:
            for statement in step:
                connection.execute(statement)
        if version < len(MIGRATIONS):
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
