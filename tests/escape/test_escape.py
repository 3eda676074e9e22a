"""Nothing gets out of a sandbox: the escape probes, as root and as an ordinary user.

Each probe is first shown to get through without a sandbox; one that does not is listed as
inconclusive at the end of the run.
"""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from needs import needs
from toolcrib.sandbox import landlock
from toolcrib.sandbox.confine import abi

HARNESS = Path(__file__).with_name("harness.py")
NOBODY = 65534
USERS = ["root", "ordinary"] if os.geteuid() == 0 else ["ordinary"]
SANDBOXES: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    # its type, its settings, and what it lets through by intention
    "bubblewrap": ("bubblewrap", {}, set()),
    "bubblewrap_network": ("bubblewrap", {"network": True}, {"host_tcp", "host_udp"}),
    "landlock": ("landlock", {}, set()),
    "landlock_network": ("landlock", {"network": True}, {"host_tcp", "host_udp"}),
}
# What a kernel without some part cannot do for anybody.
MISSING_IN_KERNELS = {"crypto_socket", "io_uring", "perf_events", "terminal_input", "vsock"}
# What an ordinary user cannot do anyway.
MAY_BE_INCONCLUSIVE = {
    *("bpf", "crypto_socket", "device", "io_uring", "kernel_settings", "packet_socket"),
    *("perf_events", "raw_socket", "read_shadow", "terminal_input", "userfaultfd", "vsock"),
    *("user_namespace", "mount", "write_system"),
}


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


@pytest.fixture
def home() -> Iterator[str]:
    """A home folder that its user can write."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        yield folder


def start(user: str, home: str, *arguments: str) -> tuple[list[str], dict[str, Any]]:
    """How to start the harness as this user: with an interpreter that this user can reach."""
    if user == "root" or os.geteuid() != 0:
        return [sys.executable, *arguments], {}
    identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (
        sys.executable,
        shutil.which(f"python{version}", path="/usr/bin:/usr/local/bin"),
    ):
        if python is None:
            continue
        try:
            done = subprocess.run([python, "-c", ""], check=False, capture_output=True, **identity)
        except PermissionError:
            continue
        if done.returncode == 0:
            environment = {
                "HOME": home,
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            return [python, *arguments], {"env": environment, "cwd": home, **identity}
    pytest.fail(f"an ordinary user can start no Python {version}: apt-get install python{version}")


def probe(user: str, name: str, home: str) -> tuple[dict[str, Any], Any]:
    backend, settings, _ = SANDBOXES[name]
    asked = json.dumps([{"as": name, "type": backend, "settings": settings}])
    argv, options = start(user, home, str(HARNESS), asked)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return found["bare"], found[name]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", sorted(SANDBOXES))
def test_nothing_gets_out(name: str, user: str, home: str, record_property: Any) -> None:
    needs("unshare", "util-linux")
    backend, _, intended = SANDBOXES[name]
    if backend == "bubblewrap":
        needs("bwrap", "bubblewrap")
    elif abi() < landlock.NEEDED:
        pytest.skip("needs Landlock of Linux 6.12")
    bare, inside = probe(user, name, home)
    assert isinstance(inside, dict), inside
    assert set(inside) == set(bare)
    assert {probe for probe, reached in inside.items() if reached} == intended
    inconclusive = {probe for probe, reached in bare.items() if not reached}
    record_property(f"inconclusive as {user}", ", ".join(sorted(inconclusive)))
    assert inconclusive <= (MISSING_IN_KERNELS if user == "root" else MAY_BE_INCONCLUSIVE)


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
def test_the_terminal_of_the_host_is_out_of_reach(name: str) -> None:
    """With a real terminal around the host: it can be opened outside, and not inside."""
    if name == "bubblewrap":
        needs("bwrap", "bubblewrap")
    elif abi() < landlock.NEEDED:
        pytest.skip("needs Landlock of Linux 6.12")
    program = f"""
import asyncio, os, pathlib
from toolcrib.sandbox.build import FACTORIES
class Room: folder = pathlib.Path("/"); hidden = guarded = ()
line = "if (exec 3<>/dev/tty; echo typed >&3) 2>/dev/null; then echo reached; else echo stopped; fi"
async def main():
    sandbox = FACTORIES[{name!r}]("terminal", {{}}, Room())
    return await sandbox.run(["/bin/sh", "-c", line], cwd="/usr", env={{}})
os.close(os.open("/dev/tty", os.O_RDWR))
print("outside opened;", "inside", asyncio.run(main()).stdout.decode())
"""
    said = bytearray()
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", program])
    try:
        while chunk := os.read(terminal, 4096):
            said += chunk
    except OSError:
        pass  # a terminal whose last user is gone answers with an error
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    assert b"outside opened; inside stopped" in said, said
    assert b"typed" not in said


def test_processes_of_an_ordinary_user_are_counted(home: str) -> None:
    """Without a control group, which an ordinary user cannot make on most machines."""
    needs("bwrap", "bubblewrap")
    program = f"""
import asyncio, os, pathlib, sys
from toolcrib.sandbox import bubblewrap, cgroup
bubblewrap.controllers = cgroup.Controllers
class Room: folder = pathlib.Path("/"); hidden = guarded = ()
forks = {FORKS!r}
async def main():
    box = bubblewrap.factory("counted", {{"processes": 10}}, Room())
    return await box.run(["/usr/bin/python3", "-c", forks], cwd="/tmp", env={{}})
print(asyncio.run(main()).stdout.decode())
"""
    argv, options = start("ordinary", home, "-c", program)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    assert done.stdout.split() == ["9"], done.stderr


def test_every_sandbox_that_isolates_files_is_tried() -> None:
    from toolcrib.sandbox.build import FACTORIES

    tried = {backend for backend, _, _ in SANDBOXES.values()}
    # A subprocess isolates nothing, and says so; a container is judged by its own self-test.
    assert tried == set(FACTORIES) - {"subprocess", "container"}
