"""What waits for a client that reads slowly, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from executing import until
from toolcrib.transports.outgoing import MUCH, Direct, Outgoing


class Wire:
    """Takes messages when it is open."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.open = asyncio.Event()
        self.broken = False
        self.gone: list[str] = []

    async def send(self, frame: bytes) -> None:
        await self.open.wait()
        if self.broken:
            raise ConnectionError
        self.sent.append(frame)


def made(wire: Wire, **given: Any) -> Outgoing:
    return Outgoing(wire.send, gone=wire.gone.append, **given)


async def test_messages_leave_in_order() -> None:
    wire = Wire()
    out = made(wire)
    out.push(b"1")
    await asyncio.sleep(0)
    assert out.give(b"2", False) is False  # somebody carries already
    out.push(b"3")
    assert (wire.sent, out.waiting) == ([], 3)
    wire.open.set()
    await out.finish(5)
    assert (wire.sent, out.waiting) == ([b"1", b"2", b"3"], 0)


async def test_whoever_has_time_carries() -> None:
    wire = Wire()
    wire.open.set()
    out = made(wire)
    assert out.give(b"1", False) is True
    await out.flush()
    assert wire.sent == [b"1"]


async def test_a_client_that_does_not_read_is_given_up() -> None:
    wire = Wire()
    out = made(wire, most=1000)
    for _ in range(12):
        out.push(b"x" * 100)
    assert wire.gone == ["slow_reader"]
    assert (out.closed, out.waiting) == (True, 0)
    out.push(b"more")
    await asyncio.sleep(0)
    assert (wire.sent, wire.gone) == ([], ["slow_reader"])


async def test_a_client_that_went_away() -> None:
    wire = Wire()
    wire.broken = True
    wire.open.set()
    out = made(wire)
    out.push(b"1")
    await until(lambda: out.closed)
    assert wire.gone == ["client_gone"]


async def test_room_comes_with_reading() -> None:
    wire = Wire()
    out = made(wire)
    await out.room()
    out.push(b"x" * MUCH)
    waiting = asyncio.ensure_future(out.room())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    wire.open.set()
    await waiting


async def test_closing_lets_everybody_go() -> None:
    wire = Wire()
    out = made(wire)
    out.push(b"x" * MUCH)
    waiting = asyncio.ensure_future(out.room())
    await asyncio.sleep(0.01)
    out.close()
    await waiting
    await out.finish(0.01)
    assert wire.gone == []


class Network:
    """Takes what is written in one go."""

    def __init__(self, **given: Any) -> None:
        self.writes: list[list[bytes]] = []
        self.gone: list[str] = []
        self.out = Direct(self._write, gone=self.gone.append, **given)

    def _write(self, frames: Sequence[bytes]) -> None:
        self.writes.append(list(frames))


async def test_direct_messages_of_one_moment_are_written_together() -> None:
    network, other = Network(), Network()
    network.out.give(b"1", False)
    other.out.push(b"a")
    network.out.push(b"2")
    assert network.writes == []
    await asyncio.sleep(0)
    assert (network.writes, other.writes) == ([[b"1", b"2"]], [[b"a"]])
    assert (network.out.waiting, network.out.taken) == (0, 2)


async def test_direct_messages_wait_while_the_network_is_full() -> None:
    network = Network()
    network.out.pause()
    for text in (b"1", b"2"):
        network.out.push(text)
    await asyncio.sleep(0)
    assert (network.writes, network.out.waiting, network.out.taken) == ([], 2, 0)
    network.out.resume()
    assert (network.writes, network.out.waiting, network.out.taken) == ([[b"1", b"2"]], 0, 2)


async def test_a_direct_client_that_does_not_read_is_given_up() -> None:
    network = Network(most=1000)
    network.out.pause()
    for _ in range(12):
        network.out.push(b"x" * 100)
    assert network.gone == ["slow_reader"]
    assert (network.out.closed, network.out.waiting) == (True, 0)
    network.out.push(b"more")
    network.out.resume()
    assert (network.writes, network.gone) == ([], ["slow_reader"])


async def test_direct_room_and_end_come_with_reading() -> None:
    network = Network()
    await network.out.room()
    network.out.pause()
    network.out.push(b"x" * MUCH)
    room = asyncio.ensure_future(network.out.room())
    end = asyncio.ensure_future(network.out.finish(20))
    await asyncio.sleep(0.01)
    assert not room.done()
    assert not end.done()
    network.out.resume()
    await asyncio.gather(room, end)


async def test_one_that_cannot_be_written_to_does_not_stop_the_others() -> None:
    def broken(frames: Sequence[bytes]) -> None:
        raise OSError

    network = Network()
    out = Direct(broken, gone=network.gone.append)
    out.push(b"1")
    network.out.push(b"2")
    await asyncio.sleep(0)
    assert network.writes == [[b"2"]]


async def test_a_direct_message_after_a_pause_in_which_none_came() -> None:
    network = Network()
    network.out.pause()
    network.out.resume()
    network.out.push(b"1")
    await asyncio.sleep(0)
    assert (network.writes, network.out.waiting) == ([[b"1"]], 0)


async def test_a_direct_message_that_is_overtaken_by_a_pause_waits() -> None:
    network = Network()
    network.out.push(b"1")
    network.out.pause()
    network.out.push(b"2")
    await asyncio.sleep(0)
    assert network.writes == []
    network.out.resume()
    network.out.push(b"3")
    await asyncio.sleep(0)
    assert network.writes == [[b"1", b"2"], [b"3"]]


async def test_a_network_that_is_full_after_the_first_direct_message() -> None:
    network = Network()
    write = network._write

    def full(frames: Sequence[bytes]) -> None:
        write(frames)
        network.out.pause()

    network.out = Direct(full, gone=network.gone.append)
    for text in (b"1", b"2"):
        network.out.push(text)
        await asyncio.sleep(0)
    assert (network.writes, network.out.waiting) == ([[b"1"]], 1)
    network.out.resume()
    assert (network.writes, network.out.waiting) == ([[b"1"], [b"2"]], 0)


@pytest.mark.parametrize("count", [1, 3])
async def test_direct_messages_go_on_after_one_that_could_not_be_written(count: int) -> None:
    network = Network()
    write, failing = network._write, [True]

    def once(frames: Sequence[bytes]) -> None:
        if failing:
            failing.clear()
            raise OSError
        write(frames)

    network.out = Direct(once, gone=network.gone.append)
    for _ in range(count):
        network.out.push(b"lost")
    await asyncio.sleep(0)
    network.out.push(b"after")
    await asyncio.sleep(0)
    assert network.writes == [[b"after"]]


async def test_many_direct_messages_leave_in_order_and_in_pieces() -> None:
    network = Network()
    texts = [b"%06d" % n * 5000 for n in range(10)]
    for text in texts:
        network.out.push(text)
    await asyncio.sleep(0)
    assert [text for some in network.writes for text in some] == texts
    assert [len(some) for some in network.writes] == [3, 3, 3, 1]
    assert (network.out.waiting, network.out.taken) == (0, 10)


@pytest.mark.parametrize("before", [[], [b"1"]], ids=["idle", "waiting"])
async def test_a_direct_outlet_that_is_closed_keeps_nothing(before: list[bytes]) -> None:
    network = Network()
    for text in before:
        network.out.push(text)
    network.out.close()
    network.out.push(b"2")
    await asyncio.sleep(0)
    assert (network.writes, network.out.waiting, network.out.taken) == ([], 0, 0)
    await network.out.finish(0.01)
