"""Running the command as users do: a process of its own, in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import toolcrib

COMMAND = [sys.executable, "-m", "toolcrib"]


def environment() -> dict[str, str]:
    """The environment of the command, which finds the package these tests found."""
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    source = str(Path(toolcrib.__file__).parents[1])
    return {**kept, "PYTHONPATH": source, "TERM": "xterm-256color", "COLUMNS": "200"}


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Cli:
    """The command, in one folder."""

    folder: Path

    def __call__(self, *words: str, stdin: str = "", cwd: Path | None = None) -> Ran:
        return self._run([*COMMAND, *words], stdin, cwd)

    def python(self, code: str) -> Ran:
        """Python code, in a process like the command's."""
        return self._run([sys.executable, "-c", code], "", None)

    def _run(self, words: Sequence[str], stdin: str, cwd: Path | None) -> Ran:
        done = subprocess.run(
            words,
            cwd=cwd or self.folder,
            env=environment(),
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """The command, left running."""
        return subprocess.Popen(
            [*COMMAND, *words],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def serve(self, *words: str, **more: str) -> Server:
        """A host that serves this folder on a free port, ready to be called."""
        return Server(self, words, more)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


class Server:
    """A host that serves, in a process of its own; `with` stops it as an operator does."""

    def __init__(self, cli: Cli, words: Sequence[str], more: dict[str, str]) -> None:
        listen = () if "--listen" in words else ("--listen", "127.0.0.1:0")
        self.log = cli.folder / "serve.log"
        with self.log.open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "serve", "--json", *listen, *words],
                cwd=cli.folder,
                env={**environment(), **more},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
            )
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(20)
            pytest.fail(f"it does not serve: {self.log.read_text()}")
        self.told = json.loads(line)
        self.url = self.told["http"][0]

    def stop(self) -> int:
        """Its exit code after SIGTERM."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            self.process.stdout.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


@pytest.fixture
def server(cli: Cli) -> Any:
    """A running host on a fresh starter project."""
    with cli.serve() as running:
        yield running


@pytest.fixture
def empty(tmp_path: Path) -> Cli:
    """The command in an empty folder."""
    return Cli(tmp_path)


@pytest.fixture(scope="session")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("starter")
    done = Cli(folder)("init")
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def command_environment(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An environment in which a shell finds this `toolcrib`."""

    def made() -> dict[str, str]:
        programs = tmp_path_factory.mktemp("programs")
        program = programs / "toolcrib"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m toolcrib "$@"\n')
        program.chmod(0o755)
        given = environment()
        path = os.pathsep.join((str(programs), given.get("PATH", os.defpath)))
        return {**given, "PATH": path}

    return made


@pytest.fixture(scope="session")
def cli_in() -> type[Cli]:
    """Makes the command for a folder."""
    return Cli


@pytest.fixture
def cli(starter: Path, tmp_path: Path) -> Cli:
    """The command in a fresh starter project."""
    shutil.copytree(starter, tmp_path, dirs_exist_ok=True)
    return Cli(tmp_path)


@pytest.fixture
def terminal(cli: Cli) -> Any:
    """Starts the command at a terminal."""
    import pexpect

    opened: list[Any] = []

    def start(*words: str, **more: str) -> Any:
        child = pexpect.spawn(
            COMMAND[0],
            [*COMMAND[1:], *words],
            cwd=str(cli.folder),
            env={**environment(), **more},
            encoding="utf-8",
            timeout=20,
            dimensions=(40, 200),
        )
        opened.append(child)
        return child

    yield start
    for child in opened:
        child.close(force=True)
