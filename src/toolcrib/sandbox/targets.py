"""What the escape probes aim at: a secret, sockets and a process, set up on the host."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import secrets
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_SHORT = "/tmp"  # noqa: S108 - a new folder is made there
VARIABLE = "TOOLCRIB_PROBE_SECRET"


class Targets:
    """Real things of this host that no sandboxed command may reach; taken away on leaving."""

    def __init__(self) -> None:
        self._text = secrets.token_hex(16)
        self._clean = contextlib.ExitStack()
        self._described: dict[str, Any] = {}
        self.workspace = ""
        """A folder that the probing command may write."""

    def __enter__(self) -> Targets:
        try:
            self._set_up()
        except BaseException:
            self._clean.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._clean.close()

    def describe(self, **more: Any) -> dict[str, Any]:
        """What the escape program is told."""
        return {**self._described, "text": self._text, **more}

    async def arrived(self) -> set[str]:
        """The probes whose effect can be seen from the host. Some effects look like success from
        inside and reach nothing: these are decided here."""
        found: set[str] = set()
        if _exists([self._described["home"]]):
            found.add("write_home")
        if _exists(self._described["system"]):
            found.add("write_system")
        with contextlib.suppress(BlockingIOError):
            if self._udp.recv(4096) == self._text.encode():
                found.add("host_udp")
        # A signal is delivered a moment after it was sent.
        for _ in range(20):
            if self._decoy.poll() is not None:
                found.add("signal_process")
                break
            await asyncio.sleep(0.001)
        return found

    def _set_up(self) -> None:
        outside = self._clean.enter_context(tempfile.TemporaryDirectory(prefix="toolcrib-out-"))
        self.workspace = self._clean.enter_context(
            tempfile.TemporaryDirectory(prefix="toolcrib-in-")
        )
        secret = Path(outside, "secret")
        secret.touch(0o600)
        secret.write_text(self._text)
        link = Path(self.workspace, "link")
        link.symlink_to(secret)
        mark = f".toolcrib-{self._text[:8]}"
        system = [str(Path(folder, mark)) for folder in ("/usr", "/etc", "/bin", "/")]
        home = str(Path("~", mark).expanduser())
        for path in (*system, home):
            self._clean.callback(Path(path).unlink, missing_ok=True)
        tcp = self._socket(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self._udp = self._socket(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        # The path of a socket has to be short, and that of a temporary folder need not be.
        short = self._clean.enter_context(
            tempfile.TemporaryDirectory(
                prefix="toolcrib-", dir=_SHORT if Path(_SHORT).is_dir() else None
            )
        )
        path = str(Path(short, "socket"))
        self._socket(socket.AF_UNIX, socket.SOCK_STREAM, path)
        self._socket(socket.AF_UNIX, socket.SOCK_STREAM, f"\0toolcrib-{self._text}")
        self._decoy = self._start_decoy()
        self._described = {
            "secret": str(secret),
            "link": str(link),
            "home": home,
            "system": system,
            "tcp": tcp.getsockname()[1],
            "udp": self._udp.getsockname()[1],
            "unix": path,
            "abstract": f"toolcrib-{self._text}",
            "pid": self._decoy.pid,
            "variable": VARIABLE,
            "folder": self.workspace,
            "descriptor": self._open(secret),
            "memory": self._share_memory(),
        }
        os.environ[VARIABLE] = self._text
        self._clean.callback(os.environ.pop, VARIABLE, None)

    def _socket(self, family: int, kind: int, address: Any) -> socket.socket:
        made = socket.socket(family, kind)
        self._clean.callback(made.close)
        made.setblocking(False)
        made.bind(address)
        if kind == socket.SOCK_STREAM:
            made.listen(4)
        return made

    def _open(self, path: Path) -> int:
        """A descriptor such as a careless program has: it would be handed on."""
        descriptor = os.open(path, os.O_RDONLY)
        self._clean.callback(os.close, descriptor)
        os.set_inheritable(descriptor, True)
        return descriptor

    def _share_memory(self) -> int:
        """A memory segment that any process of this user can open by its number."""
        key = secrets.randbits(30) | 1
        segment = _libc.shmget(key, 4096, 0o600 | 0o1000)
        if segment >= 0:
            self._clean.callback(_libc.shmctl, segment, 0, None)
        return key

    def _start_decoy(self) -> subprocess.Popen[bytes]:
        argv = ["/bin/sh", "-c", "read -r _", self._text]
        decoy = subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)
        self._clean.callback(_end, decoy)
        return decoy


def _exists(paths: list[str]) -> bool:
    return any(Path(path).exists() for path in paths)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()
