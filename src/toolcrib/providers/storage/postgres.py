"""Storage in a PostgreSQL database."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from toolcrib.errors import StoreError, ToolFailure
from toolcrib.providers.storage.backend import Held, Item, Room, check_room, check_version

T = TypeVar("T")
Rows = list[tuple[str, int]]

_LOCK = 0x746F6F6C63726962
"""Two hosts that start at once make the tables one after the other."""
_TABLES = """
CREATE TABLE IF NOT EXISTS toolcrib_storage_owners (
    store text NOT NULL, owner text NOT NULL,
    items bigint NOT NULL, size bigint NOT NULL, version bigint NOT NULL,
    PRIMARY KEY (store, owner)
);
CREATE TABLE IF NOT EXISTS toolcrib_storage_items (
    store text NOT NULL, owner text NOT NULL, key text COLLATE "C" NOT NULL,
    version bigint NOT NULL, size bigint NOT NULL, value text NOT NULL, words text NOT NULL,
    PRIMARY KEY (store, owner, key)
);
"""
_EXISTS = "SELECT to_regclass('toolcrib_storage_items') IS NOT NULL"
_READ = """SELECT value, version FROM toolcrib_storage_items
WHERE store = $1 AND owner = $2 AND key = $3"""
_CURRENT = """SELECT version, size FROM toolcrib_storage_items
WHERE store = $1 AND owner = $2 AND key = $3"""
_LIST = """SELECT key, version FROM toolcrib_storage_items
WHERE store = $1 AND owner = $2 AND key >= $3 AND key > $4 AND starts_with(key, $3)
ORDER BY key LIMIT $5"""
# Not LIKE: what is looked for is taken as it is, and has no signs of a meaning of their own.
_SEARCH = """SELECT key, version FROM toolcrib_storage_items
WHERE store = $1 AND owner = $2 AND strpos(words, $3) > 0
ORDER BY key LIMIT $4"""
_ENROL = """INSERT INTO toolcrib_storage_owners VALUES ($1, $2, 0, 0, 0)
ON CONFLICT DO NOTHING"""
_HELD = """SELECT items, size, version FROM toolcrib_storage_owners
WHERE store = $1 AND owner = $2 FOR UPDATE"""
_SET_HELD = """UPDATE toolcrib_storage_owners SET items = $3, size = $4, version = $5
WHERE store = $1 AND owner = $2"""
_PUT = """INSERT INTO toolcrib_storage_items VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (store, owner, key) DO UPDATE
SET version = excluded.version, size = excluded.size,
    value = excluded.value, words = excluded.words"""
_DELETE = "DELETE FROM toolcrib_storage_items WHERE store = $1 AND owner = $2 AND key = $3"
_FORGET = (
    "DELETE FROM toolcrib_storage_items WHERE store = $1 AND owner = $2",
    "DELETE FROM toolcrib_storage_owners WHERE store = $1 AND owner = $2",
)


class PostgresBackend:
    """Keeps items of one store in two tables, which are made when they are missing.

    Changes of one owner happen one after the other: each locks the owner's row first.
    """

    def __init__(self, url: str, store: str, *, connections: int = 4) -> None:
        self._url = url
        self._store = store
        self._connections = connections
        self._pool: Any = None

    async def open(self) -> None:
        """Connect, and make the tables when they are missing. Raises `StoreError`."""
        try:
            self._pool = await _driver().create_pool(
                self._url, min_size=0, max_size=self._connections, timeout=10, command_timeout=30
            )
            await self._prepare(self._pool)
        except BaseException as error:
            await self.close()
            wrong = isinstance(error, ValueError)
            words = "its address is not one that can be used" if wrong else _words(error)
            if words is None:
                raise
            # Without its cause: that one may quote the address, and a password with it.
            raise StoreError(f"the database cannot be used: {words}") from None

    async def close(self) -> None:
        """Disconnect."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(2):
                await pool.close()
        except BaseException as error:
            pool.terminate()
            if not isinstance(error, TimeoutError) and _words(error) is None:
                raise

    async def health(self) -> None:
        """Raises when the database does not answer."""

        async def work(db: Any) -> None:
            await db.fetchval("SELECT 1")

        await self._run(work)

    async def read(self, owner: str, key: str) -> tuple[str, int] | None:
        """The value and version of a key."""
        rows = await self._rows(_READ, owner, key)
        return rows[0] if rows else None

    async def write(self, owner: str, item: Item, if_version: int | None, room: Room) -> int:
        """Keep an item; its new version."""
        who = (self._store, owner)

        async def work(db: Any) -> int:
            await db.execute(_ENROL, *who)
            held = Held(*await db.fetchrow(_HELD, *who))
            current, old = await _current(db, *who, item.key)
            check_version(item.key, current, if_version)
            check_room(held, item, old, room)
            items, version = held.items + (old is None), held.version + 1
            size = held.size + item.size - (old or 0)
            await db.execute(_SET_HELD, *who, items, size, version)
            await db.execute(_PUT, *who, item.key, version, item.size, item.text, item.words)
            return version

        return await self._change(work)

    async def delete(self, owner: str, key: str, if_version: int | None) -> bool:
        """Remove a key; whether it was there."""
        who = (self._store, owner)

        async def work(db: Any) -> bool:
            row: Any = await db.fetchrow(_HELD, *who)
            current, old = await _current(db, *who, key)
            check_version(key, current, if_version)
            if old is None:
                return False
            held = Held(*row)
            await db.execute(_DELETE, *who, key)
            await db.execute(_SET_HELD, *who, held.items - 1, held.size - old, held.version)
            return True

        return await self._change(work)

    async def list(self, owner: str, prefix: str, after: str, limit: int) -> Rows:
        """Keys behind `after`, with their versions."""
        return await self._rows(_LIST, owner, prefix, after, limit)

    async def search(self, owner: str, words: str, limit: int) -> Rows:
        """Keys of items that contain the words, with their versions."""
        return await self._rows(_SEARCH, owner, words, limit)

    async def forget(self, owner: str) -> None:
        """Remove all that an owner has."""

        async def work(db: Any) -> None:
            for sql in _FORGET:
                await db.execute(sql, self._store, owner)

        await self._change(work)

    async def _prepare(self, pool: Any) -> None:
        async with pool.acquire() as db:
            if await db.fetchval(_EXISTS):
                return  # whoever may not make tables can still use those that are there
            async with db.transaction():
                await db.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
                await db.execute(_TABLES)

    async def _rows(self, sql: str, owner: str, *values: object) -> Rows:
        async def work(db: Any) -> Rows:
            return [tuple(row) for row in await db.fetch(sql, self._store, owner, *values)]

        return await self._run(work)

    async def _change(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Do something in one transaction. When it breaks while it is confirmed, nobody knows
        whether it was made, and the caller is told so."""
        finishing = False

        async def transaction(db: Any) -> T:
            nonlocal finishing
            async with db.transaction(isolation="read_committed"):
                done = await work(db)
                finishing = True
            return done

        try:
            return await self._run(transaction)
        except ToolFailure as error:
            if not finishing or error.reason != "upstream_error":
                raise
            text = f"{error.message}; whether the change was made is not known"
            raise ToolFailure(text, reason="outcome_unknown") from error

    async def _run(self, work: Callable[[Any], Awaitable[T]]) -> T:
        if self._pool is None:
            raise ToolFailure("the store is closed", reason="upstream_error")
        try:
            async with self._pool.acquire() as db:
                return await work(db)
        except ToolFailure:
            raise
        except Exception as error:
            words = _words(error)
            if words is None:
                raise
            raise ToolFailure(f"the store failed: {words}", reason="upstream_error") from error


async def _current(db: Any, store: str, owner: str, key: str) -> tuple[int, int | None]:
    """The version and size of a key; 0 and None when it does not exist."""
    found = await db.fetchrow(_CURRENT, store, owner, key)
    return (0, None) if found is None else (found[0], found[1])


def _driver() -> Any:
    """Imported when a database is used: most hosts use none."""
    return importlib.import_module("asyncpg")


def _words(error: BaseException) -> str | None:
    """What the system behind the store says, without what it quotes; None for other errors."""
    driver = _driver()
    if isinstance(error, TimeoutError):
        return "the database does not answer"
    if isinstance(error, driver.InterfaceError):
        return "the connection to the database is lost"
    if isinstance(error, driver.PostgresError):
        return f"the database refuses ({type(error).__name__})"
    if isinstance(error, OSError):
        return "the database cannot be reached"
    return None
