"""For tests of executors: contexts that stand alone, and a look at what is left running."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolcrib.core.context import ToolContext

Heard = list[tuple[str, dict[str, Any]]]


class Voice:
    """Hears what running tools say."""

    def __init__(self) -> None:
        self.heard: Heard = []

    def announce(self, ctx: ToolContext, type: str, data: dict[str, Any]) -> None:
        self.heard.append((type, data))


def context(**arguments: Any) -> ToolContext:
    """A call of the tool `t`."""
    return ToolContext("s1", tool="t", arguments=arguments, principal="ann", call_id="c1")


def heard(ctx: ToolContext) -> Heard:
    """What the tool is going to say."""
    voice: Any = Voice()
    ctx.runtime = voice
    return voice.heard


async def until(check: Callable[[], object]) -> None:
    """Wait until something is so."""
    for _ in range(2000):
        if check():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to be")


def exists(pid: int) -> bool:
    """Whether there is such a process, even a dead one that nobody looked after."""
    return Path(f"/proc/{pid}").exists()


def alive(pid: int) -> bool:
    """Whether such a process can still do something."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children() -> set[int]:
    """The processes that this one started and that are not looked after yet."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found |= {int(child) for child in (task / "children").read_text().split()}
    return found


def descriptors() -> set[str]:
    """The open files of this process."""
    return {file.name for file in Path("/proc/self/fd").iterdir()}
