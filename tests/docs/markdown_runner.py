"""Runs the examples of a Markdown page in the order in which they are read.

A page is one sitting: its blocks share an empty directory, a namespace, an event loop and an
environment.

- A block whose first line is a comment with a file name (`# toolcrib.yaml`) becomes that file.
- A `python` block runs; `await` may stand at the top level.
- In a `console` block, `$ ` starts a command. `toolcrib`, `python`, `cat`, `echo` and `export` are
  run; any other command is only shown. Output that follows is compared word by word, and `…` stands
  for anything; a command without output shown has to succeed.
- `<!-- example: skip because REASON -->` on the line above a block leaves it out.
"""

from __future__ import annotations

import ast
import asyncio
import difflib
import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
RUNNABLE = ("toolcrib", "python", "cat", "echo")
# Spellings that a renderer accepts and this runner would pass over in silence.
MISSPELT = {
    "py": "python",
    "python3": "python",
    "pycon": "python",
    "shell-session": "console",
    "shellsession": "console",
}

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
# Only these endings: a comment such as `# host.call` must not turn an example into a file.
FILE_NAME = re.compile(
    r"^# ?(?P<name>(?:[\w-]+/)*[\w.-]*\w\.(?:csv|json|jsonl|md|py|toml|txt|yaml|yml))\s*$"
)
DIRECTIVE = re.compile(r"^\s*<!--\s*example:(?P<words>.*)-->\s*$")
SKIP = re.compile(r"^skip because \S.*$")
ASSIGNMENT = re.compile(r"^\w+=")


class ExampleError(AssertionError):
    """An example on a page is malformed or does not do what the page says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A fenced block: its language, its text, and the line on which the text begins."""

    language: str
    text: str
    line: int
    skipped: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command of a console block and the output that the page shows for it."""

    text: str
    output: str
    line: int


def read_blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    blocks: list[Block] = []
    number = 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        number += 1
        if opening is None:
            continue
        start = number
        closing = re.compile(rf"^ *{opening['fence']}{opening['fence'][0]}* *$")
        while number < len(lines) and not closing.match(lines[number]):
            number += 1
        if number == len(lines):
            raise ExampleError(f"{page.name}:{start}: this block is never closed")
        words = opening["info"].split()
        language = words[0].lower() if words else ""
        if language in MISSPELT:
            raise ExampleError(
                f"{page.name}:{start}: write `{MISSPELT[language]}` instead of `{language}`, "
                "so that the block is run"
            )
        indent = len(opening["indent"])
        text = "\n".join(
            line[min(indent, len(line) - len(line.lstrip())) :] for line in lines[start:number]
        )
        above = lines[start - 2] if start > 1 else ""
        skipped = _is_skipped(above, f"{page.name}:{start - 1}")
        blocks.append(Block(language=language, text=text, line=start + 1, skipped=skipped))
        number += 1
    return blocks


def _is_skipped(above: str, where: str) -> bool:
    directive = DIRECTIVE.match(above)
    if directive is None:
        return False
    if not SKIP.match(directive["words"].strip()):
        raise ExampleError(f"{where}: write `<!-- example: skip because REASON -->`")
    return True


def read_commands(page: Path, block: Block) -> list[Command]:
    """The commands of a console block, each with the output shown below it."""
    commands: list[Command] = []
    lines = list(enumerate(block.text.splitlines(), block.line))
    while lines:
        line, text = lines.pop(0)
        if not text.startswith("$ "):
            if text.strip():
                raise ExampleError(f"{page.name}:{line}: a console block begins with `$ command`")
            continue
        while text.endswith("\\") and lines:
            text = text[:-1] + lines.pop(0)[1].removeprefix("> ")
        output: list[str] = []
        while lines and not lines[0][1].startswith("$ "):
            output.append(lines.pop(0)[1])
        commands.append(Command(text=text[2:].strip(), output="\n".join(output), line=line))
    return commands


def same_words(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the printed words are the shown ones; `…` stands for any words or letters."""
    reachable = {0}
    for word in shown:
        if word == "…":
            reachable = set(range(min(reachable), len(printed) + 1))
        else:
            pattern = re.sub(r"([*?\[])", r"[\1]", word).replace("…", "*")
            reachable = {
                place + 1
                for place in reachable
                if place < len(printed) and fnmatchcase(printed[place], pattern)
            }
        if not reachable:
            return False
    return len(printed) in reachable


class Sitting:
    """What the blocks of one page share while they run."""

    def __init__(self, page: Path, directory: Path, loop: asyncio.Runner) -> None:
        self.page = page
        self.directory = directory
        self.loop = loop
        # Examples are read as scripts, and classes find their annotations through this entry.
        self.module = types.ModuleType("__main__")
        self.exit_code = 0

    def run(self, block: Block) -> None:
        """Do with a block what its language and its first line say."""
        named = FILE_NAME.match(block.text.partition("\n")[0])
        if block.skipped:
            return
        if named is not None:
            self.write(named["name"], block.text)
        elif block.language == "python":
            self.execute(block)
        elif block.language == "console":
            for command in read_commands(self.page, block):
                self.command(command)

    def write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
        _forget_modules_below(path)

    def execute(self, block: Block) -> None:
        # Blank lines in front make tracebacks point into the page itself.
        source = "\n" * (block.line - 1) + block.text
        code = compile(
            source,
            str(self.page),
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
        waiting = eval(code, self.module.__dict__)
        if code.co_flags & inspect.CO_COROUTINE:
            self.loop.run(waiting)

    def command(self, command: Command) -> None:
        words = shlex.split(command.text)
        if words[0] == "export":
            os.environ.update(word.split("=", 1) for word in words[1:])
            return
        first = next((word for word in words if not ASSIGNMENT.match(word)), "")
        if first not in RUNNABLE:
            return
        done = subprocess.run(
            # The subshell hands the last exit code on, so that `echo $?` tells the truth.
            ["sh", "-c", f"(exit {self.exit_code})\n{command.text}"],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        self.exit_code = done.returncode
        self._compare(command, done.stdout)

    def _compare(self, command: Command, printed: str) -> None:
        where = f"{self.page.name}:{command.line}: `{command.text}`"
        shown = command.output.split()
        if not shown and self.exit_code != 0:
            raise ExampleError(f"{where} ended with exit code {self.exit_code}:\n{printed}")
        if shown and not same_words(shown, printed.split()):
            difference = difflib.unified_diff(
                command.output.splitlines(),
                printed.splitlines(),
                "on the page",
                f"printed, exit code {self.exit_code}",
                lineterm="",
            )
            raise ExampleError(f"{where} printed something else:\n" + "\n".join(difference))


def _forget_modules_below(path: Path) -> None:
    """Drop the modules imported from a file or directory, so that the next import reads it anew."""
    for name, module in list(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if isinstance(origin, str) and Path(origin).is_relative_to(path):
            del sys.modules[name]
    importlib.invalidate_caches()


@contextmanager
def sitting(page: Path, directory: Path) -> Iterator[Sitting]:
    """An empty project directory in which this interpreter's `toolcrib` and `python` are found."""
    project, programs, home = (directory / name for name in ("project", "programs", "home"))
    for made in (project, programs, home):
        made.mkdir()
    for name, arguments in (("toolcrib", "-m toolcrib"), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
        program.chmod(0o755)
    inherited = {key: value for key, value in os.environ.items() if "TOOLCRIB" not in key}
    environment = inherited | {
        "COLUMNS": "100",
        "HOME": str(home),
        "NO_COLOR": "1",
        "PATH": os.pathsep.join((str(programs), inherited.get("PATH", os.defpath))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(ROOT / "src"),
        "TERM": "dumb",
    }
    directory_before, main_before = Path.cwd(), sys.modules["__main__"]
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        mock.patch.object(sys, "path", [str(project), *sys.path]),
        mock.patch.object(sys, "dont_write_bytecode", True),
        asyncio.Runner() as loop,
    ):
        running = Sitting(page, project, loop)
        os.chdir(project)
        sys.modules["__main__"] = running.module
        try:
            yield running
        finally:
            sys.modules["__main__"] = main_before
            os.chdir(directory_before)
            _forget_modules_below(project)


def run_page(page: Path, directory: Path) -> None:
    """Run every example of a page in a fresh directory below `directory`."""
    blocks = read_blocks(page)
    with sitting(page, directory) as running:
        for block in blocks:
            running.run(block)
