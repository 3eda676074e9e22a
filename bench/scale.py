"""A hundred thousand tools with distinct schemas, registered one by one."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from toolcrib import ToolHost, ToolSpec

CONFIG = {
    "profiles": {"bench": {"rules": [{"allow": "tool_*"}], "limits": {"calls": "1000000000/s"}}}
}


def memory() -> int:
    """Resident bytes of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this benchmark reads /proc/self/status")


async def run(**arguments: Any) -> int:
    """What every tool does."""
    return len(arguments)


def spec(number: int) -> ToolSpec:
    """A tool that no other one is like."""
    return ToolSpec(
        name=f"tool_{number}",
        description=f"Does thing number {number}.",
        input_schema={
            "type": "object",
            "properties": {
                f"first_{number}": {"type": "integer", "minimum": number},
                "name": {"type": "string", "maxLength": 64},
            },
            "required": [f"first_{number}"],
            "additionalProperties": False,
        },
        effects=frozenset({"read"}),
        config={"function": run},
    )


async def measure(count: int) -> dict[str, float]:
    """Register `count` tools, then call and explain some of them."""
    gc.collect()
    before = memory()
    host = ToolHost(config=CONFIG)
    began = time.process_time()
    for number in range(count):
        host.register(spec(number))
    registered = time.process_time() - began
    grown = memory() - before
    names = [(f"tool_{n}", {f"first_{n}": n}) for n in range(0, count, max(1, count // 100))][:100]
    async with host:
        for name, arguments in names:
            result = await host.call(name, arguments, profile="bench")
            if result.status != "ok":
                raise SystemExit(f"a call failed: {result}")
        best_call = best_explain = float("inf")
        for _ in range(15):
            began = time.process_time()
            for _ in range(20):
                for name, arguments in names:
                    await host.call(name, arguments, profile="bench")
            best_call = min(best_call, (time.process_time() - began) / 20 / len(names))
            began = time.process_time()
            for name, arguments in names:
                host.explain(name, arguments, profile="bench")
            best_explain = min(best_explain, (time.process_time() - began) / len(names))
    return {
        "register_s": registered,
        "mb": grown / 1e6,
        "call_us": best_call * 1e6,
        "explain_us": best_explain * 1e6,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1])))))
