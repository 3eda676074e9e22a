"""A sandbox that does not hold, or is not there, is not used; and nothing else in its place."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.sandbox import SelfTest
from toolcrib.errors import ToolFailure
from toolcrib.sandbox import base, bubblewrap, confine, landlock, once, seccomp, view
from toolcrib.sandbox.build import FACTORIES, report, strict

Make = Callable[..., Any]


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    once.forget()
    bubblewrap._bwrap.cache_clear()
    yield
    once.forget()
    bubblewrap._bwrap.cache_clear()


async def refused(box: Any) -> str:
    """Both ways of starting a command are refused, with these words."""
    words: list[str] = []
    for start in (box.run, box.spawn):
        with pytest.raises(ToolFailure) as caught:
            await start(["true"], cwd="/usr", env={})
        assert caught.value.reason == "sandbox_unavailable"
        words.append(caught.value.message)
    assert words[0] == words[1]
    return words[0]


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


async def test_a_missing_program_says_how_to_get_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = make("bubblewrap")
    monkeypatch.setenv("PATH", "/nowhere")
    assert "apt-get install bubblewrap" in await refused(box)


async def test_namespaces_that_cannot_be_made_are_said(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    box = make("bubblewrap")
    line = "#!/bin/sh\necho 'bwrap: Creating new namespace failed' >&2; exit 1\n"
    program(tmp_path, "bwrap", line)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    words = await refused(box)
    assert "Creating new namespace failed" in words
    assert "sysctl" in words


async def test_a_program_that_isolates_nothing_is_found_out(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    box = make("bubblewrap")
    # Waits for its arguments, then starts the command as it is, and says that all went well.
    text = """#!/usr/bin/python3
import os, subprocess, sys
words = os.read(int(sys.argv[2]), 65536).split(b"\\0")
status = int(words[words.index(b"--json-status-fd") + 1])
os.write(status, b'{"exit-code": 0}')
os.chdir(words[words.index(b"--chdir") + 1])
sys.exit(subprocess.run(sys.argv[4:]).returncode)
"""
    program(tmp_path, "bwrap", text)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    words = await refused(box)
    for probe in ("read_secret", "host_tcp", "see_process", "ptrace"):
        assert probe in words
    tested = await box.probe()
    assert {finding.probe for finding in tested.findings if finding.held is False} >= {
        "read_secret",
        "symlink_out",
        "host_unix_path",
    }


def without(*words: str) -> tuple[str, ...]:
    return tuple(word for word in bubblewrap._NAMESPACES if word not in words)


@pytest.mark.parametrize(
    ("removed", "probes"),
    [
        ("filter", {"keyctl", "add_key", "ptrace"}),
        ("private", {"see_process"}),
    ],
)
async def test_every_part_of_bubblewrap_is_needed(
    make: Make, monkeypatch: pytest.MonkeyPatch, removed: str, probes: set[str]
) -> None:
    if removed == "filter":
        allow_all = bytes.fromhex("06 00 00 00 00 00 ff 7f")
        monkeypatch.setattr(seccomp, "program", lambda **_: allow_all)
    else:
        words = ("--unshare-user", "--unshare-ipc", "--unshare-net", "--unshare-uts")
        monkeypatch.setattr(
            bubblewrap, "_NAMESPACES", (*words, *without("--unshare-all", "--disable-userns"))
        )
    tested = await make("bubblewrap").probe()
    assert not tested.available
    broken = {finding.probe for finding in tested.findings if finding.held is False}
    assert broken >= probes, (broken, tested.message)
    assert "does not hold here" in tested.message
    # Each of these is kept by one part alone when another is missing.
    assert not broken & {"mount", "packet_socket", "raw_socket", "device", "kernel_settings"}
    assert not broken & {"read_secret", "write_system", "host_tcp", "environment", "descriptor"}
    if removed == "filter":
        assert "user_namespace" not in broken


async def test_landlock_needs_its_filter(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    box = make("landlock")
    real = seccomp.program
    monkeypatch.setattr(seccomp, "program", lambda **_: real(unix=True, internet=True))
    tested = await box.probe()
    broken = {finding.probe for finding in tested.findings if finding.held is False}
    assert {"host_udp", "host_unix_path", "change_mode", "shared_memory", "limit_process"} <= broken
    assert "host_tcp" not in broken
    assert "host_unix_abstract" not in broken


async def test_landlock_needs_its_rules(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    box = make("landlock")
    monkeypatch.setattr(landlock, "_readable", lambda network: ["/"])
    tested = await box.probe()
    broken = {finding.probe for finding in tested.findings if finding.held is False}
    assert {"read_secret", "symlink_out", "see_process"} <= broken


async def test_an_old_kernel_has_no_landlock_sandbox(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = make("landlock")
    monkeypatch.setattr(confine, "abi", lambda: 5)
    assert "Landlock version 5" in await refused(box)


async def test_there_is_none_beside_linux(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    boxes = [make(backend) for backend in ("subprocess", "bubblewrap", "landlock")]
    monkeypatch.setattr(base.platform, "system", lambda: "Darwin")
    for box in boxes:
        assert "only for Linux, not for Darwin" in await refused(box)


async def test_a_machine_without_a_filter_has_no_sandbox(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seccomp, "machine", lambda: "s390x")
    seccomp.program.cache_clear()
    for backend in ("bubblewrap", "landlock"):
        assert "s390x" in await refused(make(backend))


async def test_a_subprocess_says_that_it_isolates_nothing(make: Make) -> None:
    box = make("subprocess")
    tested = await box.probe()
    assert tested.available
    assert tested.message.startswith("It isolates nothing")
    assert box.isolates == {"environment", "resources"}


async def test_an_available_sandbox_held_every_probe(make: Make) -> None:
    for backend in ("bubblewrap", "landlock"):
        tested = await make(backend).probe()
        assert tested.available, tested.message
        held = [finding for finding in tested.findings if finding.held]
        assert len(held) > 30
        assert {finding.held for finding in tested.findings} <= {True, None}


async def test_a_self_test_runs_once_for_all_who_ask() -> None:
    asked: list[int] = []

    async def ask() -> SelfTest:
        asked.append(1)
        await asyncio.sleep(0)
        return SelfTest(True, "fine")

    answers = once.shared("key", ask, lambda tested: tested.available)
    first = await asyncio.gather(*(answers.get() for _ in range(5)))
    assert len(set(first)) == len(asked) == 1
    assert once.shared("key", ask, lambda tested: tested.available) is answers


async def test_who_asks_next_is_not_cancelled_with_who_asked_first() -> None:
    going = asyncio.Event()

    async def ask() -> SelfTest:
        await going.wait()
        return SelfTest(True, "fine")

    answers = once.shared("other", ask, lambda tested: tested.available)
    first, second = (asyncio.ensure_future(answers.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    going.set()
    assert (await second).available
    assert first.cancelled()


async def test_a_bad_answer_is_asked_for_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([SelfTest(False, "not yet"), SelfTest(True, "now")])

    async def ask() -> SelfTest:
        return next(answers)

    now = [100.0]
    monkeypatch.setattr(once.time, "monotonic", lambda: now[0])
    asked = once.shared("later", ask, lambda tested: tested.available)
    assert [(await asked.get()).message for _ in range(2)] == ["not yet", "not yet"]
    now[0] += 31
    assert [(await asked.get()).message for _ in range(2)] == ["now", "now"]


async def test_the_strict_sandbox(make: Make, tmp_path: Path) -> None:
    make("bubblewrap")

    class Room:
        folder = tmp_path
        hidden = ()
        guarded = ()

    (tmp_path / "file").write_text("text")
    box = strict(Room())  # type: ignore[arg-type]
    assert (box.name, box.type) == ("strict", "bubblewrap")
    ended = await box.run(["/bin/sh", "-c", "cat file; echo x > file"], cwd=str(tmp_path), env={})
    assert (ended.stdout, ended.exit_code != 0) == (b"text", True)
    Room.folder = Path("/")
    assert (await strict(Room()).run(["true"], cwd="/tmp", env={})).exit_code == 0  # type: ignore[arg-type]


async def test_a_report_names_each(make: Make) -> None:
    boxes = [make("subprocess"), make("bubblewrap")]
    rows = await report(boxes)
    assert [(name, backend, tested.available) for name, backend, tested in rows] == [
        ("box", "subprocess", True),
        ("box", "bubblewrap", True),
    ]
    assert set(FACTORIES) == {"subprocess", "bubblewrap", "landlock", "container"}


def test_stubs_are_there() -> None:
    assert all((view.STUB / name).read_text() for name in view.STUBS)
