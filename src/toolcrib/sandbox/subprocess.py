"""A plain process: clean environment, limits, and an end for everything it started."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib.core.protocols import Workshop
from toolcrib.core.sandbox import Isolation, SandboxLimits, SelfTest
from toolcrib.sandbox.base import CommandSandbox, program
from toolcrib.sandbox.cgroup import controllers
from toolcrib.sandbox.limits import apply, rlimits
from toolcrib.sandbox.process import Process, abandon, start
from toolcrib.sandbox.running import Command
from toolcrib.sandbox.settings import LIMITS, Reader
from toolcrib.sandbox.trees import MARK, MarkedTree

# The shell waits for a line, so that the limits are in force before the command starts.
_GATE = 'read -r gate && unset gate PWD OLDPWD SHLVL && exec "$@"'
_NOTHING = (
    "It isolates nothing: a command can read, write and reach whatever this process can. It gets "
    "a clean environment and limits, and is ended together with what it started."
)


class SubprocessSandbox(CommandSandbox):
    """Runs commands as ordinary processes. For commands that are trusted."""

    type = "subprocess"
    isolates: frozenset[Isolation] = frozenset({"environment", "resources"})

    async def self_test(self) -> SelfTest:
        """Start a command that does nothing."""
        command = Command(
            argv=("/bin/sh", "-c", "exit 0"), cwd="/", env={}, limits=SandboxLimits(time=30.0)
        )
        try:
            ended = await self.run_untested(command)
        except OSError as error:
            return SelfTest(False, f"/bin/sh cannot be started: {error}")
        if ended.exit_code != 0:
            return SelfTest(False, f"/bin/sh ended with {ended.exit_code}: {ended.stderr!r}")
        return SelfTest(True, _NOTHING)

    def start(self, command: Command) -> Process:
        """Start a command behind its gate, limit it, and open the gate."""
        limits = command.limits
        available = controllers()
        mark = secrets.token_hex(8)
        path = program(command)
        if not Path(command.cwd).is_dir():
            raise FileNotFoundError(2, "the folder to work in does not exist", command.cwd)
        group = available.make(memory=limits.memory, processes=limits.processes, always=True)
        popen = None
        try:
            popen = start(
                ["/bin/sh", "-c", _GATE, "sh", path, *command.argv[1:]],
                cwd=command.cwd,
                env={**command.env, MARK: mark},
                stdin=subprocess.PIPE,
            )
            if group is not None:
                group.join(popen.pid)
            apply(popen.pid, rlimits(limits, memory=available.memory is None))
            process = Process(popen, MarkedTree(popen.pid, mark, group), group)
            os.write(popen.stdin.fileno(), b"\n")  # pyright: ignore[reportOptionalMemberAccess]
        except BaseException:
            if popen is not None:
                abandon(popen)
            if group is not None:
                group.remove()
            raise
        return process


def factory(name: str, settings: Mapping[str, Any], workshop: Workshop) -> SubprocessSandbox:
    """A `type: subprocess` sandbox of a configuration."""
    for key in ("read", "write", "network"):
        if key in settings:
            reader = Reader(name, {}, ())
            cure = "Take it out, or use type: bubblewrap"
            raise reader.wrong(key, f"a subprocess sandbox cannot keep apart what {key} says", cure)
    reader = Reader(name, settings, (*LIMITS, "environment"))
    default = SandboxLimits(output=16 << 20)
    return SubprocessSandbox(name, reader.settings(workshop.folder, default=default, paths=False))
