"""What only the SQLite store does: its file, its thread, its failures."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolcrib.core.approval import ApprovalRequest
from toolcrib.core.chain import START, Block, seal, verify_run
from toolcrib.core.ledger import LedgerCall
from toolcrib.errors import StoreError
from toolcrib.stores import migrations
from toolcrib.stores.sqlite import SqliteStore

KEY = b"k" * 32


class Records:
    """A trail that counts how often it is asked, and what it is told."""

    def __init__(self, run: str = "run") -> None:
        self.run = run
        self.takes = 0
        self.failures: list[BaseException] = []
        self.written = threading.Event()
        self.refused = threading.Event()
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._head, self._count = START, 0

    def add(self, *lines: bytes) -> None:
        with self._lock:
            self._waiting.extend(lines)
            self.written.clear()
            self.refused.clear()

    def take(self) -> Block | None:
        with self._lock:
            self.takes += 1
            if not self._waiting:
                return None
            return seal(self.run, self._count + 1, self._waiting, self._head, KEY, 0.0)

    def done(self, block: Block) -> None:
        with self._lock:
            del self._waiting[: block.count]
            self._head, self._count = block.head, block.last
            if not self._waiting:
                self.written.set()

    def failed(self, block: Block, error: BaseException) -> None:
        self.failures.append(error)
        self.refused.set()

    async def until_written(self) -> None:
        assert await asyncio.to_thread(self.written.wait, 10)

    async def until_refused(self) -> None:
        assert await asyncio.to_thread(self.refused.wait, 10)


def call(id: str, **changes: Any) -> LedgerCall:
    made = LedgerCall(
        id=id,
        tool="t",
        principal="ann",
        session=None,
        state="ready",
        delivery="once",
        created=0.0,
        updated=0.0,
    )
    return msgspec.structs.replace(made, **changes)


def request(id: str, **changes: Any) -> ApprovalRequest:
    made = ApprovalRequest(
        id=id,
        call_id="c",
        key="key",
        tool="t",
        digest="d",
        arguments={},
        effects=None,
        principal="ann",
        session=None,
        profile=None,
        door="process",
        revision="v",
        gate="g",
        message=None,
        rule=None,
        source=None,
        offered=("once",),
        via=(),
        edit=False,
        created=0.0,
        expires=100.0,
    )
    return msgspec.structs.replace(made, **changes)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "store.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(file, busy_timeout=0.05)
    await made.open()
    yield made
    await made.close()


@contextmanager
def other_writer(file: Path) -> Iterator[None]:
    """Somebody who holds the write lock."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file can grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "toolcrib" in thread.name]


# The file


async def test_nothing_happens_before_the_opening(file: Path) -> None:
    store = SqliteStore(file)
    store.attach(Records())
    store.poke(now=True)
    assert not file.parent.exists()
    assert our_threads() == []


async def test_only_the_owner_can_open_the_files(store: SqliteStore, file: Path) -> None:
    await store.put_call(call("c"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_closing_leaves_one_file_and_no_thread(file: Path) -> None:
    store = SqliteStore(file)
    await store.open()
    await store.put_call(call("c"))
    await store.calls()
    assert sorted(our_threads()) == ["toolcrib-store", "toolcrib-store-reader"]
    await store.close()
    assert our_threads() == []
    assert [path.name for path in file.parent.iterdir()] == ["store.db"]
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


async def test_many_stores_make_one_file_together(file: Path) -> None:
    stores = [SqliteStore(file) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(store.put_call(call(str(n))) for n, store in enumerate(stores)))
    assert len(await stores[0].calls()) == 8
    await asyncio.gather(*(store.close() for store in stores))


async def test_an_older_file_is_brought_up_to_date(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(file)
    await store.open()
    await store.put_call(call("c"))
    await store.close()
    step = ("ALTER TABLE calls ADD COLUMN colour TEXT", "UPDATE calls SET colour = 'red'")
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, step))
    await store.open()
    assert await store.get_call("c") == call("c")
    await store.close()
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT colour FROM calls").fetchall() == [("red",)]
    connection.close()
    monkeypatch.undo()
    with pytest.raises(StoreError, match=r"newer Toolcrib \(file version 2.* Update Toolcrib"):
        await store.open()


async def test_a_migration_that_fails_changes_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(file)
    await store.open()
    await store.close()
    step = ("CREATE TABLE half (a)", "CREATE TABLE calls (a)")
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, step))
        with pytest.raises(StoreError, match="calls already exists"):
            await store.open()
    await store.open()
    await store.close()
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT 1 FROM sqlite_master WHERE name='half'").fetchall() == []
    connection.close()


def other_program() -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE diary (page)")
    content = connection.serialize()
    connection.close()
    return content


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"dear diary, " * 1000, "it is not a database"), (other_program(), "another program")],
)
def test_a_file_that_is_not_ours_is_left_alone(file: Path, content: bytes, words: str) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(StoreError, match=words) as caught:
        asyncio.run(SqliteStore(file).open())
    assert str(file) in str(caught.value)
    assert file.read_bytes() == content
    assert list(file.parent.iterdir()) == [file]


async def test_a_place_where_no_file_can_be_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be made"):
        await SqliteStore(tmp_path / "file" / "store.db").open()
    with pytest.raises(StoreError, match="cannot be opened"):
        await SqliteStore(tmp_path).open()


async def test_a_locked_file_cannot_be_opened_and_later_it_can(file: Path) -> None:
    store = SqliteStore(file, busy_timeout=0.05)
    await store.open()
    await store.close()
    with other_writer(file), pytest.raises(StoreError, match="locked"):
        await store.open()
    assert our_threads() == []
    await store.open()
    assert await store.put_call(call("c"))
    await store.close()


# The thread


async def test_jobs_that_wait_together_share_a_transaction(store: SqliteStore) -> None:
    trail = Records()
    store.attach(trail)

    async def work(task: int) -> None:
        for step in range(5):
            await store.put_call(call(f"{task}.{step}"))

    await asyncio.gather(*(work(task) for task in range(64)))
    assert len(await store.calls(limit=1000)) == 320
    assert trail.takes < 160


async def test_a_job_that_fails_does_not_harm_those_beside_it(store: SqliteStore) -> None:
    trail = Records()
    store.attach(trail)
    trail.add(b"1")
    outcomes = await asyncio.gather(
        store.put_request(request("same", key="1")),
        store.put_request(request("same", key="2")),
        store.put_request(request("other", key="3")),
        store.put_call(call("\udcff")),
        store.put_call(call("c")),
        return_exceptions=True,
    )
    assert [isinstance(outcome, StoreError) for outcome in outcomes] == [
        False,
        True,
        False,
        True,
        False,
    ]
    assert {one.id for one in await store.requests()} == {"same", "other"}
    assert trail.written.is_set()


async def test_nothing_happens_while_nothing_is_to_do(store: SqliteStore) -> None:
    trail = Records()
    store.attach(trail)
    await asyncio.sleep(0.2)
    assert trail.takes == 0


async def test_gentle_pokes_share_a_transaction(store: SqliteStore) -> None:
    trail = Records()
    store.attach(trail)
    for number in range(20):
        trail.add(b"%d" % number)
        store.poke(now=False)
    await trail.until_written()
    assert len(await store.blocks()) < 10


async def test_a_loop_that_is_gone_does_not_stop_the_thread(store: SqliteStore, file: Path) -> None:
    async def begin() -> None:
        for pending in (store.put_call(call("a")), store.put_call(call("b")), store.calls()):
            pending.send(None)
            pending.close()

    def leave() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(begin())
        loop.close()

    with other_writer(file):  # so that the answers come when the loop is gone
        await asyncio.to_thread(leave)
    assert await store.put_call(call("c"))
    assert await store.get_call("c") == call("c")


async def test_one_store_serves_several_loops(store: SqliteStore) -> None:
    def work(number: int) -> bool:
        return asyncio.run(store.put_call(call(str(number))))

    kept = await asyncio.gather(*(asyncio.to_thread(work, n) for n in range(8)))
    assert kept == [True] * 8
    assert len(await store.calls()) == 8


async def test_two_trails_share_a_store(store: SqliteStore) -> None:
    one, two = Records("one"), Records("two")
    store.attach(one)
    store.attach(two)
    store.attach(one)
    one.add(b"1")
    two.add(b"1", b"2")
    await store.put_call(call("c"))
    assert {block.run: block.count for _, block in await store.blocks()} == {"one": 1, "two": 2}


# Failures


async def test_a_locked_file_keeps_records_until_it_is_free(store: SqliteStore, file: Path) -> None:
    trail = Records()
    store.attach(trail)
    with other_writer(file):
        trail.add(b"1", b"2")
        store.poke(now=True)
        await trail.until_refused()
        trail.add(b"3")
        store.poke(now=False)
        await trail.until_refused()
    await trail.until_written()  # nobody has to poke again
    assert all("locked" in str(failure) for failure in trail.failures)
    kept = [block for _, block in await store.blocks()]
    assert verify_run("run", kept, KEY).records == 3


async def test_a_locked_file_fails_the_jobs_and_not_the_store(
    store: SqliteStore, file: Path
) -> None:
    await store.put_call(call("before"))
    with other_writer(file):
        outcomes = await asyncio.gather(
            *(store.put_call(call(str(n))) for n in range(5)), return_exceptions=True
        )
        assert {type(outcome) for outcome in outcomes} == {StoreError}
        assert str(file) in str(outcomes[0])
        assert [one.id for one in await store.calls()] == ["before"]
    assert await store.put_call(call("after"))
    assert {one.id for one in await store.calls()} == {"before", "after"}


async def test_a_full_disk_keeps_records_until_there_is_space(
    store: SqliteStore, file: Path
) -> None:
    trail = Records()
    store.attach(trail)
    big = b"x" * 1_000_000
    with full_disk(500_000):
        trail.add(big)
        store.poke(now=True)
        await trail.until_refused()
        with pytest.raises(StoreError, match="disk"):
            await store.put_call(call("c"))
        trail.add(b"2")
    await trail.until_written()
    assert await store.get_call("c") is None
    kept = [block for _, block in await store.blocks()]
    assert verify_run("run", kept, KEY).records == 2
    assert kept[0].lines.startswith(big)


async def test_records_that_cannot_be_written_at_closing_are_reported(file: Path) -> None:
    store, trail = SqliteStore(file, busy_timeout=0.05), Records()
    store.attach(trail)
    await store.open()
    with other_writer(file):
        trail.add(b"1")
        with pytest.raises(StoreError, match="locked"):
            await store.close()
    await store.close()
    assert trail.failures
    await store.open()
    await store.close()
    assert trail.written.is_set()


async def test_closing_a_locked_file_without_records_is_quiet(file: Path) -> None:
    store = SqliteStore(file, busy_timeout=0.05)
    store.attach(Records())
    await store.open()
    with other_writer(file):
        await store.close()
    assert our_threads() == []


async def test_a_trail_that_raises_fails_the_jobs_and_not_the_thread(
    store: SqliteStore,
) -> None:
    class Broken(Records):
        ink = False

        def take(self) -> Block | None:
            if not self.ink:
                raise RuntimeError("no ink")
            return super().take()

    trail = Broken()
    store.attach(trail)
    with pytest.raises(StoreError, match="no ink"):
        await store.put_call(call("c"))
    trail.ink = True
    assert await store.put_call(call("c"))


# Other processes


async def test_two_stores_see_each_others_answers(store: SqliteStore, file: Path) -> None:
    other = SqliteStore(file)
    await other.open()
    await store.put_request(request("r"))
    assert (await other.put_request(request("r2"))).id == "r"
    answer = request("r", state="allowed", decided=1.0)
    assert await other.answer_request(answer)
    assert not await store.answer_request(answer)
    assert await store.get_request("r") == answer
    redeemed = await asyncio.gather(
        *(one.redeem_request("r", key="key", call_id="c", now=2.0) for one in [store, other] * 10)
    )
    assert redeemed.count(True) == 1
    await other.close()


async def test_another_stores_change_ends_the_waiting(store: SqliteStore, file: Path) -> None:
    other = SqliteStore(file)
    await other.open()
    waiting = asyncio.create_task(store.wait(timeout=10))
    await asyncio.sleep(0)
    await other.put_request(request("r"))
    assert await waiting is True
    await store.requests()
    assert await store.wait(timeout=0.01) is False
    await other.close()


async def test_another_stores_change_between_reading_and_waiting_is_not_missed(
    store: SqliteStore, file: Path
) -> None:
    other = SqliteStore(file)
    await other.open()
    await store.get_request("r")
    await other.put_request(request("r"))
    assert await store.wait(timeout=10) is True
    await other.close()
