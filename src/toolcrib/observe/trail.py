"""The trail: records wait here in order until a store's transaction carries them to the disk."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import os
import threading
import time
from collections import deque
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from toolcrib.core.chain import START, Anchor, Block, seal
from toolcrib.core.events import Event, FactRecord, Record, events_of
from toolcrib.core.ledger import LedgerStep
from toolcrib.errors import StoreError

if TYPE_CHECKING:
    from toolcrib.core.protocols import Store


ANCHOR_RECORDS = 64
ANCHOR_SECONDS = 10.0

_encoder = msgspec.json.Encoder(enc_hook=str)
_encode, _encode_lines = _encoder.encode, _encoder.encode_lines


class Listeners(Protocol):
    """Who wants to know at once."""

    active: bool

    def publish(self, event: Event) -> None: ...


_Wanted = tuple["asyncio.Future[None]", LedgerStep | None]
_Waiting = tuple[int, Record, _Wanted | None]
"""A record's number, the record, and who waits until it is on disk, with the ledger's step."""


_number = itemgetter(0)


def _lines(records: list[Record]) -> list[bytes]:
    """A line for each record."""
    try:
        lines = _encode_lines(records)[:-1].split(b"\n")
    except (TypeError, ValueError, OverflowError, RecursionError):
        return [_line(record) for record in records]
    return lines if len(lines) == len(records) else [_line(record) for record in records]


def _line(record: Record) -> bytes:
    try:
        return _encode(record)
    except (TypeError, ValueError, OverflowError, RecursionError):
        # Half a surrogate pair, say. One odd record must neither be lost nor stop the others.
        return _encode([record.__struct_config__.tag, *_scrubbed(msgspec.structs.astuple(record))])


def _scrubbed(value: Any, depth: int = 0) -> Any:
    """`value` in a form that can be written, whatever it is."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if value is None or isinstance(value, bool | int | float):
        return value if not isinstance(value, int) or abs(value) < 2**63 else str(value)
    if isinstance(value, msgspec.Raw):
        return value
    if depth > 64:
        return "…"
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {_scrubbed(str(k)): _scrubbed(v, depth + 1) for k, v in pairs}
    if isinstance(value, list | tuple):
        return [_scrubbed(item, depth + 1) for item in cast("list[Any]", value)]
    return _scrubbed(str(value))


class _Nobody:
    active = False

    def publish(self, event: Event) -> None:
        """Nobody listens."""


class Trail:
    """Numbers, chains and signs records; one trail is one writer's run.

    `append` never waits. `append_and_wait` gives a future that is done once the record is on
    disk, and fails with `StoreError` when it could not be written.
    """

    def __init__(
        self,
        store: Store,
        key: bytes,
        *,
        run: str,
        anchor: str | None = None,
        bus: Listeners | None = None,
    ) -> None:
        self.run = run
        self.broken: StoreError | None = None
        """Why the trail cannot be written now; while it is set, calls are refused."""
        self.bus: Listeners = bus or _Nobody()
        """Who wants to know at once."""
        self._key = key
        self._anchor = anchor
        self._anchored = (0, -math.inf)
        self._store = store
        self._lock = threading.Lock()
        self._next = itertools.count(1).__next__
        self._pending: deque[_Waiting] = deque()
        self._late: list[_Waiting] = []
        """Records that came before one with a smaller number."""
        self._poked = False
        self._finished = False
        self._sealed = 0
        self._head = START
        self._stuck: Block | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loops = 0
        """The loop that waited last, and how often it was another one: mostly there is just one."""
        self._carried: list[asyncio.Future[None]] = []
        """Calls that wait for the block that is on its way."""
        store.attach(self)

    @property
    def written(self) -> int:
        """How many records of this run have reached the store."""
        return self._sealed

    @property
    def numbered(self) -> int:
        """How many records this run has, those among them that wait to be written. Where one of
        them is still awaited, only those before it count."""
        with self._lock:
            sealed = self._sealed if self._stuck is None else self._stuck.last
            return sealed if self._late else sealed + len(self._pending)

    def append(self, record: Record) -> int:
        """Put `record` on the trail; it reaches the disk within a group commit."""
        count = self._next  # with a name of its own, it is not looked up as a method
        seq = count()
        self._pending.append((seq, record, None))
        if not self._poked or not seq & 1023:
            self._poked = True
            self._store.poke(now=False)
        if self.bus.active:
            self._tell(record, seq)
        return seq

    def append_and_wait(
        self, record: Record, step: LedgerStep | None = None
    ) -> asyncio.Future[None] | None:
        """Put `record` on the trail and have it written now, with a step of the ledger; None when
        nothing is to wait for."""
        if not self._store.durable:
            self.append(record)
            return None
        if self._finished:
            raise StoreError("the trail cannot be written: the host has stopped")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if loop is not self._loop:
            self._loops, self._loop = self._loops + 1, loop
        seq = self._next()
        self._pending.append((seq, record, (future, step)))
        self._store.poke(now=True)
        if self.bus.active:
            self._tell(record, seq)
        return future

    def fact(self, type: str, call_id: str | None, data: dict[str, Any]) -> None:
        """Put an event that is not part of a call's own record on the trail."""
        self.append(FactRecord(time.time(), type, call_id, data))

    def _tell(self, record: Record, seq: int) -> None:
        for event in events_of(record, self.run, seq):
            self.bus.publish(event)

    # What the store calls, from its own thread, inside a transaction.

    def take(self) -> Block | None:
        """The records that wait, sealed as one block; a block that failed is offered again."""
        with self._lock:
            if self._stuck is not None:
                return self._stuck
            self._poked = False
            batch = self._in_order()
            if not batch:
                return None
            waits = [want for _, _, want in batch if want is not None]
            lines = _lines([record for _, record, _ in batch])
            self._carried += [future for future, _ in waits]
            steps = tuple([step for _, step in waits if step is not None])
            first, now = self._sealed + 1, time.time()
            block = seal(self.run, first, lines, self._head, self._key, now, steps)
            self._stuck = block
            return block

    def _in_order(self) -> list[_Waiting]:
        """What waits, without gaps. A thread takes its number before it hands in its record, so
        a record can be here before the one it follows; then it waits for the next block."""
        pending = self._pending
        take = pending.popleft
        batch = self._late + [take() for _ in range(len(pending))]
        batch.sort(key=_number)  # nearly always in order already
        first = self._sealed + 1
        whole = len(batch)
        if not batch or batch[-1][0] == first + whole - 1:
            self._late = []
            return batch
        whole = 0
        while whole < len(batch) and batch[whole][0] == first + whole:
            whole += 1
        self._late = batch[whole:]
        return batch[:whole]

    def done(self, block: Block) -> None:
        """`block` is on disk."""
        # The anchor comes first: nobody goes on, and no call comes in, while it cannot be written.
        problem = self._write_anchor(block.last, block.head) if self._anchor else None
        with self._lock:
            self._stuck = None
            self._sealed, self._head = block.last, block.head
            carried, self._carried = self._carried, []
            self.broken = problem
            # Records that came while a block was stuck have poked for nothing. What nobody waits
            # for has time: to write on at once would make a transaction of every few records.
            left = [*self._late, *self._pending]
            self._poked = bool(left)
        self._wake(carried, problem)
        if left:
            self._store.poke(now=any(want is not None for _, _, want in left))

    def failed(self, block: Block, error: BaseException) -> None:
        """`block` could not be written; it is kept and offered again. Everybody who waits for a
        record hears of it, also those whose records come behind it."""
        problem = StoreError(f"the trail cannot be written: {error}")
        with self._lock:
            carried, self._carried = self._carried, []
            pending = self._pending
            behind = self._late + [pending.popleft() for _ in range(len(pending))]
            carried += [want[0] for _, _, want in behind if want is not None]
            self._late = [(seq, record, None) for seq, record, _ in behind]
            self.broken = problem
        self._wake(carried, problem)

    def _wake(self, carried: list[asyncio.Future[None]], problem: StoreError | None) -> None:
        if self._loops == 1 and self._loop is not None and carried:
            _tell_loop(self._loop, carried, problem)
        else:
            _resolve(carried, problem)

    def retry(self) -> None:
        """Try again to write what could not be written."""
        self._store.poke(now=True)

    def _write_anchor(self, last: int, head: bytes, force: bool = False) -> StoreError | None:
        seq, when = self._anchored
        now = time.monotonic()
        if not force and last - seq < ANCHOR_RECORDS and now - when < ANCHOR_SECONDS:
            return None
        anchor = Anchor(run=self.run, seq=last, head=head.hex(), time=time.time())
        path = Path(self._anchor or "")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            descriptor = os.open(path, flags, 0o600)
            try:
                os.write(descriptor, msgspec.json.encode(anchor) + b"\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            return StoreError(f"the anchor {path} cannot be written: {error}")
        self._anchored = (last, now)
        return None

    def finish(self) -> None:
        """Write the last anchor; called after the store has flushed."""
        self._finished = True
        if self._anchor is not None and self._sealed > self._anchored[0]:
            self.broken = self._write_anchor(self._sealed, self._head, force=True)


def read_anchors(path: str) -> list[Anchor]:
    """The anchors in a file; a torn last line is passed over."""
    decode = msgspec.json.Decoder(Anchor).decode
    anchors: list[Anchor] = []
    for line in Path(path).read_bytes().splitlines():
        try:
            anchors.append(decode(line))
        except msgspec.DecodeError:
            continue
    return anchors


def _resolve(futures: list[asyncio.Future[None]], error: StoreError | None) -> None:
    """Wake the waiting calls, each in its own loop, with one call into each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in futures:
        by_loop.setdefault(future.get_loop(), []).append(future)
    for loop, group in by_loop.items():
        _tell_loop(loop, group, error)


def _tell_loop(
    loop: asyncio.AbstractEventLoop, group: list[asyncio.Future[None]], error: StoreError | None
) -> None:
    # A loop that was closed meanwhile has nobody waiting any more.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_set, group, error)


def _set(futures: list[asyncio.Future[None]], error: StoreError | None) -> None:
    for future in futures:
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
