"""The filter, read by an interpreter of the kernel's little language, and by the kernel."""

from __future__ import annotations

import errno
import platform
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from toolcrib.sandbox import seccomp, syscalls

Make = Callable[..., Any]
ALLOW, DENY, ABSENT, KILL = "allow", "deny", "absent", "kill"
ANSWERS = {
    0x7FFF0000: ALLOW,
    0x00050000 | errno.EPERM: DENY,
    0x00050000 | errno.ENOSYS: ABSENT,
    0x80000000: KILL,
}
MACHINES = sorted(syscalls.MACHINES)


def answer(program: bytes, audit: int, number: int, *arguments: int) -> str:
    """What the kernel would answer."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("=IIQ6Q", number, audit, 0, *padded)
    steps = list(struct.iter_unpack("=HBBI", program))
    at = value = 0
    while True:
        code, yes, no, k = steps[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, k)
        elif code == 0x06:
            return ANSWERS[k]
        else:
            holds = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[code]
            at += yes if holds else no


class Filter:
    def __init__(self, machine: str, **how: bool) -> None:
        options = {"unix": True, "internet": True} | how
        self.column, self.audit = syscalls.MACHINES[machine]
        self.program = seccomp.program(name=machine, **options)

    def __call__(self, call: Any, *arguments: int) -> str:
        number = call if isinstance(call, int) else call[self.column]
        return answer(self.program, self.audit, number, *arguments)


@pytest.mark.parametrize("machine", MACHINES)
def test_denied_calls_fail(machine: str) -> None:
    ask = Filter(machine)
    for name, numbers in syscalls.DENIED.items():
        if numbers[ask.column] is not None:
            assert ask(numbers) == DENY, name
    for name, numbers in syscalls.DENIED_BESIDE.items():
        if numbers[ask.column] is not None:
            assert ask(numbers) == ALLOW, name
            assert Filter(machine, beside=True)(numbers) == DENY, name


@pytest.mark.parametrize("machine", MACHINES)
def test_ordinary_calls_are_allowed(machine: str) -> None:
    ask = Filter(machine, beside=True)
    read, write, openat, execve, futex = {
        "x86_64": (0, 1, 257, 59, 202),
        "aarch64": (63, 64, 56, 221, 98),
    }[machine]
    assert {ask(number) for number in (read, write, openat, execve, futex)} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_flags_and_arguments_decide(machine: str) -> None:
    ask = Filter(machine)
    threads = 0x3D0F00
    assert ask(syscalls.CLONE, threads) == ALLOW
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert ask(syscalls.CLONE, flag | 17) == DENY, hex(flag)
    assert ask(syscalls.CLONE3, 0) == ABSENT
    assert ask(syscalls.IOCTL, 1, 0x5412) == DENY
    assert ask(syscalls.IOCTL, 1, 0x541C) == DENY
    assert ask(syscalls.IOCTL, 1, 0x5413) == ALLOW
    # The kernel looks at 32 bits of the request, so the others must not change the answer.
    assert ask(syscalls.IOCTL, 1, 1 << 32 | 0x5412) == DENY
    assert ask(syscalls.PERSONALITY, 0) == ALLOW
    assert ask(syscalls.PERSONALITY, 0x400000) == DENY
    assert ask(syscalls.HIGHEST + 1) == ABSENT


@pytest.mark.parametrize("machine", MACHINES)
def test_arguments_are_tested_in_both_halves(machine: str) -> None:
    ask = Filter(machine, beside=True)
    assert ask(syscalls.UTIMENSAT, 3, 0) == ALLOW
    assert ask(syscalls.UTIMENSAT, 3, 0x1000) == DENY
    assert ask(syscalls.UTIMENSAT, 3, 1 << 32) == DENY
    assert ask(syscalls.PRLIMIT, 0) == ALLOW
    assert ask(syscalls.PRLIMIT, 1) == DENY


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("unix", [True, False])
@pytest.mark.parametrize("internet", [True, False])
def test_families_of_sockets(machine: str, unix: bool, internet: bool) -> None:
    ask = Filter(machine, unix=unix, internet=internet)
    expected = dict.fromkeys(range(64), DENY)
    if unix:
        expected[socket.AF_UNIX] = ALLOW
    if internet:
        expected |= dict.fromkeys((socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK), ALLOW)
    assert {family: ask(syscalls.SOCKET, family, 1, 0) for family in range(64)} == expected
    # Of the kernel's own protocols only the one about routes.
    assert ask(syscalls.SOCKET, socket.AF_NETLINK, 3, 9) == DENY
    assert ask(syscalls.SOCKETPAIR, socket.AF_UNIX) == ALLOW
    assert ask(syscalls.SOCKETPAIR, 30) == DENY


def test_other_tongues_of_the_processor_are_ended() -> None:
    ask = Filter("x86_64")
    assert answer(ask.program, 0x40000003, 20) == KILL
    assert ask(0x40000000 | 101) == ABSENT


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(seccomp.UnknownMachine, match="s390x"):
        seccomp.program(unix=True, internet=True, name="s390x")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs an x86_64 machine")
async def test_the_kernel_ends_calls_in_another_tongue(make: Make) -> None:
    program = (
        "import ctypes, mmap\n"
        "code = bytes.fromhex('b814000000cd80c3')\n"  # mov eax, 20; int 0x80; ret
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        "page.write(code)\n"
        "address = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())\n"
    )
    argv = ["/usr/bin/python3", "-c", program]
    bare = await make("subprocess").run(argv, cwd="/", env={})
    assert bare.exit_code == 0, bare
    ended = await make("bubblewrap").run(argv, cwd="/tmp", env={})
    assert (ended.exit_code, ended.stdout) == (-31, b"")
