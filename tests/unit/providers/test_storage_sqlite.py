"""What only the store in a file does: its file, its thread, its failures."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ToolContext
from toolcrib.errors import StoreError, ToolFailure
from toolcrib.providers.storage.provider import StorageProvider, factory


class Folder:
    """What a provider is lent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sandbox(self, name: str | None = None) -> Any:
        raise AssertionError("a store runs no commands")

    def file(self, path: str) -> Path:
        return self.folder / path


def store_in(folder: Path, name: str = "notes") -> StorageProvider:
    settings = {"backend": "sqlite", "path": "data/notes.db"}
    return factory(name, settings, Folder(folder))


async def call(store: StorageProvider, action: str, **arguments: Any) -> Any:
    return await store.execute(ToolContext(tool=f"{store.name}-{action}", arguments=arguments))


def held(folder: Path) -> list[str]:
    """What this process has open there, and the threads of stores."""
    links = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    threads = [thread.name for thread in threading.enumerate() if "storage-" in thread.name]
    return [link for link in links if link.startswith(str(folder))] + threads


async def test_it_is_kept_beside_the_configuration_for_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with store_in(tmp_path) as store:
            await call(store, "write", key="k", value="kept")
            files = {path.name: path for path in (tmp_path / "data").iterdir()}
            assert set(files) == {"notes.db", "notes.db-wal", "notes.db-shm"}
            modes = {stat.S_IMODE(path.stat().st_mode) for path in files.values()}
            assert modes == {0o600}
            assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    finally:
        os.umask(before)
    async with store_in(tmp_path) as store:
        assert (await call(store, "read", key="k"))["value"] == "kept"


async def test_it_leaves_nothing_open(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        await call(store, "write", key="k", value=1)
        assert held(tmp_path)
    (tmp_path / "data/notes.db").write_bytes(b"this is no database, whatever its name says" * 99)
    with pytest.raises(StoreError):
        await store_in(tmp_path).__aenter__()
    for _ in range(200):
        if not held(tmp_path):
            break
        await asyncio.sleep(0.01)
    assert held(tmp_path) == []


async def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "data/notes.db"
    path.parent.mkdir()
    path.write_text("a shopping list " * 100)
    with pytest.raises(StoreError, match="it is not a database"):
        await store_in(tmp_path).__aenter__()
    assert path.read_text() == "a shopping list " * 100


async def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where a folder is needed")
    with pytest.raises(StoreError, match=r"notes\.db: it cannot be made"):
        await store_in(tmp_path).__aenter__()


@pytest.mark.parametrize("how", ["gone", "replaced"])
async def test_its_health_is_bad_when_the_file_is_not_its_own(how: str, tmp_path: Path) -> None:
    path = tmp_path / "data/notes.db"
    async with store_in(tmp_path) as store:
        await store.health()
        path.rename(tmp_path / "elsewhere.db")
        if how == "replaced":
            path.touch()
        with pytest.raises(StoreError, match="gone" if how == "gone" else "taken its place"):
            await store.health()


async def test_processes_share_a_file_and_one_writer_wins(tmp_path: Path) -> None:
    async with store_in(tmp_path) as one, store_in(tmp_path) as other:
        ended = await asyncio.gather(
            *(
                call(store, "write", key="k", value=n, if_version=0)
                for n in range(25)
                for store in (one, other)
            ),
            return_exceptions=True,
        )
        assert ended.count({"version": 1}) == 1
        lost = [one for one in ended if isinstance(one, ToolFailure)]
        assert [failure.reason for failure in lost] == ["version_conflict"] * 49


class Hog:
    """Another process that is writing."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, *exc: object) -> None:
        self._db.execute("ROLLBACK")
        self._db.close()


async def test_the_loop_goes_on_while_it_waits_and_a_cancelled_write_is_not_made(
    tmp_path: Path,
) -> None:
    async with store_in(tmp_path) as store:
        await call(store, "write", key="k", value="before")
        with Hog(tmp_path / "data/notes.db"):
            first = asyncio.create_task(call(store, "write", key="k", value="late"))
            second = asyncio.create_task(call(store, "write", key="k", value="queued"))
            ticks = 0
            for _ in range(10):
                await asyncio.sleep(0.005)
                ticks += 1
            assert not first.done()
            assert ticks == 10
            for task in (second, first):
                task.cancel()
            async with asyncio.timeout(2):  # well before the patience with others is over
                await asyncio.wait({first, second})
            assert first.cancelled()
            assert second.cancelled()
        assert await call(store, "read", key="k") == {"value": "before", "version": 1}


async def test_it_waits_for_a_short_writer(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        with Hog(tmp_path / "data/notes.db"):
            task = asyncio.create_task(call(store, "write", key="k", value=1))
            await asyncio.sleep(0.05)
        assert await task == {"version": 1}


async def test_a_failing_disk_is_a_failure_of_the_system_behind_it(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        other = sqlite3.connect(tmp_path / "data/notes.db")
        other.execute("DROP TABLE toolcrib_storage_items")
        other.close()
        with pytest.raises(ToolFailure) as caught:
            await call(store, "read", key="k")
        assert caught.value.reason == "upstream_error"
    with pytest.raises(ToolFailure) as caught:
        await call(store, "read", key="k")
    assert caught.value.reason == "upstream_error"
