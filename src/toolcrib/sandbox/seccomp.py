"""The system call filter, assembled here so that no library is needed."""

from __future__ import annotations

import errno
import functools
import platform
import socket
import struct

from toolcrib.sandbox import syscalls

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE = 0, 4
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_DENY = 0x00050000 | errno.EPERM
_ABSENT = 0x00050000 | errno.ENOSYS
# Every CLONE_NEW flag: mount, cgroup, uts, ipc, user, pid and net namespaces. The flag for a time
# namespace shares its bit with the signal number of `clone` and works with `unshare` only.
NEW_NAMESPACE = 0x7E020000
_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: they type into a terminal."""
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

Instruction = tuple[int, int, int, int]


class UnknownMachine(Exception):
    """There is no table of system calls for this machine."""


def machine() -> str:
    """The machine's name, as the tables spell it."""
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


@functools.cache
def program(*, unix: bool, internet: bool, beside: bool = False, name: str = "") -> bytes:
    """The filter. `unix` and `internet` say which sockets may be made; pairs always may. `beside`
    is for commands that have no namespaces of their own.

    What is denied fails with EPERM. `clone3` does not exist, because a filter cannot see its
    flags; the C library then uses `clone`, whose flags it can see.
    """
    known = syscalls.MACHINES.get(name or machine())
    if known is None:
        raise UnknownMachine(f"no system call filter for {name or machine()} machines")
    column, audit = known
    body: list[Instruction] = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, audit),
        # The other tongues of the same processor have other numbers.
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    body += _when(_AT_LEAST, syscalls.HIGHEST + 1, _ABSENT)
    body += _when(_EQUAL, syscalls.CLONE3[column], _ABSENT)
    denied = syscalls.DENIED | (syscalls.DENIED_BESIDE if beside else {})
    for numbers in denied.values():
        number = numbers[column]
        if number is not None:
            body += _when(_EQUAL, number, _DENY)
    body += _argument(syscalls.CLONE[column], 0, _when(_ANY_BIT, NEW_NAMESPACE, _DENY))
    body += _argument(
        syscalls.IOCTL[column],
        1,
        [step for request in _TERMINAL_INPUT for step in _when(_EQUAL, request, _DENY)],
    )
    body += _argument(syscalls.PERSONALITY[column], 0, _only(_PERSONALITIES))
    if beside:
        # Without a path it is about an open file, without a number about the caller itself.
        body += _zero(syscalls.UTIMENSAT[column], 1)
        body += _zero(syscalls.PRLIMIT[column], 0)
    body += _argument(syscalls.SOCKETPAIR[column], 0, _only((socket.AF_UNIX,)))
    body += _sockets(syscalls.SOCKET[column], unix=unix, internet=internet)
    body.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in body)


def _when(test: int, value: int, answer: int) -> list[Instruction]:
    """Answer when the test holds, else go on."""
    return [(test, 0, 1, value), (_RETURN, 0, 0, answer)]


def _only(values: tuple[int, ...]) -> list[Instruction]:
    """Allow these values of the loaded argument and deny all others."""
    allowed = [step for value in values for step in _when(_EQUAL, value, _ALLOW)]
    return [*allowed, (_RETURN, 0, 0, _DENY)]


def _argument(number: int, index: int, test: list[Instruction]) -> list[Instruction]:
    """For one system call, test the low half of an argument; the number is loaded again after."""
    inner = [(_LOAD, 0, 0, 16 + 8 * index), *test, (_LOAD, 0, 0, _NUMBER)]
    return [(_EQUAL, 0, len(inner), number), *inner]


def _zero(number: int, index: int) -> list[Instruction]:
    """For one system call, deny every value of an argument but zero, in both its halves."""
    low = 16 + 8 * index
    inner: list[Instruction] = []
    for half in (low, low + 4):
        inner += [(_LOAD, 0, 0, half), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _DENY)]
    inner.append((_LOAD, 0, 0, _NUMBER))
    return [(_EQUAL, 0, len(inner), number), *inner]


def _sockets(number: int, *, unix: bool, internet: bool) -> list[Instruction]:
    families = (socket.AF_UNIX,) if unix else ()
    if internet:
        families += (socket.AF_INET, socket.AF_INET6)
    inner: list[Instruction] = [(_LOAD, 0, 0, 16)]
    for family in families:
        inner += _when(_EQUAL, family, _ALLOW)
    if internet:
        # Name resolution and lists of interfaces ask the routing protocol, number 0.
        inner += [
            (_EQUAL, 0, 3, socket.AF_NETLINK),
            (_LOAD, 0, 0, 32),
            *_when(_EQUAL, 0, _ALLOW),
        ]
    inner.append((_RETURN, 0, 0, _DENY))
    return [(_EQUAL, 0, len(inner), number), *inner]
