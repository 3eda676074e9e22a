"""How much a command may use: the stricter of two limits, and what the kernel is told of it."""

from __future__ import annotations

import math
import resource

from toolcrib.core.sandbox import SandboxLimits

Rlimits = tuple[tuple[int, int, int], ...]
"""Which limit, where it warns, where it ends."""


def stricter(one: SandboxLimits, other: SandboxLimits) -> SandboxLimits:
    """For each limit the smaller value; None is no limit."""
    values: dict[str, float | None] = {}
    for name in SandboxLimits.__struct_fields__:
        given = [getattr(one, name), getattr(other, name)]
        values[name] = min((value for value in given if value is not None), default=None)
    return SandboxLimits(**values)  # pyright: ignore[reportArgumentType]


def rlimits(limits: SandboxLimits, *, memory: bool) -> Rlimits:
    """What `setrlimit` can enforce; `memory` says whether it has to do that too."""
    found: list[tuple[int, int, int]] = [(resource.RLIMIT_CORE, 0, 0)]
    if limits.cpu is not None:
        seconds = max(1, math.ceil(limits.cpu))
        # The first is a signal that a command may catch, the second ends it.
        found.append((resource.RLIMIT_CPU, seconds, seconds + 1))
    if limits.file_size is not None:
        found.append((resource.RLIMIT_FSIZE, limits.file_size, limits.file_size))
    if limits.open_files is not None:
        found.append((resource.RLIMIT_NOFILE, limits.open_files, limits.open_files))
    if memory and limits.memory is not None:
        # Data and not address space: runtimes reserve far more addresses than they ever fill.
        found.append((resource.RLIMIT_DATA, limits.memory, limits.memory))
    return tuple(found)


def apply(pid: int, wanted: Rlimits) -> None:
    """Set the limits of a process that waits at its gate. Limits are only ever lowered."""
    for which, soft, hard in wanted:
        _, most = resource.prlimit(pid, which)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.prlimit(pid, which, (soft, hard))
