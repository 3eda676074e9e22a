"""Control groups: limits over all processes of a command together, where they can be had.

Version 1, version 2 and machines that mix both are tried, not asked: what counts is that a group
can be made, limited and joined. Nothing that exists is changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_log = logging.getLogger("toolcrib.sandbox")
_PREFIX = "toolcrib-"
_MOST_PROCESSES = 4_000_000
"""The kernel takes no larger number."""
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Controller:
    """A folder in which groups for one resource can be made."""

    parent: Path
    limit: str
    """The file that takes the limit."""
    killed: str
    """The file that counts processes killed for memory."""


@dataclass(frozen=True, slots=True)
class Controllers:
    """What can be limited by groups here; None where it cannot."""

    memory: Controller | None = None
    processes: Controller | None = None

    def make(
        self, *, memory: int | None, processes: int | None, always: bool = False
    ) -> Group | None:
        """A new group with these limits; None when there is nothing to limit, unless `always`:
        a group also knows which processes a command has."""
        wanted: list[tuple[Controller, int]] = []
        if self.memory and memory is not None:
            wanted.append((self.memory, memory))
        if self.processes and (processes is not None or always):
            wanted.append((self.processes, min(processes or _MOST_PROCESSES, _MOST_PROCESSES)))
        if not wanted:
            return None
        name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        group = Group(self.memory if memory is not None else None)
        try:
            for controller, value in wanted:
                group.add_folder(controller.parent / name, controller.limit, value)
        except OSError:
            group.remove()
            raise
        return group


class Group:
    """The group of one command: one folder for each version 1 resource, or a single one."""

    def __init__(self, memory: Controller | None) -> None:
        self._memory = memory
        self._folders: list[Path] = []

    def add_folder(self, folder: Path, limit: str, value: int) -> None:
        """Make a folder of the group, unless it is there, and write a limit into it."""
        if folder not in self._folders:
            folder.mkdir()
            self._folders.append(folder)
        (folder / limit).write_text(str(value))
        if limit == "memory.max":
            # What does not fit in memory must not go to disk instead, and ends as a whole.
            for name, text in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                if (folder / name).exists():
                    (folder / name).write_text(text)

    def join(self, pid: int) -> None:
        """Put a process into the group; its children will be in it too."""
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def members(self) -> set[int]:
        """The processes in the group."""
        found: set[int] = set()
        for folder in self._folders:
            found.update(map(int, (folder / "cgroup.procs").read_text().split()))
        return found

    def out_of_memory(self) -> bool:
        """Whether a process was killed for the group's memory."""
        if self._memory is None or not self._folders:
            return False
        for folder in self._folders:
            file = folder / self._memory.killed
            if file.exists():
                count = re.search(r"^oom_kill (\d+)", file.read_text(), re.MULTILINE)
                return count is not None and int(count[1]) > 0
        return False

    def remove(self) -> bool:
        """Take the folders away; False while a process is still in them."""
        for folder in list(self._folders):
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                continue
            self._folders.remove(folder)
        return not self._folders

    async def close(self) -> None:
        """Kill what is left and take the folders away."""
        for attempt in range(200):
            if self.remove():
                return
            for pid in self.members():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(min(0.001 * 2**attempt, 0.05))
        _log.warning("control groups could not be removed: %s", self._folders)


@functools.cache
def controllers() -> Controllers:
    """What can be limited by groups on this machine; found out once, by trying."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text()
        places = Path("/proc/self/cgroup").read_text()
    except OSError:
        return Controllers()
    return find(mounts, places)


def find(mounts: str, places: str) -> Controllers:
    """The usable controllers among these mounts, for a process at these places."""
    paths: dict[str, str] = {}
    for line in places.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(",") if names else ("",):
            paths[name] = path
    found: dict[str, Controller] = {}
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        root, mount = left.split()[3:5]
        kind, _, options = right.split(maxsplit=2)
        if kind not in ("cgroup", "cgroup2"):
            continue
        for resource, files in _FILES[kind].items():
            key = resource if kind == "cgroup" else ""
            listed = kind == "cgroup2" or resource in options.split(",")
            if listed and key in paths and resource not in found:
                for parent in _parents(Path(mount), root, paths[key], kind):
                    controller = Controller(parent, *files)
                    if _works(controller):
                        found[resource] = controller
                        break
    return Controllers(memory=found.get("memory"), processes=found.get("pids"))


_FILES = {
    "cgroup": {
        "memory": ("memory.limit_in_bytes", "memory.oom_control"),
        "pids": ("pids.max", "-"),
    },
    "cgroup2": {"memory": ("memory.max", "memory.events"), "pids": ("pids.max", "-")},
}


def _parents(mount: Path, root: str, place: str, kind: str) -> list[Path]:
    inside = os.path.relpath(place, root)
    own = mount if inside.startswith("..") else mount / inside
    # In version 2 a group with processes cannot have limited children, so a sibling is tried.
    return [own, own.parent] if kind == "cgroup2" and own != mount else [own]


def _works(controller: Controller) -> bool:
    """Make a group, limit it, have a process join it, and take it away again."""
    _remove_stale(controller.parent)
    folder = controller.parent / f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
    try:
        folder.mkdir()
    except OSError:
        return False
    waiter = None
    try:
        (folder / controller.limit).write_text(str(_MOST_PROCESSES))
        waiter = subprocess.Popen(["/bin/sh", "-c", "read -r _"], stdin=subprocess.PIPE, env={})
        (folder / "cgroup.procs").write_text(str(waiter.pid))
        return True
    except OSError:
        return False
    finally:
        if waiter is not None:
            waiter.kill()
            waiter.communicate()
        _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(100):
        try:
            folder.rmdir()
            return
        except OSError:
            time.sleep(0.001)  # the kernel counts a dead process out a moment after it was reaped
    _log.warning("the control group %s could not be removed", folder)


def _remove_stale(parent: Path) -> None:
    """Groups of hosts that were killed stay behind, empty."""
    with contextlib.suppress(OSError):
        for folder in parent.glob(f"{_PREFIX}*-*"):
            owner = folder.name.removeprefix(_PREFIX).split("-")[0]
            if owner.isdigit() and not Path("/proc", owner).exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()
