"""Descriptors read and written without blocking the loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from executing import descriptors, until
from toolcrib.transports import pipes
from toolcrib.transports.outgoing import MUCH
from toolcrib.transports.pipes import open_reader, open_writer


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """A pipe; the test closes one end and the door the other."""
    before = descriptors()
    yield os.pipe()
    assert descriptors() == before


async def test_lines_are_written_together(ends: tuple[int, int]) -> None:
    reading, writing = ends
    lost: list[int] = []
    writer = await open_writer(writing, lost=lambda: lost.append(1))
    writer.push(b"1")
    assert writer.give(b"2", True) is False
    assert writer.waiting == 4
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert os.read(reading, 100) == b"1\n2\n"
    writer.give(b"3", False)
    assert os.read(reading, 100) == b"3\n"
    await writer.finish(5)
    writer.close()
    assert os.read(reading, 100) == b""
    os.close(reading)


async def test_what_is_left_is_written_at_the_end(ends: tuple[int, int]) -> None:
    reading, writing = ends
    writer = await open_writer(writing, lost=lambda: None)
    for _ in range(20):
        writer.push(b"x" * 50_000)

    async def finish() -> None:
        await writer.finish(10)
        writer.close()

    finishing = asyncio.ensure_future(finish())
    got = b""
    while chunk := await asyncio.to_thread(os.read, reading, 1 << 20):
        got += chunk
    await finishing
    assert len(got) == 20 * 50_001
    os.close(reading)


async def test_nobody_waits_forever_for_a_client_at_the_end(ends: tuple[int, int]) -> None:
    reading, writing = ends
    writer = await open_writer(writing, lost=lambda: None)
    writer.push(b"x" * 500_000)
    await writer.finish(0.05)
    writer.close()
    await asyncio.sleep(0.01)
    os.close(reading)


async def test_a_client_that_does_not_read_is_given_up(
    ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = ends
    monkeypatch.setattr(pipes, "TOO_MUCH", 1_000_000)
    lost: list[int] = []
    writer = await open_writer(writing, lost=lambda: lost.append(1))
    for _ in range(30):
        writer.push(b"x" * 50_000)
        await asyncio.sleep(0)
    assert (writer.closed, writer.why) == (True, "slow_reader")
    assert lost
    writer.push(b"more")
    await asyncio.sleep(0.01)
    os.close(reading)


async def test_a_client_that_went_away(ends: tuple[int, int]) -> None:
    reading, writing = ends
    lost: list[int] = []
    writer = await open_writer(writing, lost=lambda: lost.append(1))
    os.close(reading)
    writer.push(b"1")
    await until(lambda: lost)
    assert (writer.closed, writer.why) == (True, None)


async def test_room_comes_with_reading(ends: tuple[int, int]) -> None:
    reading, writing = ends
    writer = await open_writer(writing, lost=lambda: None)
    writer.give(b"x" * (MUCH + 200_000), False)
    waiting = asyncio.ensure_future(writer.room())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    while not waiting.done():
        os.read(reading, 1 << 20)
        await asyncio.sleep(0.001)
    os.close(reading)
    writer.close()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", ["pipe", "file"])
async def test_reading_stops_and_goes_on(kind: str, tmp_path: Path) -> None:
    before = descriptors()
    got: list[bytes] = []
    over = asyncio.Event()
    if kind == "file":
        file = tmp_path / "in"
        file.write_bytes(b"x" * 1_000_000)
        reading = os.open(file, os.O_RDONLY)
    else:
        reading, writing = os.pipe()

        def fill() -> None:
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(b"x" * 1_000_000)

        filling = asyncio.ensure_future(asyncio.to_thread(fill))

    def feed(data: bytes) -> None:
        got.append(data)
        reader.pause()

    reader = await open_reader(reading, feed, ended=over.set)
    await until(lambda: got)
    await asyncio.sleep(0.05)
    assert len(got) == 1
    while not over.is_set():
        reader.resume()
        await asyncio.sleep(0.001)
    assert sum(map(len, got)) == 1_000_000
    reader.close()
    if kind == "pipe":
        await filling
    await asyncio.sleep(0.01)
    assert descriptors() == before


async def test_a_file_in_place_of_a_pipe(tmp_path: Path) -> None:
    file = tmp_path / "out"
    writer = await open_writer(os.open(file, os.O_WRONLY | os.O_CREAT), lost=lambda: None)
    writer.push(b"1")
    writer.push(b"2")
    await writer.finish(1)
    writer.close()
    assert file.read_bytes() == b"1\n2\n"


async def test_a_full_disk_counts_as_gone() -> None:
    lost: list[int] = []
    writer = await open_writer(os.open("/dev/full", os.O_WRONLY), lost=lambda: lost.append(1))
    writer.give(b"1", False)
    assert (lost, writer.closed) == ([1], True)
    writer.close()
