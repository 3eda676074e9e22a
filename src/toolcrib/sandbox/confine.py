"""Confines itself with Landlock and a system call filter, then becomes the command.

A program of its own, started by the Landlock sandbox; standard library only. It reads its orders
as JSON from a descriptor, which it waits for, so that limits are set before. One process stays
behind as the parent of everything the command starts, also of what leaves its session, and ends
all of it with the command or when it is told to.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import struct
import sys
from pathlib import Path
from typing import Any, NoReturn

_libc = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEVICE = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_ALL_FILES = (1 << 16) - 1
_ALL_TCP = 0b11
_SCOPES = 0b11
"""Abstract sockets and signals."""
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = _ALL_FILES & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEVICE)
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_FACTS = ("/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/version")
_SET_PARENT_DEATH_SIGNAL, _DROP_FROM_BOUND, _NO_NEW_PRIVILEGES, _REAP = 1, 24, 38, 36
_SECCOMP, _BY_FILTER = 22, 2


def abi() -> int:
    """The version of Landlock that the kernel has; 0 without it."""
    return max(0, _libc.syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), 1))


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there need not be allowed
    try:
        if not Path(path).is_dir():
            rights &= _OF_A_FILE
        rule = struct.pack("=Qi", rights, descriptor)
        _check(_libc.syscall(ctypes.c_long(_ADD_RULE), ruleset, 1, rule, 0), f"a rule for {path}")
    finally:
        os.close(descriptor)


def _restrict(orders: dict[str, Any]) -> None:
    attributes = struct.pack("=QQQ", _ALL_FILES, 0 if orders["network"] else _ALL_TCP, _SCOPES)
    ruleset = _check(
        _libc.syscall(ctypes.c_long(_CREATE_RULESET), attributes, ctypes.c_size_t(24), 0),
        "Landlock",
    )
    for path in orders["read"]:
        _allow(ruleset, path, _READ)
    for path in orders["write"]:
        _allow(ruleset, path, _WRITE)
    for path in _DEVICES:
        _allow(ruleset, path, _READ_FILE | _WRITE_FILE)
    for path in _FACTS:
        _allow(ruleset, path, _READ_FILE | _READ_DIR)
    _check(_libc.syscall(ctypes.c_long(_RESTRICT_SELF), ruleset, 0), "Landlock")
    os.close(ruleset)


def _drop_privileges() -> None:
    """Root keeps its name and loses its powers; a device file could undo all the rest."""
    if os.geteuid() == 0:
        os.setgroups([])
    for capability in range(64):
        if _libc.prctl(_DROP_FROM_BOUND, capability, 0, 0, 0) < 0:
            break  # beyond the last one, or not root: then there is nothing to lose
    header, nothing = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    _check(_libc.capset(header, nothing), "capabilities")


def _filter(program: bytes) -> None:
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))

    given = Program(len(program) // 8, program)
    _check(_libc.prctl(_SECCOMP, _BY_FILTER, ctypes.byref(given), 0, 0), "the filter")


def _become(orders: dict[str, Any], trouble: int) -> NoReturn:
    """In the child: confine it for good, then start the command. Says on a pipe what went wrong;
    the pipe closes by itself when the command starts."""
    try:
        os.chdir(orders["cwd"])
        for number in (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no new privileges")
        _drop_privileges()
        _restrict(orders)
        _filter(bytes.fromhex(orders["filter"]))
        os.execve(orders["argv"][0], orders["argv"], orders["env"])  # noqa: S606 - no shell
    except BaseException as error:
        os.write(trouble, str(error).encode())
    os._exit(127)


def _children() -> list[int]:
    here = os.getpid()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name in parentheses may hold anything; the parent is the second word after.
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == here:
                    found.append(int(entry.name))
    return found


def _kill_children(*_: object) -> None:
    for pid in _children():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _wait_for_all(first: int) -> int:
    """Wait for the command, then end and reap all else. Orphans come here by themselves."""
    status = 0
    while True:
        try:
            pid, ended = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if pid == first:
            status = ended
            first = 0
        if first == 0:
            _kill_children()


def _end_alike(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def main() -> None:
    """Read the orders, start the command, and stay until nothing of it is left."""
    reading, trouble = int(sys.argv[1]), int(sys.argv[2])
    with open(reading, "rb") as orders_file:
        given = orders_file.read()
    if not given:
        os._exit(127)  # whoever started this has given up
    orders = json.loads(given)
    host = os.getppid()
    _check(_libc.prctl(_REAP, 1, 0, 0, 0), "adopting orphans")
    _check(_libc.prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGTERM), 0, 0, 0), "parent's death")
    os.set_inheritable(trouble, False)
    signal.signal(signal.SIGTERM, _kill_children)
    child = os.fork()
    if child == 0:
        _become(orders, trouble)
    os.close(trouble)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    status = _wait_for_all(child)
    if os.getppid() != host:
        # The host is gone, so it will not take the command's private folder away.
        import shutil

        shutil.rmtree(orders["private"], ignore_errors=True)
    _end_alike(status)
