"""A command in namespaces of its own, behind a system call filter, by way of bubblewrap."""

from __future__ import annotations

import functools
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcrib.core.protocols import Workshop
from toolcrib.core.sandbox import Isolation, SandboxLimits, SelfTest
from toolcrib.sandbox import seccomp, view
from toolcrib.sandbox.base import CommandSandbox, Own, program
from toolcrib.sandbox.cgroup import controllers
from toolcrib.sandbox.guards import check_guarded, guard
from toolcrib.sandbox.limits import apply, rlimits
from toolcrib.sandbox.masks import Mask, check_own, masked
from toolcrib.sandbox.pipes import Pipes
from toolcrib.sandbox.process import Process, abandon, start
from toolcrib.sandbox.running import Command
from toolcrib.sandbox.selftest import self_test
from toolcrib.sandbox.settings import LIMITS, PATHS, Reader, Settings
from toolcrib.sandbox.trees import NamespaceTree

_NAMESPACES = (
    *("--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534"),
    *("--disable-userns", "--cap-drop", "ALL", "--new-session", "--die-with-parent"),
    *("--clearenv", "--hostname", "sandbox"),
)
_OWN_PROCESSES = 2
"""Bubblewrap's own: one outside the namespace and its first one inside."""
_SIGNALS = (
    frozenset(
        (signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE)
    )
    | frozenset((signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGALRM, signal.SIGTERM))
    | frozenset((signal.SIGXCPU, signal.SIGXFSZ, signal.SIGSYS))
)
_MISSING = "bwrap is not installed. Install it: apt-get install bubblewrap"
_CURE = (
    "Bubblewrap 0.8 or newer and user namespaces are needed: look at sysctl "
    "user.max_user_namespaces, kernel.unprivileged_userns_clone and "
    "kernel.apparmor_restrict_unprivileged_userns"
)
_EVERYTHING: frozenset[Isolation] = frozenset(
    {"files", "network", "processes", "syscalls", "environment", "resources"}
)


class BubblewrapSandbox(CommandSandbox):
    """Runs commands in namespaces of their own, with nothing of the host but what they are given:
    the system's programs and the paths of the settings."""

    type = "bubblewrap"

    def __init__(
        self, name: str, settings: Settings, own: Own = tuple, guarded: Own = tuple
    ) -> None:
        super().__init__(name, settings, own, guarded)
        network: frozenset[Isolation] = frozenset({"network"} if settings.network else ())
        self.isolates = _EVERYTHING - network

    async def self_test(self) -> SelfTest:
        """Run the escape probes inside."""
        if shutil.which("bwrap") is None:
            return SelfTest(False, _MISSING)
        try:
            self._filter()
        except seccomp.UnknownMachine as error:
            return SelfTest(False, str(error))
        return await self_test(self, cure=_CURE)

    def counts_processes(self) -> bool:
        """The kernel counts an ordinary user's processes in each user namespace."""
        return os.geteuid() != 0

    def start(self, command: Command) -> Process:
        """Start bubblewrap, which waits for its arguments; limit it; then give it them."""
        seen = view.View.of(command.read, command.write)
        seen = guard(seen, command.guarded, command.own, self.name)
        seen, covers = masked(seen, command.hide, command.own, self.name)
        cwd = seen.folder(command.cwd, self.name)
        path = seen.program(program(command), self.name)
        limits = command.limits
        available = controllers()
        group = available.make(
            memory=limits.memory,
            processes=None if limits.processes is None else limits.processes + _OWN_PROCESSES,
        )
        popen = None
        try:
            with Pipes() as pipes:
                reads_arguments, arguments = pipes.to_process()
                reads_filter, rules = pipes.to_process()
                writes_status, status = pipes.from_process()
                gate = _Gate(pipes, limits) if _Gate.needed(limits) else None
                popen = start(
                    [_bwrap(), "--args", str(reads_arguments), "--", path, *command.argv[1:]],
                    cwd="/",
                    env={},
                    stdin=subprocess.PIPE if command.input else subprocess.DEVNULL,
                    descriptors=pipes.given,
                )
                if group is not None:
                    group.join(popen.pid)
                apply(popen.pid, rlimits(limits, memory=available.memory is None))
                pipes.send(rules, self._filter())
                tree = NamespaceTree(popen.pid, pipes.keep(status), gate)
                process = Process(popen, tree, group, signal_of=_signal_of)
                words = [
                    *_NAMESPACES,
                    *(("--share-net",) if self.settings.network else ()),
                    *_system(self.settings.network),
                    *_private(limits.memory),
                    *_mounts(seen),
                    *_covers(covers),
                    *("--remount-ro", "/dev", "--remount-ro", "/proc", "--remount-ro", "/"),
                    *("--chdir", cwd),
                    *(word for pair in command.env.items() for word in ("--setenv", *pair)),
                    *("--seccomp", str(reads_filter), "--json-status-fd", str(writes_status)),
                    *(("--block-fd", str(gate.waits)) if gate else ()),
                ]
                pipes.send(arguments, b"".join(os.fsencode(word) + b"\0" for word in words))
        except BaseException:
            if popen is not None:
                abandon(popen)
            if group is not None:
                group.remove()
            raise
        return process

    def _filter(self) -> bytes:
        # With the host's network the host's abstract sockets would be in reach.
        return seccomp.program(unix=not self.settings.network, internet=True)


class _Gate:
    """Limits the number of processes of an ordinary user's command, without a control group.

    The kernel counts a user's processes in each user namespace apart, so this can be said only
    when the namespace exists; bubblewrap waits for it.
    """

    def __init__(self, pipes: Pipes, limits: SandboxLimits) -> None:
        self._most = (limits.processes or 0) + 1  # of bubblewrap's own, the one inside
        self.waits, opens = pipes.to_process()
        self._opens = pipes.keep(opens)

    @staticmethod
    def needed(limits: SandboxLimits) -> bool:
        """Whether there is such a limit and nothing else enforces it; root is never limited."""
        return limits.processes is not None and not controllers().processes and os.geteuid() != 0

    def limit(self, pid: int) -> None:
        """Limit the first process inside, and open the gate."""
        apply(pid, ((resource.RLIMIT_NPROC, self._most, self._most),))
        os.write(self._opens, b"\n")

    def close(self) -> None:
        """Close the host's end."""
        os.close(self._opens)


@functools.cache
def _bwrap() -> str:
    return shutil.which("bwrap") or "bwrap"


@functools.cache
def _system(network: bool) -> tuple[str, ...]:
    """The system's programs and the little of /etc that they need."""
    words: list[str] = []
    for path in view.system():
        if path in view.TOPS and Path(path).is_symlink():
            words += ("--symlink", str(Path(path).readlink()), path)
        else:
            words += ("--ro-bind", path, path)
    for name in view.STUBS:
        words += ("--ro-bind", str(view.STUB / name), f"/etc/{name}")
    if network and Path("/etc/resolv.conf").exists():
        words += ("--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf")
    return tuple(words)


def _private(memory: int | None) -> tuple[str, ...]:
    """What is the command's own. It is in memory, so it must not be larger than that."""
    size = ("--size", str(memory)) if memory is not None else ()
    return (
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", *size, "--tmpfs", "/dev/shm"),  # noqa: S108
        *("--perms", "1777", *size, "--tmpfs", "/tmp"),  # noqa: S108
    )


def _mounts(seen: view.View) -> list[str]:
    words: list[str] = []
    for real, place, mode in seen.paths:
        words += ("--bind" if mode == "write" else "--ro-bind", real, place)
    return words


def _covers(masks: Sequence[Mask]) -> list[str]:
    words: list[str] = []
    for place, folder in masks:
        if folder:
            words += ("--perms", "0555", "--tmpfs", place, "--remount-ro", place)
        else:
            # Without devices in it, a device can be neither read nor written.
            words += ("--ro-bind", os.devnull, place)
    return words


def _signal_of(code: int) -> int:
    """Bubblewrap says like a shell that a signal ended the command; as a number below zero it
    cannot be taken for an exit code. Only signals that end commands count."""
    return 128 - code if code - 128 in _SIGNALS else code


def factory(name: str, settings: Mapping[str, Any], workshop: Workshop) -> BubblewrapSandbox:
    """A `type: bubblewrap` sandbox of a configuration."""
    reader = Reader(name, settings, (*PATHS, *LIMITS, "hide", "network", "environment"))
    found = reader.settings(workshop.folder)
    check_own(reader, found, workshop.hidden, masks=True)
    check_guarded(reader, found, workshop.guarded, mounts=True)
    return BubblewrapSandbox(name, found, lambda: workshop.hidden, lambda: workshop.guarded)
