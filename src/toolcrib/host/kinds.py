"""The kinds of tools that Toolcrib runs itself, each made when a tool of its kind is registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.core.protocols import Executor


def _shell() -> Executor:
    from toolcrib.executors.shell import ShellExecutor

    return ShellExecutor()


def _process() -> Executor:
    from toolcrib.executors.process import ProcessExecutor

    return ProcessExecutor()


def _http() -> Executor:
    from toolcrib.executors.http import HttpExecutor

    return HttpExecutor()


BUILTIN: dict[str, Callable[[], Executor]] = {
    "http": _http,
    "process": _process,
    "shell": _shell,
}
"""How to make what runs a kind. Functions of kind `python` need nobody."""
