"""Ending a process with everything it started."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def kill_tree(pid: int) -> None:
    """Kill a process that leads its own group: the group, and what left the group.

    Workers adopt the orphans among their descendants, so all of them are found below `pid`. They
    are stopped before they are killed, else a parent could start another while its children die.
    """
    seen: set[int] = set()
    new = {pid}
    while new:
        for one in new:
            _send(one, signal.SIGSTOP)
        seen |= new
        new = {child for one in new for child in _children(one)} - seen
        new |= {child for one in seen for child in _children(one)} - seen
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for one in seen:
        _send(one, signal.SIGKILL)


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found.update(int(child) for child in (task / "children").read_text().split())
    except OSError:
        return found  # it is gone, or this system has no such files: the group is killed anyway
    return found


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
