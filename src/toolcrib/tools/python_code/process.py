"""Code in a Python process of its own, in a sandbox."""

from __future__ import annotations

import json
import secrets
import signal
from pathlib import Path
from typing import Any

from toolcrib.core.protocols import Workshop
from toolcrib.core.sandbox import Completed, SandboxLimits
from toolcrib.core.units import duration, size
from toolcrib.errors import ConfigError, ToolFailure
from toolcrib.tools.python_code.policy import PythonCodePolicy
from toolcrib.tools.python_code.values import (
    broken,
    finished,
    out_of_memory,
    out_of_time,
    too_large,
)

_CHILD = Path(__file__).with_name("child.py")
_NO_MEMORY = 86
"""The exit code by which the child says that there was no more memory."""
_SPARE = 4_096


async def run_process(
    workshop: Workshop, policy: PythonCodePolicy, code: str, inputs: dict[str, Any]
) -> dict[str, Any]:
    """Run the code; cancelling ends the process and all that it started."""
    try:
        sandbox = workshop.sandbox(policy.sandbox, folder=False)
    except ConfigError as error:
        raise ToolFailure(error.message, reason="sandbox_unavailable") from None
    folder = str(workshop.root(".")) if policy.show_folder else ""
    mark = secrets.token_hex(16)
    task = {"code": code, "inputs": inputs, "mark": mark, "memory": _NO_MEMORY}
    limits = SandboxLimits(
        time=duration(policy.timeout),
        memory=size(policy.memory),
        # What is printed and the result come on one stream.
        output=8 * policy.max_output_chars + _SPARE,
    )
    try:
        done = await sandbox.run(
            [policy.python, "-I", "-S", "-c", _CHILD.read_text()],
            cwd=folder or "/tmp",  # noqa: S108 - in a sandbox it is the command's own
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"},
            limits=limits,
            stdin=json.dumps(task).encode(),
            read=(folder,) if folder else (),
        )
    except OSError as error:
        text = f"{policy.python} cannot be started: {error.strerror or error}"
        raise ToolFailure(text) from None
    return _result(done, mark, policy.max_output_chars)


def _result(done: Completed, mark: str, most: int) -> dict[str, Any]:
    stdout = done.stdout.decode(errors="replace")
    printed, found, text = stdout.rpartition(f"\n{mark}")
    if not found:
        printed = stdout
    if done.stopped == "output":
        raise too_large(printed, most)
    if done.stopped in ("time", "cpu"):
        raise out_of_time(printed)
    if done.stopped == "memory" or done.exit_code == _NO_MEMORY:
        raise out_of_memory(printed)
    if done.exit_code == -signal.SIGSYS:
        text = "the code was stopped: it made a system call that its sandbox forbids"
        raise ToolFailure(text, reason="sandbox_violation", details={"stdout": printed[:2_000]})
    if done.exit_code:
        told = done.stderr.decode(errors="replace") or f"it ended with code {done.exit_code}"
        raise broken(told, printed)
    try:
        value = json.loads(text) if found else None
    except ValueError:
        raise broken("its result was overwritten", printed) from None
    return finished(value, printed, most)
