"""The worker's side: run a round whenever the parent asks for one, print what it cost.

A worker is its own process, so that what is measured shares nothing with other cases. Costs are
CPU time of the whole process, all its threads included; the machine may be shared.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

Round = Callable[[], Awaitable[dict[str, float]]]


async def cpu(work: Callable[[int], Awaitable[object]], count: int) -> float:
    """CPU microseconds for one of `count` turns of `work`."""
    began = time.process_time()
    await work(count)
    return (time.process_time() - began) / count * 1e6


async def serve(round_: Round) -> None:
    """Answer each line on standard input with one round's numbers."""
    print(json.dumps({"ready": True}), flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await round_()), flush=True)
