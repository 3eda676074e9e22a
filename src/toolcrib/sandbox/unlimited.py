"""Which limits cannot be enforced on this machine; said aloud, since they are wished for."""

from __future__ import annotations

from toolcrib.core.sandbox import Finding, SandboxLimits
from toolcrib.sandbox.cgroup import controllers


def unlimited(limits: SandboxLimits, *, counted: bool) -> tuple[Finding, ...]:
    """A finding for each limit that holds only in part, or not at all."""
    found: list[Finding] = []
    available = controllers()
    if limits.processes is not None and available.processes is None and not counted:
        note = "the number of processes is not limited: no control group can be made here"
        found.append(Finding("process_limit", None, note))
    if limits.memory is not None and available.memory is None:
        note = "memory is limited for each process and not together: no control group here"
        found.append(Finding("memory_limit", None, note))
    return tuple(found)
