"""A command in a container of podman or docker, where one of them runs."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcrib.core.protocols import Workshop
from toolcrib.core.sandbox import Isolation, SandboxLimits, SelfTest
from toolcrib.sandbox.base import CommandSandbox, Own
from toolcrib.sandbox.engine_filter import profile_file
from toolcrib.sandbox.guards import check_guarded, guard
from toolcrib.sandbox.masks import Mask, check_own, masked
from toolcrib.sandbox.process import Process, start
from toolcrib.sandbox.running import Command
from toolcrib.sandbox.selftest import self_test
from toolcrib.sandbox.settings import LIMITS, PATHS, Reader, Settings
from toolcrib.sandbox.view import View

ENGINES = ("podman", "docker")
_CURE = "Start podman (it needs catatonit) or docker, with the image present and python3 in it"
_EVERYTHING: frozenset[Isolation] = frozenset(
    {"files", "network", "processes", "syscalls", "environment", "resources"}
)
# What the engine's own program listens to; a command's values for these go another way.
_ENGINES_OWN = re.compile(r"PATH|HOME|TMPDIR|(DOCKER|CONTAINER|XDG|LD|BUILDAH|REGISTRY)_?.*")
_NEVER_STARTED = 125
_PATIENCE = 0.5
"""Seconds that the engine's program gets to end once its container is being removed."""
_SIGNALS = frozenset(
    {signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE}
    | {signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGALRM, signal.SIGTERM}
    | {signal.SIGXCPU, signal.SIGXFSZ, signal.SIGSYS}
)
_PROCESSES = 32_768
"""As many as there are numbers for on every machine."""


class ContainerSandbox(CommandSandbox):
    """Runs each command in a new container of an image that is on this machine already."""

    type = "container"

    def __init__(
        self,
        name: str,
        settings: Settings,
        own: Own = tuple,
        guarded: Own = tuple,
        *,
        engine: str | None,
        image: str,
    ) -> None:
        super().__init__(name, settings, own, guarded)
        self.engine = engine
        self.image = image
        network: frozenset[Isolation] = frozenset({"network"} if settings.network else ())
        self.isolates = _EVERYTHING - network

    def test_key(self) -> object:
        """Engine and image count too."""
        return (super().test_key(), self.engine, self.image)

    def counts_processes(self) -> bool:
        """The engine makes control groups."""
        return True

    async def self_test(self) -> SelfTest:
        """Ask the engine whether it runs, then run the escape probes inside."""
        why = await unverified(self.engine)
        if why:
            return SelfTest(False, f"unverified: {why}. {_CURE}")
        return await self_test(self, cure=_CURE, python=("python3", ()))

    def start(self, command: Command) -> Process:
        """Start the engine's program, which starts the container."""
        engine = _find(self.engine)
        if engine is None:
            raise FileNotFoundError(2, "the container engine is not installed", self.engine)
        seen = View.of(command.read, command.write, system=False)
        seen = guard(seen, command.guarded, command.own, self.name)
        seen, covers = masked(seen, command.hide, command.own, self.name, system=False)
        cwd = seen.folder(command.cwd, self.name)
        label = f"toolcrib-{secrets.token_hex(8)}"
        apart = {name: value for name, value in command.env.items() if _ENGINES_OWN.match(name)}
        argv = [
            *(engine, "run", "--rm", "--init", "--name", label, "--pull", "never"),
            *("--stop-signal", "SIGKILL", "--stop-timeout", "0"),
            *(("--interactive",) if command.input else ()),
            *confinement(command.limits, network=self.settings.network),
            *_mounts(seen),
            *_covers(covers),
            *("--workdir", cwd),
            *(word for name in command.env if name not in apart for word in ("--env", name)),
            *(word for pair in apart.items() for word in ("--env", "=".join(pair))),
            *("--entrypoint", command.argv[0], self.image, *command.argv[1:]),
        ]
        own = {name: value for name, value in os.environ.items() if _ENGINES_OWN.match(name)}
        popen = start(
            argv,
            cwd="/",
            env={**command.env, **own},
            stdin=subprocess.PIPE if command.input else subprocess.DEVNULL,
        )
        return Process(popen, _ContainerTree(engine, label, popen), signal_of=_signal_of)


async def unverified(engine: str | None = None) -> str:
    """Why no container can be tried: no engine was found, or it does not answer. Empty when one
    does."""
    found = _find(engine)
    if found is None:
        return f"no {engine or ' or '.join(ENGINES)} was found, so nothing was verified"
    code, said = await _ask(found, "version")
    return f"{found} does not answer, so nothing was verified: {said}" if code else ""


class _ContainerTree:
    """A container: removing it ends everything in it."""

    exact = True

    def __init__(self, engine: str, label: str, popen: subprocess.Popen[bytes]) -> None:
        self._engine = engine
        self._label = label
        self._popen = popen
        self._killed = False

    async def kill(self, attempt: int) -> None:
        """Remove the container; the engine's program ends with it, or is ended."""
        if not self._killed:
            self._killed = True
            # A program that nobody reads from any more holds the container back.
            late = asyncio.get_running_loop().call_later(_PATIENCE, self._end_program)
            try:
                await _ask(self._engine, "rm", "--force", self._label)
            finally:
                late.cancel()
        elif attempt > 5:
            self._end_program()

    async def remains(self) -> bool:
        """After a kill, the container may have been made only now."""
        if self._killed:
            await _ask(self._engine, "rm", "--force", self._label)
        return False

    async def close(self) -> None:
        """Nothing is held."""

    def _end_program(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._popen.pid, signal.SIGKILL)

    def began(self) -> bool:
        """Whether the engine came as far as starting the command."""
        return self._killed or self._popen.returncode != _NEVER_STARTED


def _signal_of(code: int) -> int:
    """Engines say like a shell that a signal ended the command."""
    return 128 - code if code - 128 in _SIGNALS else code


def confinement(limits: SandboxLimits, *, network: bool) -> list[str]:
    """The engine's words for what a command may do and use."""
    words = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    words += ["--security-opt", f"seccomp={profile_file()}"]
    words += ["--user", f"{os.getuid()}:{os.getgid()}", "--log-driver", "none"]
    words += ["--hostname", "sandbox"]
    size = ""
    if not network:
        words += ["--network", "none"]
    if limits.memory is not None:
        size = f",size={limits.memory}"
        words += ["--memory", str(limits.memory), "--memory-swap", str(limits.memory)]
    if limits.processes is not None:
        words += ["--pids-limit", str(limits.processes + 1)]
    if limits.cpu is not None:
        # The signal that says so comes first; the one that nobody survives a second later.
        seconds = max(1, round(limits.cpu))
        words += ["--ulimit", f"cpu={seconds}:{seconds + 1}"]
    if limits.file_size is not None:
        words += ["--ulimit", f"fsize={limits.file_size}"]
    if limits.open_files is not None:
        words += ["--ulimit", f"nofile={limits.open_files}"]
    words += ["--ulimit", f"nproc={_own_processes()}"]
    return [*words, "--tmpfs", f"/tmp:rw,mode=1777{size}"]  # noqa: S108 - the container's own


def _own_processes() -> int:
    """How many processes a user may have, as far as this host can give it to others. Podman asks
    for a million where it is told nothing, and may not get it; what counts is `--pids-limit`."""
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    return _PROCESSES if most == resource.RLIM_INFINITY else min(most, _PROCESSES)


def _mounts(seen: View) -> list[str]:
    words: list[str] = []
    for real, place, mode in seen.paths:
        if "," in real + place:
            raise OSError(22, "a container cannot be given a path with a comma in it", place)
        mount = f"type=bind,source={real},target={place}"
        words += ("--mount", mount if mode == "write" else f"{mount},readonly")
    return words


def _covers(masks: Sequence[Mask]) -> list[str]:
    words: list[str] = []
    for place, folder in masks:
        if "," in place:
            raise OSError(22, "a container cannot cover a path with a comma in it", place)
        # Not a new tmpfs: podman would fill it with what it is there to cover.
        nothing = _empty_folder() if folder else os.devnull
        words += ("--mount", f"type=bind,source={nothing},target={place},readonly")
    return words


@functools.cache
def _empty_folder() -> str:
    path = tempfile.mkdtemp(prefix="toolcrib-empty-")
    Path(path).chmod(0o555)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.cache
def _find(engine: str | None) -> str | None:
    found = (shutil.which(name) for name in ((engine,) if engine else ENGINES))
    return next((path for path in found if path is not None), None)


async def _ask(*argv: str) -> tuple[int, str]:
    """Run one of the engine's own commands: its exit code, and the end of what it said."""
    asked = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(20):
            said, _ = await asked.communicate()
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            asked.kill()
        await asked.wait()
        if not isinstance(error, TimeoutError):
            raise
        return 1, "it did not answer within 20 seconds"
    text = said.decode(errors="replace").strip().splitlines()
    return asked.returncode or 0, text[-1] if text else ""


def factory(name: str, settings: Mapping[str, Any], workshop: Workshop) -> ContainerSandbox:
    """A `type: container` sandbox of a configuration."""
    known = (*PATHS, *LIMITS, "hide", "network", "environment", "engine", "image")
    reader = Reader(name, settings, known)
    image = reader.text("image")
    if image is None or image.startswith("-"):
        cure = "Write image: followed by one that is on this machine, such as python:3.12-slim"
        raise reader.wrong("image", "a container sandbox needs an image", cure)
    engine = reader.text("engine")
    if engine is not None and engine not in ENGINES and not Path(engine).is_absolute():
        cure = f"Write engine: {' or engine: '.join(ENGINES)}, or leave it out"
        raise reader.wrong("engine", f"there is no engine {engine}", cure)
    found = reader.settings(workshop.folder)
    check_own(reader, found, workshop.hidden, masks=True)
    check_guarded(reader, found, workshop.guarded, mounts=True)
    own, guarded = lambda: workshop.hidden, lambda: workshop.guarded
    return ContainerSandbox(name, found, own, guarded, engine=engine, image=image)
