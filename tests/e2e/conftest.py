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

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


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
