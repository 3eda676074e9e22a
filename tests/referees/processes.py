"""Servers and gateways as programs of their own, ended with everything they started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments
import yaml

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures_mcp"
GRANTED = ["elicitation", "sampling", "roots"]


@dataclass(frozen=True)
class Upstream:
    url: str


@dataclass(frozen=True)
class Gateway:
    url: str
    folder: Path
    pid: int

    @property
    def mcp(self) -> str:
        return f"{self.url}/mcp"

    @property
    def said(self) -> str:
        return (self.folder / "stderr").read_text()


@contextmanager
def started(
    argv: Sequence[str | Path], log: Path | int, folder: Path | None = None
) -> Iterator[Any]:
    """A program in a group of its own; on leaving it is asked to end, and made to."""
    err = log if isinstance(log, int) else log.open("w")
    process = subprocess.Popen(
        [str(word) for word in argv],
        stdout=subprocess.PIPE,
        stderr=err,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with_group = os.getpgid(process.pid) if process.poll() is None else None
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            assert with_group is not None
            os.killpg(with_group, signal.SIGKILL)
            process.wait()
        process.stdout.close()
        if not isinstance(err, int):
            err.close()


def first_line(process: Any, seconds: float = 60) -> str:
    """What it says when it is ready; a program that says nothing for too long is ended."""
    late = threading.Timer(seconds, process.kill)
    late.start()
    try:
        return process.stdout.readline()
    finally:
        late.cancel()


@contextmanager
def upstream(sdk: str, *options: str) -> Iterator[Upstream]:
    """A fixture server on loopback: `sdk1` or `sdk2`."""
    python = environments.SDK1 if sdk == "sdk1" else environments.SDK2
    argv = (python, "-W", "ignore", FIXTURES / sdk / "server.py", "--port", "0", *options)
    with started(argv, subprocess.DEVNULL) as process:
        word, _, url = first_line(process).partition(" ")
        assert word == "ready", f"the {sdk} fixture did not start"
        yield Upstream(url.strip())


@contextmanager
def own_tools() -> Iterator[Upstream]:
    """A host with tools of its own and no other server."""
    argv = (sys.executable, FIXTURES / "own" / "server.py")
    with started(argv, subprocess.DEVNULL) as process:
        word, _, url = first_line(process).partition(" ")
        assert word == "ready", "the host with own tools did not start"
        yield Upstream(url.strip())


def passing(url: str, **settings: Any) -> dict[str, Any]:
    """A configuration that lets everything of one server through as it is."""
    provider = {"type": "mcp", "url": url, "prefix": "", "trust": "off", "grants": GRANTED}
    return allowing({"fixture": {**provider, **settings}})


def allowing(providers: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A configuration under which whoever is on this machine may call everything."""
    return {
        "version": 1,
        "providers": dict(providers),
        "profiles": {"open": {"trust": 3, "rules": [{"allow": "*"}]}},
        **more,
    }


@contextmanager
def gateway(folder: Path, config: Mapping[str, Any]) -> Iterator[Gateway]:
    """`toolcrib serve` with a configuration, on a free port."""
    file = folder / "toolcrib.yaml"
    file.write_text(yaml.safe_dump(dict(config), sort_keys=False))
    argv = [sys.executable, "-m", "toolcrib", "serve", "--config", file, "--profile", "open"]
    argv += ["--listen", "127.0.0.1:0", "--json", "--quiet"]
    with started(argv, folder / "stderr", folder) as process:
        line = first_line(process)
        assert line, f"the gateway did not start:\n{(folder / 'stderr').read_text()}"
        at = json.loads(line)["http"]
        url = at[0] if isinstance(at, list) else at
        yield Gateway(url.removesuffix("/v1"), folder, process.pid)
