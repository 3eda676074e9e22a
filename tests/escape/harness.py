"""Runs the escape probes without a sandbox and inside one, as the user who started this program.

A program of its own, because it is started as root and as an ordinary user, by an interpreter
that this user can reach. Prints a JSON object: for each way of running, what each probe reached.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from toolcrib.sandbox.build import FACTORIES
from toolcrib.sandbox.selftest import interpreter, source
from toolcrib.sandbox.targets import Targets

EFFECTS = {"write_home", "write_system", "host_udp", "signal_process"}
"""Probes that are judged by what arrived on the host."""


class Room:
    folder = Path("/")
    hidden = ()
    guarded = ()


async def bare() -> dict[str, Any]:
    """Without a sandbox. The probes really mount, so root is given mounts of its own."""
    private = ["unshare", "--mount", "--propagation", "private"] if os.geteuid() == 0 else []
    with Targets() as targets:
        argv = [interpreter()[0], "-I", "-S", "-c", source(), json.dumps(targets.describe())]
        answers = run_bare([*private, *argv])
        return merge(answers, await targets.arrived())


def run_bare(argv: list[str]) -> dict[str, Any]:
    return json.loads(subprocess.run(argv, stdout=-1, check=True, close_fds=False).stdout)


async def inside(type: str, settings: dict[str, Any]) -> dict[str, Any] | str:
    """In a sandbox; text when it cannot be used here."""
    sandbox: Any = FACTORIES[type]("escape", settings, Room())  # type: ignore[arg-type]
    tested = await sandbox.probe()
    if not tested.available:
        return tested.message
    path, needed = interpreter()
    with Targets() as targets:
        argv = [path, "-I", "-S", "-c", source(), json.dumps(targets.describe())]
        ended = await sandbox.run(
            argv, cwd=targets.workspace, env={}, read=needed, write=[targets.workspace]
        )
        if ended.exit_code != 0:
            return f"the probes ended with {ended.exit_code}: {ended.stderr!r}"
        return merge(json.loads(ended.stdout), await targets.arrived())


def merge(answers: dict[str, Any], arrived: set[str]) -> dict[str, Any]:
    return {name: name in arrived if name in EFFECTS else got for name, got in answers.items()}


async def main() -> None:
    found: dict[str, Any] = {"bare": await bare()}
    for line in json.loads(sys.argv[1]):
        found[line["as"]] = await inside(line["type"], line["settings"])
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())
