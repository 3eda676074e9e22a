"""A command confined by Landlock and a system call filter, for machines without namespaces."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib.core.protocols import Workshop
from toolcrib.core.sandbox import Isolation, SelfTest
from toolcrib.sandbox import confine, seccomp, view
from toolcrib.sandbox.base import CommandSandbox, Own, program
from toolcrib.sandbox.cgroup import controllers
from toolcrib.sandbox.guards import check_guarded, check_unwritten
from toolcrib.sandbox.limits import apply, rlimits
from toolcrib.sandbox.masks import check_own, check_unshown
from toolcrib.sandbox.pipes import Pipes
from toolcrib.sandbox.process import Process, abandon, start
from toolcrib.sandbox.running import Command
from toolcrib.sandbox.selftest import interpreter, self_test
from toolcrib.sandbox.settings import LIMITS, PATHS, Reader, Settings

NEEDED = 6
"""The version that keeps signals inside."""
_CURE = "Landlock of Linux 6.12 or newer is needed, and landlock in the kernel's lsm= list"
_EVERYTHING: frozenset[Isolation] = frozenset(
    {"files", "network", "processes", "syscalls", "environment", "resources"}
)
_OWN_PROCESSES = 1


class LandlockSandbox(CommandSandbox):
    """Runs commands that may open only the paths they are given. They keep the host's process
    numbers and see that other files exist, but cannot open them."""

    type = "landlock"

    def __init__(
        self, name: str, settings: Settings, own: Own = tuple, guarded: Own = tuple
    ) -> None:
        super().__init__(name, settings, own, guarded)
        network: frozenset[Isolation] = frozenset({"network"} if settings.network else ())
        self.isolates = _EVERYTHING - network

    async def self_test(self) -> SelfTest:
        """Run the escape probes inside."""
        found = confine.abi()
        if found < NEEDED:
            return SelfTest(False, f"the kernel has Landlock version {found}. {_CURE}")
        try:
            self._filter()
        except seccomp.UnknownMachine as error:
            return SelfTest(False, str(error))
        return await self_test(self, cure=_CURE)

    def start(self, command: Command) -> Process:
        """Start the confining program, limit it, then give it its orders."""
        check_unshown((*view.system(), *command.read), command.write, command.own)
        check_unwritten(command.write, command.guarded)
        seen = view.View.of(command.read, command.write)
        cwd = seen.folder(command.cwd, self.name)
        path = seen.program(program(command), self.name)
        limits = command.limits
        available = controllers()
        private = tempfile.mkdtemp(prefix="toolcrib-tmp-")
        group = popen = None
        try:
            group = available.make(
                memory=limits.memory,
                processes=None if limits.processes is None else limits.processes + _OWN_PROCESSES,
            )
            with Pipes() as pipes:
                reads_orders, orders = pipes.to_process()
                writes_trouble, trouble = pipes.from_process()
                popen = start(
                    [*_confining(), str(reads_orders), str(writes_trouble)],
                    cwd="/",
                    env={},
                    stdin=subprocess.PIPE if command.input else subprocess.DEVNULL,
                    descriptors=pipes.given,
                )
                if group is not None:
                    group.join(popen.pid)
                apply(popen.pid, rlimits(limits, memory=available.memory is None))
                tree = _SupervisedTree(popen.pid, pipes.keep(trouble), private)
                process = Process(popen, tree, group)
                words = {
                    "argv": [path, *command.argv[1:]],
                    "cwd": private if cwd == "/tmp" else cwd,  # noqa: S108 - its own
                    "env": {"TMPDIR": private, **command.env},
                    "read": [
                        *view.system(),
                        *_readable(self.settings.network),
                        *seen.of_mode("read"),
                    ],
                    "write": [*seen.of_mode("write"), private],
                    "private": private,
                    "network": self.settings.network,
                    "filter": self._filter().hex(),
                }
                pipes.send(orders, json.dumps(words).encode())
        except BaseException:
            if popen is not None:
                abandon(popen)
            if group is not None:
                group.remove()
            shutil.rmtree(private, ignore_errors=True)
            raise
        return process

    def _filter(self) -> bytes:
        # Landlock does not judge sockets that have a path, so none can be made.
        return seccomp.program(unix=False, internet=self.settings.network, beside=True)


class _SupervisedTree:
    """Everything below a process that adopts orphans and ends them before it ends itself."""

    exact = True

    def __init__(self, pid: int, trouble: int, private: str) -> None:
        self._pid = pid
        self._trouble = trouble
        self._private = private
        self._began = True

    async def kill(self, attempt: int) -> None:
        """Tell it to end all of it."""
        with contextlib.suppress(ProcessLookupError):
            # The command cannot signal it, so only a hanging machine needs the second way.
            os.kill(self._pid, signal.SIGTERM if attempt < 50 else signal.SIGKILL)

    async def remains(self) -> bool:
        """It ends after everything else."""
        return False

    async def close(self) -> None:
        """Read what went wrong, and take the private folder away."""
        self._began = not os.read(self._trouble, 1)
        os.close(self._trouble)
        await asyncio.to_thread(shutil.rmtree, self._private, ignore_errors=True)

    def began(self) -> bool:
        """Whether the command was started."""
        return self._began


def _confining() -> list[str]:
    """The confining program, imported by its name so that its compiled form is used."""
    source = Path(confine.__file__)
    line = f"import sys; sys.path.append(sys.argv.pop(1)); import {source.stem} as c; c.main()"
    return [interpreter()[0], "-I", "-S", "-c", line, str(source.parent)]


def _readable(network: bool) -> list[str]:
    """Beside the system tree: what has no secrets, since it cannot be replaced by stubs here."""
    # Git gives up when it is kept from its system-wide settings.
    names = ("passwd", "group", "hosts", "nsswitch.conf", "gitconfig")
    names += ("resolv.conf",) if network else ()
    return [f"/etc/{name}" for name in names]


def factory(name: str, settings: Mapping[str, Any], workshop: Workshop) -> LandlockSandbox:
    """A `type: landlock` sandbox of a configuration."""
    reader = Reader(name, settings, (*PATHS, *LIMITS, "network", "environment"))
    found = reader.settings(workshop.folder)
    check_own(reader, found, workshop.hidden, masks=False)
    check_guarded(reader, found, workshop.guarded, mounts=False)
    return LandlockSandbox(name, found, lambda: workshop.hidden, lambda: workshop.guarded)
