"""Messages that come by themselves: in order, in turns, and not faster than answers are read."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from toolcrib.transports.outgoing import MUCH, Direct
from toolcrib.transports.reading import AT_ONCE, Intake


class Taker:
    """Answers each message with so many bytes."""

    def __init__(self, size: int = 1) -> None:
        self.got: list[bytes] = []
        self.more = False
        self.size = size
        self.out = Direct(lambda frames: None, gone=lambda why: None)

    def receive(self, text: bytes) -> None:
        self.got.append(text)
        self.out.give(b"x" * self.size, self.more)


class Source:
    def __init__(self) -> None:
        self.reading = True

    def pause(self) -> None:
        self.reading = False

    def resume(self) -> None:
        self.reading = True


def made(taker: Taker) -> tuple[Intake, Source]:
    source = Source()
    return Intake(cast("Any", taker), taker.out, source), source


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % n for n in range(first, first + count)]


async def test_many_messages_leave_others_their_turn() -> None:
    taker = Taker()
    intake, source = made(taker)
    intake.take_all(numbers(AT_ONCE * 2 + 1))
    assert (len(taker.got), source.reading) == (AT_ONCE, False)
    intake.take(b"last")  # it does not get ahead of those that wait
    for _ in range(3):
        await asyncio.sleep(0)
    assert taker.got == [*numbers(AT_ONCE * 2 + 1), b"last"]
    assert source.reading


async def test_nothing_is_taken_while_the_client_does_not_read() -> None:
    taker = Taker(MUCH)
    intake, source = made(taker)
    taker.out.pause()
    intake.take(b"0")
    intake.take_all(numbers(2, 1))
    await asyncio.sleep(0.01)
    assert (taker.got, source.reading) == ([b"0"], False)
    taker.out.resume()
    await asyncio.sleep(0.01)
    assert (taker.got, source.reading) == (numbers(3), True)


async def test_the_end_comes_behind_everything() -> None:
    taker = Taker(MUCH)
    intake, _ = made(taker)
    ended: list[int] = []
    taker.out.pause()
    intake.take_all(numbers(2))
    intake.finish(lambda: ended.append(len(taker.got)))
    await asyncio.sleep(0.01)
    assert ended == []
    taker.out.resume()
    await asyncio.sleep(0.01)
    assert ended == [2]


async def test_whoever_stops_takes_nothing_more() -> None:
    taker = Taker(MUCH)
    intake, _ = made(taker)
    before = asyncio.all_tasks()
    taker.out.pause()
    intake.take_all(numbers(2))
    intake.stop()
    intake.take(b"more")
    intake.take_all([b"more"])
    taker.out.resume()
    await asyncio.sleep(0.01)
    assert taker.got == [b"0"]
    assert asyncio.all_tasks() == before
