"""What the contracts put in: requests, grants, calls, sessions and a trail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from toolcrib.core.approval import ApprovalRequest, Grant
from toolcrib.core.chain import START, Block, seal
from toolcrib.core.ledger import LedgerCall, LedgerStep, SessionRow

T = TypeVar("T")

KEY = b"k" * 32
NOW = 1000.0

replace = msgspec.structs.replace


def request(id: str = "r1", **changes: Any) -> ApprovalRequest:
    """A question that waits until `NOW` + 300."""
    made = ApprovalRequest(
        id=id,
        call_id="c1",
        key="key-1",
        tool="deploy",
        digest="d1",
        arguments={"env": "staging", "n": [1, 2.5, None]},
        effects=("write",),
        principal="ann",
        session="s1",
        profile="reviewer",
        door="python",
        revision="v1",
        gate="profile",
        message="May it?",
        rule="ask",
        source="toolcrib.yaml:3",
        offered=("once", "session"),
        via=("host", "cli", "console", "client"),
        edit=False,
        created=NOW,
        expires=NOW + 300,
    )
    return replace(made, **changes)


def answered(asked: ApprovalRequest, **changes: Any) -> ApprovalRequest:
    """A question in its answered form: allowed, unless told otherwise."""
    answer: dict[str, Any] = {"state": "allowed", "by": "bob", "decided": NOW + 10}
    return replace(asked, **(answer | changes))


def grant(id: str = "g1", **changes: Any) -> Grant:
    """A remembered approval."""
    made = Grant(
        id=id,
        tool="deploy",
        digest="d1",
        principal="ann",
        session="s1",
        revision="v1",
        reach="session",
        by="bob",
        created=NOW,
        expires=None,
        request="r1",
    )
    return replace(made, **changes)


def call(id: str = "c1", **changes: Any) -> LedgerCall:
    """A durable call that is ready to run once."""
    made = LedgerCall(
        id=id,
        tool="deploy",
        principal="ann",
        session="s1",
        state="ready",
        delivery="once",
        created=NOW,
        updated=NOW,
    )
    return replace(made, **changes)


def session(id: str = "s1", **changes: Any) -> SessionRow:
    """A session as a store keeps it."""
    made = SessionRow(id=id, principal="ann", profile=None, cwd="/", created=NOW)
    return replace(made, **({"metadata": {"a": [1]}} | changes))


class Records:
    """A trail of plain lines, sealed as a real one is."""

    def __init__(self, run: str = "run-1") -> None:
        self.run = run
        self.written = threading.Event()
        self.problems: list[BaseException] = []
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._steps: tuple[LedgerStep, ...] = ()
        self._head, self._count = START, 0

    def add(self, *lines: bytes, steps: tuple[LedgerStep, ...] = ()) -> None:
        """Have these lines wait for the store, and steps of the ledger with them."""
        with self._lock:
            self._waiting.extend(lines)
            self._steps += steps
            self.written.clear()

    async def arrived(self) -> bool:
        """Whether everything is written within seconds."""
        return await asyncio.to_thread(self.written.wait, 5)

    def take(self) -> Block | None:
        """The lines that wait, as one block."""
        with self._lock:
            if not self._waiting:
                return None
            first, steps = self._count + 1, self._steps
            return seal(self.run, first, self._waiting, self._head, KEY, NOW, steps)

    def done(self, block: Block) -> None:
        """The block is written."""
        with self._lock:
            del self._waiting[: block.count]
            self._steps = self._steps[len(block.steps) :]
            self._head, self._count = block.head, block.last
            if not self._waiting:
                self.written.set()

    def failed(self, block: Block, error: BaseException) -> None:
        """The block could not be written."""
        self.problems.append(error)


async def in_threads(count: int, work: Callable[[int], Coroutine[Any, Any, T]]) -> list[T]:
    """What `work` gives, done at the same time in as many threads, each with its own loop."""
    start = threading.Barrier(count)

    def main(index: int) -> T:
        start.wait()
        return asyncio.run(work(index))

    outcomes: list[Any] = [None] * count

    def keep(index: int) -> None:
        try:
            outcomes[index] = main(index)
        except BaseException as error:
            outcomes[index] = error

    threads = [threading.Thread(target=keep, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes
