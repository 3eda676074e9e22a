"""Changing the arguments of a call before it is allowed, in the person's own editor."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from toolcrib.approvals.keyboard import Keyboard, NoAnswer, Stop
from toolcrib.approvals.rendering import unseen
from toolcrib.core.jsontext import parse
from toolcrib.errors import JsonError

LARGEST = 1_000_000
"""Characters of an edited file that are read."""


class NotArguments(Exception):
    """What was written is no JSON object; says why in words."""


def editor() -> list[str] | None:
    """The command of the person's editor, as `VISUAL` or `EDITOR` names it."""
    for name in ("VISUAL", "EDITOR"):
        text = os.environ.get(name, "").strip()
        if text:
            try:
                return shlex.split(text) or None
            except ValueError:
                return None
    return None


def as_text(arguments: dict[str, Any], indent: int | None = 2) -> str:
    """Arguments as JSON in which nothing is unseen, and which reads back as the same."""
    text = json.dumps(arguments, indent=indent, ensure_ascii=False, default=repr)
    return "".join(json.dumps(c)[1:-1] if c != "\n" and unseen(c) else c for c in text)


def as_arguments(text: str) -> dict[str, Any]:
    """The arguments in a text. Raises `NotArguments`."""
    try:
        value = parse(text)
    except JsonError as error:
        raise NotArguments(f"this is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise NotArguments("the arguments must be a JSON object, such as {}")
    return cast("dict[str, Any]", value)


def in_editor(
    command: Sequence[str], text: str, keyboard: Keyboard, stop: Stop, until: float, screen: int
) -> str:
    """`text` as the person leaves it. Raises `NoAnswer` when it is no longer wanted, and
    `NotArguments` when the editor cannot be used."""
    # A folder of its own: editors put copies beside the file.
    folder = Path(tempfile.mkdtemp(prefix="toolcrib-"))
    try:
        file = folder / "arguments.json"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(text + "\n")
        with keyboard.lent() as near:
            try:
                process = subprocess.Popen([*command, str(file)], stdin=near, stdout=screen)
            except OSError as error:
                name = command[0]
                raise NotArguments(f"{name} cannot be started: {error.strerror}") from None
            try:
                while process.poll() is None:
                    if stop.within(0.05, until):
                        raise NoAnswer
            finally:
                _end(process)
        if process.returncode:
            raise NotArguments(f"{command[0]} ended with {process.returncode}; nothing was changed")
        return _read(file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _read(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as stream:
            text = stream.read(LARGEST + 1)
    except (OSError, UnicodeDecodeError):
        raise NotArguments("the file cannot be read as text; nothing was changed") from None
    if len(text) > LARGEST:
        raise NotArguments(f"the file is over {LARGEST} characters long")
    return text
