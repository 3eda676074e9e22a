"""Requests whose answers have not come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from toolcrib.client.answers import fault, strange
from toolcrib.client.errors import ClientError, NotToolcrib
from toolcrib.client.pipe import Frame
from toolcrib.client.watching import Watch

Then = Callable[[msgspec.Raw], None]
"""Does at once what must not wait until the asker has its turn."""


class Pending:
    """One of them."""

    __slots__ = ("answer", "then", "watch")

    def __init__(self, watch: Watch | None, then: Then | None) -> None:
        self.answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self.watch = watch
        self.then = then


class Pendings:
    """All of one link, by the ids of the requests."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._all: dict[int | str | None, Pending] = {}

    def add(self, number: int, watch: Watch | None, then: Then | None) -> Pending:
        """Expect an answer."""
        made = self._all[number] = Pending(watch, then)
        return made

    def holds(self, number: int, pending: Pending) -> bool:
        """Whether it still waits."""
        return self._all.get(number) is pending

    def remove(self, number: int, pending: Pending) -> None:
        """Nobody waits for it any more."""
        if self.holds(number, pending):
            del self._all[number]

    def fail(self, why: ClientError) -> None:
        """No answer will come."""
        waiting, self._all = self._all, {}
        for pending in waiting.values():
            if not pending.answer.done():
                pending.answer.set_exception(why)
                pending.answer.exception()  # whoever asked may be gone

    def answered(self, frame: Frame) -> None:
        """An answer has come."""
        pending = self._all.pop(frame.id, None)
        if pending is None or pending.answer.done():
            return  # whoever asked is gone
        if frame.error is None:
            if pending.then is not None:
                pending.then(frame.result)
            pending.answer.set_result(frame.result)
            return
        try:
            problem: ClientError = fault(frame.error.data, self._where)
        except NotToolcrib:
            words = f"it answered with the error {frame.error.code}: {frame.error.message[:200]}"
            problem = strange(self._where, words)
        pending.answer.set_exception(problem)

    def progress(self, params: dict[str, Any]) -> None:
        """The call of a request told how far it is."""
        pending = self._all.get(params.get("id"))
        if pending is not None and pending.watch is not None:
            pending.watch.progress(params.get("fraction"), params.get("message"))
