"""What a sandbox is told and what it answers."""

from __future__ import annotations

import asyncio
from typing import Literal, Protocol

import msgspec

Stopped = Literal["", "time", "output", "memory", "cpu"]
"""What stopped a command: nothing (it ended by itself), its time, its output, its memory, its
processor time."""

Isolation = Literal["files", "network", "processes", "syscalls", "environment", "resources"]
"""files outside the named folders · the network · other processes · dangerous system calls · the
host's environment · memory, processor and process counts."""


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one command may use. None means: as much as the sandbox itself allows."""

    time: float | None = None
    """Seconds until it is killed."""
    cpu: float | None = None
    """Seconds of processor time."""
    memory: int | None = None
    """Bytes."""
    processes: int | None = None
    file_size: int | None = None
    """Bytes of the largest file it may write."""
    open_files: int | None = None
    output: int | None = None
    """Bytes of standard output, and of standard error; a command that writes more is killed."""


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended."""

    exit_code: int
    """Its exit code; minus the signal's number when a signal ended it."""
    stdout: bytes = b""
    stderr: bytes = b""
    stopped: Stopped = ""
    seconds: float = 0.0


class Child(Protocol):
    """A command that runs, with its streams open."""

    pid: int
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        ...

    async def kill(self) -> None:
        """End it and everything it started; returns when all of it is gone."""
        ...


class Finding(msgspec.Struct, frozen=True):
    """What one probe of a self-test found."""

    probe: str
    held: bool | None
    """Whether the sandbox held; None when the probe could not tell."""
    note: str = ""


class SelfTest(msgspec.Struct, frozen=True):
    """Whether a sandbox can be used on this machine, found out by trying."""

    available: bool
    message: str
    """Why not, with the cure; or what it isolates, in a sentence."""
    findings: tuple[Finding, ...] = ()
