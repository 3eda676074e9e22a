"""A host as a child process."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from executing import alive, children, descriptors
from served import HOST, until
from toolcrib.client import CannotConnect, Client, ConnectionLost, NotToolcrib
from toolcrib.client import stdio as pipes
from toolcrib.client.sync import Client as SyncClient


def client(program: Path, **options: object) -> Client:
    return Client("stdio:", command=[sys.executable, str(program)], **options)  # pyright: ignore[reportArgumentType]


async def test_calls_and_tools_of_its_own(program: Path) -> None:
    before = children()
    held = descriptors()
    async with client(program) as host:
        assert (await host.call("add", {"a": 1})).output == 3
        assert (await host.info()).door == "stdio"
        await host.register(lambda_named("here"))
        assert (await host.call("here")).output == os.getpid()
        assert (await host.call("number")).output != os.getpid()
    assert children() == before
    assert len(descriptors() - held) <= 1  # what asyncio watches children with


def lambda_named(name: str) -> object:
    def function() -> int:
        return os.getpid()

    function.__name__ = name
    return function


async def test_its_environment_is_clean(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_TOKEN", "s3cret")
    monkeypatch.setenv("A_SECRET", "s3cret")
    async with client(program, environment={"GIVEN": "1"}) as host:
        names = (await host.call("variables")).output
    assert "GIVEN" in names
    assert "PATH" in names
    assert not {"TOOLCRIB_TOKEN", "A_SECRET"} & set(names)


async def test_it_works_in_the_folder_it_is_given(program: Path) -> None:
    host = Client("stdio:", command=[sys.executable, program.name], cwd=program.parent)
    async with host:
        assert (await host.call("add", {"a": 1})).output == 3


async def test_nothing_is_left_of_it(program: Path) -> None:
    async with client(program) as host:
        started = (await host.call("child")).output
        number = (await host.call("number")).output
        assert alive(started)
    assert not alive(number)
    await until(lambda: not alive(started))


async def test_one_that_does_not_go_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes, "GRACE", 0.2)
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(
        "import signal, threading\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "import atexit, time\natexit.register(lambda: time.sleep(60))\n" + HOST
    )
    monkeypatch.setattr(pipes, "LAST", 0.2)
    host = client(stubborn)
    await host.start()
    number = (await host.call("number")).output
    await host.stop()
    assert not alive(number)


async def test_one_that_waits_for_a_signal_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes, "GRACE", 0.2)
    patient = tmp_path / "patient.py"
    patient.write_text(
        "import pathlib, signal, sys, time\n"
        "def told(*_):\n"
        "    pathlib.Path(sys.argv[1]).write_text('told')\n"
        "    raise SystemExit\n"
        "signal.signal(signal.SIGTERM, told)\n"
        "print('no JSON', flush=True)\n"
        "while True: time.sleep(60)\n"
    )
    note = tmp_path / "note"
    host = Client("stdio:", command=[sys.executable, str(patient), str(note)])
    with pytest.raises(NotToolcrib):
        await host.start()
    assert note.read_text() == "told"


async def test_one_that_ends_says_how(program: Path) -> None:
    async with client(program) as host:
        slow = asyncio.ensure_future(host.call("slow"))
        await asyncio.sleep(0.1)
        result = await host.call("leave")
        assert result.reason == "outcome_unknown"
        assert result.error is not None
        assert "ended with code 3" in result.error.message
        assert (await slow).reason == "outcome_unknown"
        with pytest.raises(ConnectionLost, match="ended with code 3"):
            await host.call("add", {"a": 1})


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(CannotConnect, match="cannot be started"):
        await Client("stdio:", command=["/nowhere/toolcrib"]).start()


@pytest.mark.parametrize("source", ["print('Hello!')", "raise SystemExit(4)"])
async def test_a_program_that_is_no_host(tmp_path: Path, source: str) -> None:
    other = tmp_path / "other.py"
    other.write_text(source)
    before = children()
    with pytest.raises(Exception, match=r"no JSON-RPC|ended with code 4") as wrong:
        await client(other).start()
    assert type(wrong.value).__module__ == "toolcrib.client.errors"
    assert children() == before


def test_from_synchronous_code(program: Path) -> None:
    before = children()
    with SyncClient("stdio:", command=[sys.executable, str(program)]) as host:
        assert host.call("add", {"a": 1}).output == 3
    assert children() == before
