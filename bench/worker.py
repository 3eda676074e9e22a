"""The worker's side: run a round whenever the parent asks for one, print what it cost.

A worker is its own process, so that what is measured shares nothing with other cases. Costs are
CPU time of the whole process, all its threads included; the machine may be shared.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from collections.abc import Awaitable, Callable, Mapping

Round = Callable[[], Awaitable[dict[str, float]]]


async def cpu(work: Callable[[int], Awaitable[object]], count: int) -> float:
    """CPU microseconds for one of `count` turns of `work`."""
    began = time.process_time()
    await work(count)
    return (time.process_time() - began) / count * 1e6


async def quickest(
    works: Mapping[str, Callable[[], Awaitable[object]]], count: int
) -> dict[str, float]:
    """The microseconds that each work's quickest turn took on the clock; they take turns. For work
    that others do for us, in processes of their own: CPU time of this one would miss it."""
    best = dict.fromkeys(works, math.inf)
    for _ in range(count):
        for name, work in works.items():
            began = time.perf_counter()
            await work()
            best[name] = min(best[name], time.perf_counter() - began)
    return {name: seconds * 1e6 for name, seconds in best.items()}


async def serve(round_: Round) -> None:
    """Answer each line on standard input with one round's numbers."""
    print(json.dumps({"ready": True}), flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await round_()), flush=True)
