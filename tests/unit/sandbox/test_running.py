"""Limits hold, and nothing of a command outlives it."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.sandbox import SandboxLimits
from toolcrib.sandbox import bubblewrap, cgroup, landlock
from toolcrib.sandbox import subprocess as plain

Make = Callable[..., Any]
ALL = ["subprocess", "bubblewrap", "landlock"]
PYTHON = "/usr/bin/python3"
FORKS = """
import os, time
count = 0
try:
    while count < 40:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        count += 1
except OSError:
    pass
print(count)
"""


@pytest.fixture(params=["groups", "without groups"])
def groups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With the machine's control groups, if there are any, and without."""
    if request.param == "groups":
        return cgroup.controllers().memory is not None
    for module in (plain, bubblewrap, landlock):
        monkeypatch.setattr(module, "controllers", cgroup.Controllers)
    return False


def is_alive(pid: int) -> bool:
    """Whether a process still does something; a dead one may wait to be collected by init."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


async def python(box: Any, program: str, **limits: Any) -> Any:
    argv = [PYTHON, "-c", program]
    return await box.run(argv, cwd="/usr", env={}, limits=SandboxLimits(**limits))


@pytest.mark.parametrize("type", ALL)
async def test_memory_is_limited(make: Make, type: str, groups: bool) -> None:
    fits = await python(make(type), "print(len(bytearray(20 << 20)))", memory=120 << 20)
    assert fits.exit_code == 0, fits
    ended = await python(make(type), "print(len(bytearray(300 << 20)))", memory=120 << 20)
    assert ended.exit_code != 0
    assert ended.stdout == b""
    if groups:
        assert ended.stopped == "memory"
    else:
        assert b"MemoryError" in ended.stderr


async def test_a_private_tmp_counts_as_memory(make: Make, groups: bool) -> None:
    line = "head -c 30000000 /dev/zero > /tmp/a; head -c 30000000 /dev/zero > /dev/shm/a"
    ended = await make("bubblewrap").run(
        ["/bin/sh", "-c", line], cwd="/tmp", env={}, limits=SandboxLimits(memory=16 << 20)
    )
    assert ended.exit_code != 0
    assert ended.stopped == "memory" if groups else ended.stderr.count(b"No space left") == 2


@pytest.mark.parametrize("type", ALL)
async def test_processor_time_is_limited(make: Make, type: str) -> None:
    ended = await python(make(type), "while True: pass", cpu=0.5)
    assert (ended.stopped, ended.exit_code) == ("cpu", -signal.SIGXCPU)


async def test_processor_time_cannot_be_taken_by_ignoring_a_signal(make: Make) -> None:
    stubborn = "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    ended = await python(make("subprocess"), stubborn, cpu=0.5)
    assert (ended.stopped, ended.exit_code) == ("cpu", -signal.SIGKILL)


@pytest.mark.parametrize("type", ALL)
async def test_the_number_of_processes_is_limited(make: Make, type: str) -> None:
    box = make(type, processes=10)
    noted = {finding.probe for finding in (await box.probe()).findings if finding.held is None}
    ended = await python(box, FORKS)
    if "process_limit" in noted:
        assert ended.stdout == b"40\n"  # and the self-test says so
    else:
        assert ended.stdout == b"9\n", ended


@pytest.mark.parametrize("type", ALL)
async def test_files_are_limited(make: Make, type: str) -> None:
    program = (
        "held = []\n"
        "try:\n"
        "    while len(held) < 50: held.append(open('/dev/null'))\n"
        "except OSError: print(len(held))\n"
    )
    ended = await python(make(type), program, open_files=20)
    assert ended.stdout == b"17\n"
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        ended = await make(type).run(["/bin/sh", "-c", "ulimit -c"], cwd="/usr", env={})
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert ended.stdout == b"0\n"  # no memory of a crashed command is written to disk
    line = 'cd "${TMPDIR:-/tmp}" && head -c 3000000 /dev/zero > toolcrib-big; rm -f toolcrib-big'
    ended = await make(type).run(
        ["/bin/sh", "-c", line], cwd="/usr", env={}, limits=SandboxLimits(file_size=1_000_000)
    )
    assert b"File size limit exceeded" in ended.stderr


@pytest.mark.parametrize("type", ALL)
async def test_the_sandboxs_own_limits_hold_for_all(make: Make, type: str) -> None:
    box = make(type, output="10kB", time="20s")
    ended = await python(box, "print('x' * 50_000)", output=1_000_000)
    assert (ended.stopped, len(ended.stdout)) == ("output", 10_000)
    exact = await python(box, "print('x' * 9_999)")
    assert (exact.stopped, exact.exit_code, len(exact.stdout)) == ("", 0, 10_000)


@pytest.mark.parametrize("type", ALL)
async def test_standard_error_is_limited_too(make: Make, type: str) -> None:
    program = "import os\nwhile True: os.write(2, b'x' * 5000)"
    ended = await python(make(type), program, output=12_345)
    assert (ended.stopped, len(ended.stderr), ended.stdout) == ("output", 12_345, b"")


@pytest.mark.parametrize("type", ALL)
async def test_input_that_nobody_reads_is_dropped(make: Make, type: str) -> None:
    ended = await make(type).run(["true"], cwd="/usr", env={}, stdin=b"x" * 1_000_000)
    assert ended.exit_code == 0


@pytest.mark.parametrize("type", ALL)
async def test_a_listener_that_fails_ends_the_command(make: Make, type: str) -> None:
    def listen(chunk: bytes) -> None:
        raise LookupError(chunk)

    with pytest.raises(LookupError, match="y"):
        await make(type).run(["yes"], cwd="/usr", env={}, on_output=listen)


@pytest.mark.parametrize("type", ALL)
async def test_cancelling_again_changes_nothing(make: Make, type: str) -> None:
    begun = asyncio.Event()
    task = asyncio.ensure_future(
        make(type).run(
            ["/bin/sh", "-c", "echo x; setsid sleep 30 & sleep 30"],
            cwd="/usr",
            env={},
            on_output=lambda _: begun.set(),
        )
    )
    await begun.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("type", ALL)
async def test_many_run_at_once_without_threads(make: Make, type: str) -> None:
    box = make(type)
    await box.probe()
    threads: set[int] = set()
    runs = [
        box.run(
            ["/bin/sh", "-c", f"echo {number}"],
            cwd="/usr",
            env={},
            on_output=lambda _: threads.add(threading.active_count()),
        )
        for number in range(8)
    ]
    ended = await asyncio.gather(*runs)
    assert [one.stdout for one in ended] == [f"{number}\n".encode() for number in range(8)]
    if type != "landlock":  # which clears a folder away in one of the loop's threads
        assert threads == {1}


@pytest.mark.parametrize("type", ALL)
async def test_a_spawned_command_has_its_time(make: Make, type: str) -> None:
    child = await make(type).spawn(
        ["sleep", "30"], cwd="/usr", env={}, limits=SandboxLimits(time=0.2)
    )
    assert await child.wait() == -signal.SIGKILL
    await child.kill()


@pytest.mark.parametrize("type", ALL)
async def test_what_left_its_session_is_ended_too(
    make: Make, tmp_path: Path, type: str, groups: bool
) -> None:
    """Found by its group, by its mark, by its parent or by its namespace."""
    line = "exec 9>lock; flock 9; (setsid sleep 30 >/dev/null 2>&1 &); echo ready"
    box = make(type)
    ended = await box.run(["/bin/sh", "-c", line], cwd=str(tmp_path), env={}, write=[str(tmp_path)])
    assert ended.stdout == b"ready\n"
    free = await box.run(
        ["flock", "-n", "lock", "true"], cwd=str(tmp_path), env={}, write=[str(tmp_path)]
    )
    assert free.exit_code == 0


async def test_groups_are_taken_away(make: Make) -> None:
    found = cgroup.controllers()
    await python(make("bubblewrap"), "pass", memory=100 << 20, processes=5)
    for controller in (found.memory, found.processes):
        if controller is not None:
            assert list(controller.parent.glob(f"toolcrib-{os.getpid()}-*")) == []


async def test_a_program_without_an_environment_is_found_by_its_group(make: Make) -> None:
    """Without a mark and in a session of its own: only a control group finds it."""
    if cgroup.controllers().processes is None:
        pytest.skip("needs a control group that can be written")
    line = "env -i setsid sleep 31.5 >/dev/null 2>&1 & echo $!"
    ended = await make("subprocess").run(["/bin/sh", "-c", line], cwd="/usr", env={})
    assert not is_alive(int(ended.stdout))


@pytest.mark.parametrize("type", ["bubblewrap", "landlock"])
def test_a_command_ends_with_its_host(make: Make, tmp_path: Path, type: str) -> None:
    make(type)
    (tmp_path / "private").mkdir()
    program = f"""
import asyncio, pathlib, tempfile
tempfile.tempdir = {str(tmp_path / "private")!r}
from toolcrib.sandbox.build import FACTORIES
class Room: folder, hidden, guarded = pathlib.Path({str(tmp_path)!r}), (), ()
box = FACTORIES[{type!r}]("host", {{"write": ["."]}}, Room())
line = "exec 9>lock; flock 9; (setsid sleep 30 &); echo ready; sleep 30"
asyncio.run(box.run(["/bin/sh", "-c", line], cwd={str(tmp_path)!r}, env={{}},
                    on_output=lambda _: print("ready", flush=True)))
"""
    host = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert host.stdout is not None
    with host:
        assert host.stdout.readline() == b"ready\n"
        busy = subprocess.run(["flock", "-n", tmp_path / "lock", "true"], check=False)
        assert busy.returncode == 1
        host.kill()
    waited = subprocess.run(["flock", "-w", "20", tmp_path / "lock", "true"], check=False)
    assert waited.returncode == 0
    for _ in range(2000):  # the last of it happens when nobody holds the lock any more
        if not list((tmp_path / "private").glob("toolcrib-tmp-*")):
            break
        time.sleep(0.01)
    else:
        pytest.fail("the private folder of a command was left behind")
