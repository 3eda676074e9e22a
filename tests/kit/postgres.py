"""A real PostgreSQL server for tests, gone with the process that asked for it."""

from __future__ import annotations

import atexit
import functools
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from needs import needs

USER = "toolcrib"
PASSWORD = "not-for-logs-5db1"

# A server must not run as root. The step between also has it end with the process that started
# it, however that process ends; changing users would undo an earlier request for that.
_STEP = """
import ctypes, os, sys
uid = int(sys.argv[1])
if os.getuid() == 0:
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
ctypes.CDLL(None).prctl(1, 3)
os.execv(sys.argv[2], sys.argv[2:])
"""


class PostgresServer:
    """A server on loopback. `start` and `stop` may be called any number of times."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._account = pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else os.getuid()
        if os.getuid() == 0:
            os.chown(folder, self._account, self._account)
        secret = folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run("initdb", "-D", str(folder / "data"), "-U", USER, "--pwfile", str(secret),
                  "--auth", "scram-sha-256", "--no-sync", "--no-instructions",
                  "--encoding", "UTF8", "--locale", "C")  # fmt: skip

    @property
    def url(self) -> str:
        """How to reach it, password included."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """How to reach one of its databases."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Have it answer; returns when it does."""
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "fsync": "off",
                    "unix_socket_directories": self.folder, "shared_buffers": "8MB",
                    "max_connections": 40, "autovacuum": "off"}  # fmt: skip
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                self._as_account("postgres", "-D", str(self.folder / "data"), *options),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_ENVIRONMENT,
                cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        for _ in range(600):
            if self._process.poll() is not None:
                break
            if self._answers(self._process.pid):
                return
            time.sleep(0.02)
        text = (self.folder / "log").read_text(errors="replace")
        self.stop()
        raise RuntimeError(f"the server does not start:\n{text[-2000:]}")

    def stop(self) -> None:
        """End it at once: its connections break."""
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGQUIT)
            process.wait(30)

    async def new_database(self) -> str:
        """The address of a new, empty database."""
        import asyncpg

        name = f"test_{secrets.token_hex(6)}"
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(f"create database {name}")
        finally:
            await connection.close()
        return self.url_of(name)

    def _answers(self, pid: int) -> bool:
        try:
            lines = (self.folder / "data/postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # The file of an earlier run may still lie there.
        return len(lines) > 7 and lines[0] == str(pid) and lines[7].startswith("ready")

    def _as_account(self, program: str, *arguments: str) -> list[str]:
        path = str(self.programs / program)
        return [sys.executable, "-I", "-c", _STEP, str(self._account), path, *arguments]

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            self._as_account(program, *arguments), capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, env=_ENVIRONMENT, cwd=self.folder, timeout=60,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{done.stderr[-2000:]}")


_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server of one's own, to be stopped and started at will."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="tc-pg-"))
    try:
        server = PostgresServer(programs, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def shared_postgres() -> PostgresServer:
    """The one server of this test process; nobody stops it, everybody uses `new_database()`."""
    context = postgres_server()
    server = context.__enter__()
    atexit.register(context.__exit__, None, None, None)
    return server


def _programs() -> Path:
    """The folder of the server's programs; Debian keeps them off the search path."""
    kept = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: int(re.sub(r"\D", "", path.parts[-3]) or 0),
    )
    return Path(kept[-1] if kept else needs("initdb", "postgresql")).resolve().parent


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
