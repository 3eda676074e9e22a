"""Event streams: numbered, bounded, resumed where they broke off, and never waited for."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from executing import until
from toolcrib.transports.mcp.streams import (
    MOST_BYTES,
    MOST_KEPT,
    MOST_WAITING,
    Events,
    Heart,
    Stream,
    event,
    position,
)


class Reader:
    """The other end of an HTTP answer."""

    def __init__(self) -> None:
        self.sent: list[MutableMapping[str, Any]] = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.cut = 0

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self.may_read.wait()
        self.sent.append(message)

    def cut_off(self) -> None:
        self.cut += 1

    def events(self) -> Events:
        return Events(self.send, self.cut_off)

    @property
    def text(self) -> str:
        return b"".join(each.get("body", b"") for each in self.sent).decode()

    @property
    def messages(self) -> list[str]:
        return [
            line[6:] for line in self.text.split("\n") if line.startswith("data: ") and line[6:]
        ]

    @property
    def ids(self) -> list[str]:
        return [line[4:] for line in self.text.split("\n") if line.startswith("id: ")]


async def test_nothing_is_sent_before_the_first_message() -> None:
    reader = Reader()
    events = reader.events()
    await asyncio.sleep(0)
    assert reader.sent == []
    events.push(b"data: 1\n\n")
    await events.end()
    assert [each["type"] for each in reader.sent] == [
        "http.response.start",
        "http.response.body",
        "http.response.body",
    ]
    headers = dict(reader.sent[0]["headers"])
    assert headers[b"x-accel-buffering"] == b"no"
    assert reader.sent[-1] == {"type": "http.response.body", "body": b""}


async def test_a_stream_goes_on_with_another_reader() -> None:
    first, second = Reader(), Reader()
    stream = Stream("a", primed=True)
    one = first.events()
    stream.attach(one)
    stream.push(b"1")
    await asyncio.sleep(0)
    stream.detach(one)
    one.leave()
    stream.push(b"2")
    stream.push(b"3")
    two = second.events()
    stream.attach(two, after=1)
    stream.push(b"4")
    await two.end()
    assert (first.messages, first.ids) == (["1"], ["a-0", "a-1"])
    assert (second.messages, second.ids) == (["2", "3", "4"], ["a-2", "a-3", "a-4"])
    assert "retry: " in first.text


async def test_what_nobody_read_is_there_for_whoever_comes() -> None:
    """Without an id to resume from, a reader gets what no other one was sent."""
    stream = Stream("0", primed=False)
    stream.push(b"early")
    first = Reader()
    one = first.events()
    stream.attach(one)
    await one.end()
    assert (first.messages, first.ids) == (["early"], ["0-1"])
    second = Reader()
    two = second.events()
    stream.attach(two)
    await two.end()
    assert second.messages == []


async def test_the_newest_reader_has_the_stream_alone() -> None:
    stream = Stream("0", primed=True)
    first, second = Reader(), Reader()
    one, two = first.events(), second.events()
    stream.attach(one)
    stream.attach(two)
    assert one.over.done()
    stream.push(b"news")
    stream.detach(one)  # late: it is not its own any more
    assert stream.attached
    await one.end()
    await two.end()
    assert (first.messages, second.messages) == ([], ["news"])


async def test_only_so_much_is_kept() -> None:
    stream = Stream("0", primed=False)
    for number in range(MOST_KEPT * 2):
        stream.push(b"%d" % number)
    reader = Reader()
    events = reader.events()
    stream.attach(events, after=0)
    await events.end()
    assert reader.messages == [str(n) for n in range(MOST_KEPT, MOST_KEPT * 2)]
    for _ in range(5):
        stream.push(b"x" * (MOST_BYTES // 2))
    stream.push(b"y" * (MOST_BYTES * 2))
    reader = Reader()
    events = reader.events()
    stream.attach(events, after=0)
    await events.end()
    assert [text[0] for text in reader.messages] == ["y"]  # the last one is, however long it is


async def test_who_does_not_read_is_cut_off() -> None:
    reader = Reader()
    reader.may_read.clear()
    events = reader.events()
    for _ in range(3):
        events.push(b"x" * MOST_WAITING)
        await asyncio.sleep(0)
    assert reader.cut == 1
    assert events.closed
    assert events.over.done()
    assert events.waiting == 0
    await events.end()


async def test_a_reader_that_fails_is_gone() -> None:
    async def broken(_: Any) -> None:
        raise OSError("gone")

    events = Events(broken, None)
    events.push(b"x")
    await events.over
    assert events.closed


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("0-1", ("0", 1)),
        ("a-b-12", ("a-b", 12)),
        ("0-0", ("0", 0)),
        ("", None),
        ("0", None),
        ("-1", None),
        ("0-", None),
        ("0-x", None),
        ("0-²", None),
        ("0--1", ("0-", 1)),
        ("0-" + "1" * 13, None),
    ],
)
def test_places(text: str, place: Any) -> None:
    assert position(text) == place


def test_an_event_has_no_line_breaks_of_its_own() -> None:
    """What passes through as it came may be written on several lines."""
    assert event(b'{"a":\r\n [1,\n2]}').count(b"\n") == 3
    assert b'data: {"a":   [1, 2]}\n\n' in event(b'{"a":\r\n [1,\n2]}', b"1-1")


async def test_a_heart_beats_for_those_who_are_there() -> None:
    beats: list[str] = []

    class One:
        def __init__(self, name: str) -> None:
            self.name = name

        def beat(self) -> None:
            beats.append(self.name)

    heart = Heart(lambda: 0.01)
    left, stays = One("left"), One("stays")
    heart.add(left)
    heart.add(stays)
    heart.discard(left)
    await until(lambda: beats.count("stays") >= 3)
    assert "left" not in beats
    heart.stop()
    count = len(beats)
    await asyncio.sleep(0.05)
    assert len(beats) == count
