"""Containers of a real engine: the promises of sandboxes, and the escape probes inside.

Podman keeps everything in a folder of the test's own, with an image made of this machine's Python.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shutil
import subprocess
import sysconfig
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from needs import needs
from toolcrib.core.sandbox import SandboxLimits
from toolcrib.sandbox import once
from toolcrib.sandbox.build import FACTORIES
from toolcrib.sandbox.selftest import interpreter, source
from toolcrib.sandbox.targets import Targets
from toolcrib.testing import SandboxContract

Make = Callable[..., Any]
IMAGE = "localhost/toolcrib-test"
STORAGE = """
[storage]
driver = "{driver}"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
[storage.options.overlay]
skip_mount_home = "true"
"""
LEFT_OUT = re.compile(
    r"/(__pycache__|test|tests|idlelib|tkinter|ensurepip|site-packages|dist-packages|config-[^/]+)$"
)


class Room:
    """The part of a workshop that a sandbox looks at."""

    folder = Path("/")
    hidden = ()
    guarded = ()


def write_image(path: Path) -> None:
    """A root folder with Python and the libraries it is linked to, and nothing else."""
    python, library = Path(interpreter()[0]), Path(sysconfig.get_path("stdlib"))
    modules = (library / "lib-dynload").glob("*.so")
    linked: set[str] = set()
    for binary in (python, *modules):
        said = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False).stdout
        linked |= set(re.findall(r"(/\S+) \(0x", said))
    with tarfile.open(path, "w") as tar:
        tar.add(python, str(python))
        tar.add(library, str(library), filter=lambda i: None if LEFT_OUT.search(i.name) else i)
        for name in linked:
            tar.add(os.path.realpath(name), name)
        link = tarfile.TarInfo("usr/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, str(python)
        tar.addfile(link)


def podman(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["podman", *words], capture_output=True, text=True, check=False, timeout=60
    )


def prepare(folder: Path, image: Path, driver: str, runtime: str) -> str:
    """Have podman use this folder, driver and runtime; what stands in the way, if anything."""
    (folder / "engine.conf").write_text(f'[engine]\nruntime = "{runtime}"\n')
    (folder / "storage.conf").write_text(STORAGE.format(driver=driver, folder=folder))
    made = podman("import", "--quiet", str(image), IMAGE)
    if made.returncode != 0:
        return made.stderr
    limits = ("--ulimit", "nofile=64", "--ulimit", "nproc=1024")
    return podman("run", "--rm", "--network", "none", *limits, IMAGE, "python3", "-V").stderr


@pytest.fixture(scope="module", autouse=True)
def _engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    needs("podman", "podman")
    runtimes = [name for name in ("crun", "runc") if shutil.which(name)]
    folder = tmp_path_factory.mktemp("podman")
    image = folder / "image.tar"
    write_image(image)
    why = "no runtime: apt-get install runc"
    with pytest.MonkeyPatch.context() as patch:
        for number, (driver, runtime) in enumerate(itertools.product(("overlay", "vfs"), runtimes)):
            place = folder / str(number)
            place.mkdir()
            patch.setenv("CONTAINERS_CONF", str(place / "engine.conf"))
            patch.setenv("CONTAINERS_STORAGE_CONF", str(place / "storage.conf"))
            why = prepare(place, image, driver, runtime)
            if not why:
                once.forget()
                yield
                assert podman("ps", "--all", "--quiet").stdout == ""
                once.forget()
            podman("system", "reset", "--force")
            if not why:
                return
    # Not for lack of a package: some machines, containers among them, let nobody run another one.
    pytest.skip(f"podman cannot run a container here: {why.strip()}")


def build(**settings: Any) -> Any:
    given = {"engine": "podman", "image": IMAGE, **settings}
    return FACTORIES["container"]("contract", given, Room())  # type: ignore[arg-type]


class TestContainer(SandboxContract):
    python = "python3"

    def make(self) -> Any:
        return build()


async def test_nothing_gets_out() -> None:
    sandbox = build()
    with Targets() as targets:
        line = ["python3", "-I", "-S", "-c", source(), json.dumps(targets.describe())]
        ended = await sandbox.run(line, cwd=targets.workspace, env={}, write=[targets.workspace])
        assert ended.exit_code == 0, ended
        arrived = await targets.arrived()
    answers = json.loads(ended.stdout)
    assert len(answers) > 20
    decided_outside = {"write_home", "write_system", "host_udp", "signal_process"}
    reached = {name for name, got in answers.items() if got and name not in decided_outside}
    assert (reached, arrived) == (set(), set())


async def test_limits_hold(tmp_path: Path) -> None:
    async def run(program: str, **limits: Any) -> Any:
        line = ["python3", "-I", "-c", program]
        folder = str(tmp_path)
        return await build().run(
            line, cwd=folder, env={}, write=[folder], limits=SandboxLimits(**limits)
        )

    full = await run("x = b'x' * (300 << 20); print('held')", memory=100 << 20)
    assert (full.exit_code != 0, full.stdout) == (True, b"")
    forks = """
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
    assert int((await run(forks, processes=10)).stdout) < 10
    await run("open('big', 'wb', buffering=0).write(b'x' * 5000)", file_size=1000)
    assert (tmp_path / "big").stat().st_size == 1000
    busy = await run("while True: pass", cpu=1, time=30)
    assert busy.stopped == "cpu"


async def test_paths_are_shown_read_only_covered_or_not_at_all(tmp_path: Path) -> None:
    for name in ("read", "write"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        (tmp_path / name / "hidden").write_text("secret")
        (tmp_path / name / "folder").mkdir()
        (tmp_path / name / "folder" / "deep").write_text("secret")
    (tmp_path / "beside").write_text("secret")
    hide = [
        str(tmp_path / where / name) for where in ("read", "write") for name in ("hidden", "folder")
    ]
    box = build(read=[str(tmp_path / "read")], write=[str(tmp_path / "write")], hide=hide)
    program = """
import json, pathlib, sys
def tried(act):
    try: return act()
    except OSError as error: return type(error).__name__
here = pathlib.Path(sys.argv[1])
found = {}
for where in ("read", "write"):
    at = here / where
    found[where] = [tried((at / "file").read_text), tried(lambda: (at / "new").write_text("x")),
                    tried((at / "hidden").read_text), tried((at / "folder/deep").read_text)]
found["beside"] = tried((here / "beside").read_text)
print(json.dumps(found))
"""
    line = ["python3", "-I", "-c", program, str(tmp_path)]
    ended = await box.run(line, cwd=str(tmp_path / "write"), env={})
    assert json.loads(ended.stdout) == {
        "read": ["read", "OSError", "", "FileNotFoundError"],
        "write": ["write", 1, "", "FileNotFoundError"],
        "beside": "FileNotFoundError",
    }, ended
    assert (tmp_path / "write" / "new").stat().st_uid == os.getuid()


async def test_a_command_that_ignores_signals_is_ended(tmp_path: Path) -> None:
    program = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('begun', flush=True)\ntime.sleep(60)"
    )
    begun = asyncio.Event()
    task = asyncio.ensure_future(
        build().run(
            ["python3", "-I", "-c", program],
            cwd="/tmp",
            env={},
            on_output=lambda _: begun.set(),
        )
    )
    await begun.wait()
    (label,) = podman("ps", "--format", "{{.Names}}").stdout.split()
    top = podman("top", label, "hpid").stdout.split()[1:]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert podman("ps", "--all", "--quiet").stdout == ""
    assert top
    assert [pid for pid in top if os.access(f"/proc/{pid}", os.F_OK)] == []


async def test_an_image_that_is_not_there_is_said() -> None:
    tested = await build(image="localhost/nothing").probe()
    assert not tested.available
    assert "localhost/nothing" in tested.message
