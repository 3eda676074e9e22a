"""Tries to get out of where it runs, and prints what it reached.

A program of its own: it is given to an interpreter inside a sandbox, together with the targets
that the host has set up, and uses the standard library only. Every probe returns True when it
got through, False when it was stopped, None when it could not tell.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import platform
import resource
import signal
import socket
import struct
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_ARM = platform.machine() in ("aarch64", "arm64")
_NEW_USER, _NEW_MOUNT = 0x10000000, 0x00020000


def _call(intel: int, arm: int, *arguments: Any) -> bool:
    """Whether a system call, made directly, succeeded or got past every guard."""
    ctypes.set_errno(0)
    result = _libc.syscall(ctypes.c_long(arm if _ARM else intel), *arguments)
    if result >= 0:
        return True
    # Wrong arguments are looked at only after permission was given.
    return ctypes.get_errno() in (errno.EINVAL, errno.EFAULT, errno.EBADF, errno.ENOKEY)


def _in_child(probe: Callable[[], bool]) -> bool:
    """Run what changes the process itself in a child."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            code = 0 if probe() else 1
        os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _reads(path: str, text: str) -> bool:
    return text in Path(path).read_text(errors="replace")


def _creates(path: str) -> bool:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))
    return True


def _opens_for_writing(path: str) -> bool:
    os.close(os.open(path, os.O_WRONLY))
    return True


def _connects(family: int, address: Any) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(2)
        client.connect(address)
    return True


def _sends(address: Any, text: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(text.encode(), address)
    return True


def _makes_socket(family: int, kind: int, protocol: int = 0) -> bool:
    socket.socket(family, kind, protocol).close()
    return True


def _signals(pid: int) -> bool:
    os.kill(pid, signal.SIGTERM)
    return True


def _sees(pid: int, mark: str) -> bool:
    return mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()


def _new_user_namespace() -> bool:
    def unshare() -> bool:
        return _libc.unshare(_NEW_USER) == 0

    def clone() -> bool:
        child = _libc.syscall(ctypes.c_long(220 if _ARM else 56), _NEW_USER | 17, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        return child > 0

    def clone3() -> bool:
        arguments = struct.pack("=8Q", _NEW_USER, 0, 0, 0, 17, 0, 0, 0)
        child = _libc.syscall(ctypes.c_long(435), arguments, len(arguments))
        if child == 0:
            os._exit(0)
        return child > 0

    return _in_child(unshare) or _in_child(clone) or _in_child(clone3)


def _mounts() -> bool:
    folder = b"/tmp"

    def straight() -> bool:
        _libc.unshare(_NEW_MOUNT)
        return _libc.mount(b"none", folder, b"tmpfs", 0, None) == 0

    def in_namespace() -> bool:
        _libc.unshare(_NEW_USER | _NEW_MOUNT)
        return _libc.mount(b"none", folder, b"tmpfs", 0, None) == 0

    return _in_child(straight) or _in_child(in_namespace)


def _traces() -> bool:
    return _in_child(lambda: _libc.ptrace(0, 0, None, None) == 0)


def _makes_device(folder: str) -> bool:
    path = str(Path(folder, "device"))
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))
    try:
        os.close(os.open(path, os.O_RDONLY))
    finally:
        Path(path).unlink()
    return True


def _asks_kernel_for_map() -> bool:
    attributes = struct.pack("=6I", 2, 4, 4, 1, 0, 0)
    return _call(321, 280, 0, attributes, len(attributes))


def _types_into_terminal() -> bool:
    def into_own() -> bool:
        os.setsid()
        _, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        fcntl.ioctl(terminal, termios.TIOCSTI, b"x")
        return True

    with contextlib.suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDWR)
        fcntl.ioctl(terminal, termios.TIOCSTI, b"\x00")
        return True
    return _in_child(into_own)


def _reads_descriptor(number: int, text: str) -> bool:
    return os.pread(number, 4096, 0) == text.encode()


def _links(target: str, folder: str, text: str) -> bool:
    path = Path(folder, "hard")
    os.link(target, path)
    try:
        return _reads(str(path), text)
    finally:
        path.unlink()


def _changes_mode(path: str) -> bool:
    Path(path).chmod(0o600)
    return True


def _limits_process(pid: int) -> bool:
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64))
    return True


def _attaches_memory(key: int) -> bool:
    return _libc.shmget(key, 0, 0o600) >= 0


def _watches(path: str) -> bool:
    descriptor = _libc.inotify_init1(0)
    try:
        return _libc.inotify_add_watch(descriptor, path.encode(), 0x2) >= 0
    finally:
        os.close(descriptor)


def _counts_events() -> bool:
    # A software clock of this process only, without the kernel's part: the least there is.
    attributes = struct.pack("=IIQQQQQ", 1, 64, 0, 0, 0, 0, 0b1100000) + bytes(80)
    return _call(298, 241, attributes, 0, -1, -1, 0)


def probes(given: dict[str, Any]) -> dict[str, Callable[[], bool | None]]:
    """Every probe for which a target was given, and those that need none."""
    loopback = "127.0.0.1"
    table: dict[str, tuple[str, Callable[[Any], bool | None]]] = {
        "read_secret": ("secret", lambda path: _reads(path, given["text"])),
        "symlink_out": ("link", lambda path: _reads(path, given["text"])),
        "write_home": ("home", _creates),
        "write_system": ("system", lambda paths: [p for p in paths if _try(_creates, p)] != []),
        "host_tcp": ("tcp", lambda port: _connects(socket.AF_INET, (loopback, port))),
        "host_udp": ("udp", lambda port: _sends((loopback, port), given["text"])),
        "host_unix_path": ("unix", lambda path: _connects(socket.AF_UNIX, path)),
        "host_unix_abstract": ("abstract", lambda n: _connects(socket.AF_UNIX, f"\0{n}")),
        "see_process": ("pid", lambda pid: _sees(pid, given["text"])),
        "environment": ("variable", lambda name: given["text"] in os.environ.get(name, "")),
        "device": ("folder", _makes_device),
        "descriptor": ("descriptor", lambda number: _reads_descriptor(number, given["text"])),
        "hard_link": ("secret", lambda path: _links(path, given["folder"], given["text"])),
        "change_mode": ("secret", _changes_mode),
        "watch_file": ("secret", _watches),
        "process_root": (
            "pid",
            lambda pid: _reads(f"/proc/{pid}/root{given['secret']}", given["text"]),
        ),
        "limit_process": ("pid", _limits_process),
        "shared_memory": ("memory", _attaches_memory),
        "signal_process": ("pid", _signals),
    }
    found: dict[str, Callable[[], bool | None]] = {
        name: (lambda probe=probe, key=key: probe(given[key]))
        for name, (key, probe) in table.items()
        if key in given
    }
    found |= {
        "read_shadow": lambda: _reads("/etc/shadow", ":"),
        "kernel_settings": lambda: _opens_for_writing("/proc/sys/kernel/core_pattern"),
        "user_namespace": _new_user_namespace,
        "mount": _mounts,
        "ptrace": _traces,
        "keyctl": lambda: _call(250, 219, 0, ctypes.c_long(-3), 1),
        "add_key": lambda: _call(248, 217, b"user", b"probe", b"x", 1, ctypes.c_long(-2)),
        "io_uring": lambda: _call(425, 425, 1, bytes(120)),
        "bpf": _asks_kernel_for_map,
        "perf_events": _counts_events,
        "userfaultfd": lambda: _call(323, 282, 1),
        "file_handles": lambda: _call(304, 265, -1, bytes(16), 0),
        "packet_socket": lambda: _makes_socket(socket.AF_PACKET, socket.SOCK_RAW),
        "raw_socket": lambda: _makes_socket(socket.AF_INET, socket.SOCK_RAW, 1),
        "vsock": lambda: _makes_socket(40, socket.SOCK_STREAM),
        "crypto_socket": lambda: _makes_socket(38, socket.SOCK_SEQPACKET),
        "terminal_input": _types_into_terminal,
    }
    return found


def _try(probe: Callable[..., bool | None], *arguments: Any) -> bool | None:
    try:
        return probe(*arguments)
    except (OSError, ValueError):
        return False


def main() -> None:
    """Run the probes that were asked for and print a JSON object: what each of them reached."""
    given = json.loads(sys.argv[1])
    asked = given.get("probes")
    answers = {
        name: _try(probe) for name, probe in probes(given).items() if not asked or name in asked
    }
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
