"""The self-test of a sandbox: the escape probes are run inside, and must reach nothing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from toolcrib.core.sandbox import Completed, Finding, Isolation, SelfTest
from toolcrib.sandbox.running import Command
from toolcrib.sandbox.settings import DEFAULT_LIMITS
from toolcrib.sandbox.targets import Targets

NETWORK_PROBES = frozenset({"host_tcp", "host_udp"})
"""What a sandbox with the host's network reaches by intention."""
_LIMITS = replace(DEFAULT_LIMITS, time=30.0)


class Tested(Protocol):
    """What a self-test needs of a sandbox."""

    isolates: frozenset[Isolation]

    async def run_untested(self, command: Command) -> Completed: ...


def interpreter() -> tuple[str, tuple[str, ...]]:
    """An interpreter for the probes, and the paths it needs beside the system's programs."""
    path = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    return path, (sys.base_prefix,)


def source() -> str:
    """The text of the escape program."""
    return (Path(__file__).parent / "escape.py").read_text()


async def self_test(
    sandbox: Tested,
    *,
    cure: str,
    python: tuple[str, tuple[str, ...]] | None = None,
) -> SelfTest:
    """Run the probes in a sandbox; it is available when every one of them held."""
    path, needed = python or interpreter()
    try:
        with Targets() as targets:
            # Not what its settings say: what holds for this command holds for all of this type.
            command = Command(
                argv=(path, "-I", "-S", "-c", source(), json.dumps(targets.describe())),
                cwd=targets.workspace,
                env={"PATH": "/usr/bin:/bin"},
                limits=_LIMITS,
                read=needed,
                write=(targets.workspace,),
            )
            ended = await sandbox.run_untested(command)
            arrived = await targets.arrived()
    except OSError as error:
        return SelfTest(False, f"{error.strerror or error}. {cure}")
    if ended.exit_code != 0:
        said = ended.stderr.decode(errors="replace").strip()[-400:] or ended.stopped
        return SelfTest(False, f"the probes ended with {ended.exit_code}: {said}. {cure}")
    findings = judge(json.loads(ended.stdout), arrived, network="network" not in sandbox.isolates)
    broken = [finding.probe for finding in findings if finding.held is False]
    if broken:
        message = f"it does not hold here: {', '.join(broken)} got through. {cure}"
        return SelfTest(False, message, findings)
    kept = ", ".join(sorted(sandbox.isolates))
    return SelfTest(True, f"It isolates {kept}.", findings)


def judge(
    answers: Mapping[str, bool | None], arrived: set[str], *, network: bool
) -> tuple[Finding, ...]:
    """What the answers of the escape program mean."""
    seen_outside = {"write_home", "write_system", "host_udp", "signal_process"}
    findings: list[Finding] = []
    for probe, reached in sorted(answers.items()):
        if probe in seen_outside:
            reached = probe in arrived
        if network and probe in NETWORK_PROBES:
            findings.append(Finding(probe, None, "the host's network is shown to it"))
        else:
            findings.append(Finding(probe, None if reached is None else not reached))
    return tuple(findings)
