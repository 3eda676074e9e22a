"""What is left when the process is killed at any moment."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

ROUNDS = 16
"""Every fourth one has two processes on one file: twenty kills."""


def _acknowledged(process: Any) -> set[str]:
    whole = process.stdout.read()
    return {line.decode() for line in whole.split(b"\n")[:-1]}


def _lines(file: Path) -> set[str]:
    return set(file.read_text().splitlines())


async def test_kill_loses_no_acknowledged_record_and_leaves_no_effect_without_its_decision(
    place: Any, scripts: Any
) -> None:
    effects = Path(place.folder, "effects.log")
    chance = random.Random(20)
    acknowledged: set[str] = set()
    kills = 0
    for number in range(ROUNDS):
        count = 2 if number % 4 == 3 else 1
        running = [scripts.start("writing_process.py", place.db, effects) for _ in range(count)]
        first = [process.stdout.readline().decode().strip() for process in running]
        assert all(first)
        time.sleep(chance.uniform(0.0, 0.3))  # noqa: ASYNC251 - nothing else runs here
        for process, line in zip(running, first, strict=True):
            process.kill()
            kills += 1
            acknowledged |= {line} | _acknowledged(process)

        found = await place.look()
        assert [r.findings for r in found.reports if not r.ok] == []
        assert acknowledged <= found.ids("call.finished")
        touched = _lines(effects)
        assert acknowledged <= touched
        assert touched <= found.ids("call.decided")
        assert touched <= found.ids("call.started")
    assert kills == 20
    assert len(found.reports) == kills
    assert len(acknowledged) > 5 * kills
