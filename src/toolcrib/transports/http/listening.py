"""Addresses: what is bound, and under which names it may be called."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
import stat
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from toolcrib.core.serving import Listen
from toolcrib.errors import ConfigError

BACKLOG = 1024
_RESERVED = 64
"""Descriptors that are not for connections, at least."""


class AddressTaken(ConfigError):
    """Somebody else listens there already."""


def is_loopback(address: Any) -> bool:
    """Whether a socket's address is this machine's own."""
    try:
        return bool(address) and ip_address(address[0].partition("%")[0]).is_loopback
    except ValueError:
        return False


def most_connections(wanted: int) -> int:
    """As many of the connections wanted as leave descriptors for the host itself: it needs some for
    its trail and for what tools open."""
    may_open = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if may_open == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, may_open - max(_RESERVED, may_open // 4)))


def open_tcp(listen: Listen) -> list[socket.socket]:
    """Sockets bound to every address of a name; one port for all. Raises `ConfigError`."""
    where = f"{listen.host}:{listen.port}"
    try:
        found = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ConfigError(
            f"{where} is no address of this machine: {error.strerror}",
            key="serve.http.listen",
            cure="Write an address such as 127.0.0.1:8700",
        ) from None
    opened: list[socket.socket] = []
    port = listen.port
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            held = socket.socket(family, kind, protocol)
            opened.append(held)
            held.setblocking(False)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            held.bind((address[0], port, *address[2:]))
            port = held.getsockname()[1]
            held.listen(BACKLOG)
    except OSError as error:
        for held in opened:
            held.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressTaken(
                f"{where} is in use by another program",
                key="serve.http.listen",
                cure="Stop that program, or listen elsewhere; port 0 takes a free one",
            ) from None
        raise ConfigError(
            f"cannot listen on {where}: {error.strerror}", key="serve.http.listen"
        ) from None
    return opened


def open_unix(path: str) -> socket.socket:
    """A socket that only this user can reach. One that nobody listens on makes room for it.

    Raises `ConfigError`.
    """
    place = Path(path)
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    held.setblocking(False)
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Two hosts that start at once must not take the same stale socket away.
            fcntl.flock(folder, fcntl.LOCK_EX)
            _make_room(place)
            before = os.umask(0o177)
            try:
                held.bind(path)
            finally:
                os.umask(before)
            held.listen(BACKLOG)
        finally:
            os.close(folder)
    except ConfigError:
        held.close()
        raise
    except OSError as error:
        held.close()
        raise ConfigError(
            f"cannot listen on {path}: {error.strerror or error}", key="serve.http.unix"
        ) from None
    return held


def remove_unix(path: str, held: os.stat_result) -> None:
    """Take the file of a socket away, if it is still the one that was made."""
    with suppress(FileNotFoundError):
        now = Path(path).stat()
        if (now.st_dev, now.st_ino) == (held.st_dev, held.st_ino):
            Path(path).unlink()


def _make_room(place: Path) -> None:
    try:
        found = place.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(
            f"{place} exists and is no socket", key="serve.http.unix", cure="Name another path"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(place))
        except (ConnectionRefusedError, FileNotFoundError):
            place.unlink(missing_ok=True)
            return
        except OSError:
            pass  # somebody is there, and too busy or not for us
    raise AddressTaken(
        f"{place} is in use by another program",
        key="serve.http.unix",
        cure="Stop that program, or name another path",
    )
