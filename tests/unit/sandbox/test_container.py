"""What a container engine is asked for. No engine is needed: a program stands in for one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.sandbox import SandboxLimits
from toolcrib.errors import ToolFailure
from toolcrib.sandbox import container, engine_filter, once, syscalls

Make = Callable[..., Any]
# Notes what it is asked, and runs the command beside itself without isolating it.
ENGINE = """#!/usr/bin/python3
import json, os, pathlib, signal, subprocess, sys
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
with open(here / "asked", "a") as file:
    file.write(json.dumps(words) + "\\n")
if words[0] == "version":
    sys.exit(0)
if words[0] == "rm":
    note = here / words[-1]
    if note.exists():
        os.killpg(int(note.read_text()), signal.SIGKILL)
        note.unlink()
    sys.exit(0)
at = words.index("--entrypoint")
if words[at + 2] == "missing":
    sys.exit(125)
given = [words[i + 1] for i, word in enumerate(words) if word == "--env"]
env = dict(name.split("=", 1) if "=" in name else (name, os.environ[name]) for name in given)
child = subprocess.Popen([words[at + 1], *words[at + 3:]], env=env, start_new_session=True,
                         cwd=words[words.index("--workdir") + 1])
(here / words[words.index("--name") + 1]).write_text(str(child.pid))
sys.exit(child.wait() % 256)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "engine").write_text(ENGINE)
    (folder / "engine").chmod(0o755)
    return folder


@pytest.fixture
def box(make: Make, engine: Path) -> Any:
    """A container sandbox that is taken to have passed its self-test."""
    once.forget()
    made = make("container", image="python:3", engine=str(engine / "engine"), write=["."])
    made._ready = _ready
    return made


async def _ready() -> None:
    pass


def asked(engine: Path) -> list[list[str]]:
    return [json.loads(line) for line in (engine / "asked").read_text().splitlines()]


async def test_a_command_is_confined_by_the_engine(box: Any, engine: Path, tmp_path: Path) -> None:
    ended = await box.run(
        ["/bin/sh", "-c", "cat; echo $A; pwd"],
        cwd=str(tmp_path),
        env={"A": "secret", "PATH": "/bin"},
        stdin=b"in ",
        limits=SandboxLimits(memory=1000, processes=7, cpu=3, file_size=10, open_files=20),
    )
    assert (ended.exit_code, ended.stdout.decode()) == (0, f"in secret\n{tmp_path}\n")
    (words,) = asked(engine)
    text = " ".join(words)
    for part in (
        *("run --rm", "--pull never", "--interactive", "--read-only", "--cap-drop ALL"),
        *("--stop-signal SIGKILL --stop-timeout 0", "--ulimit nproc="),
        *("--security-opt no-new-privileges", "--security-opt seccomp=", "--network none"),
        *("--memory 1000 --memory-swap 1000", "--pids-limit 8", "--ulimit cpu=3"),
        *("--ulimit fsize=10", "--ulimit nofile=20", "--env A ", "--env PATH=/bin"),
        f"--mount type=bind,source={tmp_path},target={tmp_path} ",
    ):
        assert part in text
    assert "secret" not in text  # what is on a command line can be read by every user
    assert words[words.index("--entrypoint") + 2] == "python:3"


async def test_time_and_cancelling_remove_the_container(
    box: Any, engine: Path, tmp_path: Path
) -> None:
    line = ["/bin/sh", "-c", "sleep 30 & sleep 30"]
    ended = await box.run(line, cwd=str(tmp_path), env={}, limits=SandboxLimits(time=0.5))
    assert ended.stopped == "time"
    begun = asyncio.Event()
    task = asyncio.ensure_future(
        box.run(
            ["/bin/sh", "-c", "echo x; sleep 30"],
            cwd=str(tmp_path),
            env={},
            on_output=lambda _: begun.set(),
        )
    )
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    runs = [words for words in asked(engine) if words[0] == "run"]
    removed = {words[-1] for words in asked(engine) if words[0] == "rm"}
    assert {words[words.index("--name") + 1] for words in runs} == removed


async def test_an_engine_that_cannot_start_it_is_an_error(
    make: Make, engine: Path, tmp_path: Path
) -> None:
    box = make("container", image="missing", engine=str(engine / "engine"), write=["."])
    box._ready = _ready
    with pytest.raises(OSError, match="could not start"):
        await box.run(["true"], cwd=str(tmp_path), env={})


async def test_an_engine_that_isolates_nothing_is_found_out(make: Make, engine: Path) -> None:
    once.forget()
    box = make("container", image="python:3", engine=str(engine / "engine"))
    tested = await box.probe()
    assert not tested.available
    assert "read_secret" in tested.message
    with pytest.raises(ToolFailure) as caught:
        await box.run(["true"], cwd="/tmp", env={})
    assert caught.value.reason == "sandbox_unavailable"


async def test_without_an_engine_nothing_was_verified(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    once.forget()
    container._find.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    try:
        tested = await make("container", image="x").probe()
    finally:
        container._find.cache_clear()
    assert not tested.available
    assert "nothing was verified" in tested.message


async def test_a_path_with_a_comma_is_refused(box: Any, tmp_path: Path) -> None:
    (tmp_path / "a,readonly").mkdir()
    with pytest.raises(OSError, match="comma"):
        await box.run(["true"], cwd=str(tmp_path), env={}, read=["a,readonly"])


def test_engines_get_the_same_rules() -> None:
    rules = engine_filter.profile()
    assert rules["defaultAction"] == "SCMP_ACT_ALLOW"
    assert set(rules["syscalls"][0]["names"]) == set(syscalls.DENIED)
    flags = [rule["args"][0]["value"] for rule in rules["syscalls"] if rule["names"] == ["clone"]]
    assert sum(flags) == 0x7E020000
    written = json.loads(Path(engine_filter.profile_file()).read_text())
    assert written == json.loads(json.dumps(rules))
