"""Searching very many tools through the host: only what the caller may call is found.

`search.py COUNT few|real` prints one line of JSON: milliseconds of CPU.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import phrases
from scale import memory, run

from toolcrib import ToolHost, ToolSpec

HERE = Path(__file__).parent
QUERIES = 500
CONFIG = {
    "profiles": {
        "all": {"default": "allow", "listing": {"mode": "search"}},
        "three": {"rules": [{"allow": []}]},
    }
}
Figures = dict[str, float]


def host_of(tools: list[phrases.Described]) -> ToolHost:
    """A host with these tools, and a profile that allows three of them."""
    every = len(tools) // 3
    few = [tools[n].name for n in (0, every, 2 * every)]
    profiles: dict[str, Any] = {**CONFIG["profiles"], "three": {"rules": [{"allow": few}]}}
    host = ToolHost(config={"profiles": profiles})
    for tool in tools:
        properties = {name: {"type": "string"} for name in tool.parameters}
        host.register(
            ToolSpec(
                name=tool.name,
                description=tool.text,
                input_schema={"type": "object", "properties": properties},
                effects=frozenset({"read"}),
                config={"function": run},
            )
        )
    return host


def timed(host: ToolHost, queries: list[str], profile: str) -> list[float]:
    """Milliseconds of each search, in order of length."""
    took: list[float] = []
    for query in queries:
        began = time.process_time_ns()
        host.finding.find(query, 10, profile=profile)
        took.append((time.process_time_ns() - began) / 1e6)
    return sorted(took)


async def measure(count: int, vocabulary: str) -> Figures:
    """Everything about one catalog."""
    tools = list(getattr(phrases, vocabulary)(count))
    queries = phrases.queries(tools, QUERIES)
    host = host_of(tools)
    gc.collect()
    before = memory()
    began = time.process_time()
    await host.finding.ready(profile="all")
    built = time.process_time() - began
    grown = memory() - before
    await host.finding.ready(profile="three")
    found = timed(host, queries, "all")
    hidden = timed(host, queries, "three")
    began = time.process_time()
    host.register(ToolSpec(name="zz_late", description="late", config={"function": run}))
    host.finding.find("late", 10, profile="all")
    followed = (time.process_time() - began) * 1000
    async with host:
        called: list[float] = []
        for query in queries[:100]:
            began = time.process_time()
            result = await host.call("search_tools", {"query": query}, profile="all")
            called.append((time.process_time() - began) * 1000)
            if result.status != "ok":
                raise SystemExit(f"a search failed: {result}")
    return {
        "median": statistics.median(found),
        "p99": found[int(len(found) * 0.99)],
        "three_median": statistics.median(hidden),
        "three_p99": hidden[int(len(hidden) * 0.99)],
        "called": statistics.median(called),
        "followed": followed,
        "built": built,
        "mb": grown / 1e6,
    }


def worker(python: str, script: str, *arguments: str) -> Figures:
    """What a script prints."""
    command = [python, str(HERE / script), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=HERE)
    return json.loads(done.stdout.splitlines()[-1])


def rows(runs: int, peer: str | None) -> list[tuple[str, str, str, bool]]:
    """The lines of the table."""
    made: list[tuple[str, str, str, bool]] = []
    for vocabulary, words in (("few", "50 words"), ("real", "real words")):
        each = [worker(sys.executable, "search.py", "100000", vocabulary) for _ in range(runs)]
        best = {name: min(one[name] for one in each) for name in each[0]}
        median, p99 = best["median"], best["p99"]
        made += [
            (
                f"search 100 000 tools, {words}, median",
                f"{median:.2f} ms",
                "under 2 ms",
                median < 2,
            ),
            (f"the slowest of 100, {words}", f"{p99:.2f} ms", "under 10 ms", p99 < 10),
            (
                f"for a caller who may call 3 of them, the slowest, {words}",
                f"{best['three_p99']:.2f} ms",
                "under 10 ms",
                best["three_p99"] < 10,
            ),
            (
                f"the index, made with the first search, {words}",
                f"{best['built']:.1f} s CPU, {best['mb']:.0f} MB",
                "for information",
                True,
            ),
        ]
    if peer is not None:
        ours = min(
            worker(sys.executable, "search.py", "10000", "few")["called"] for _ in range(runs)
        )
        theirs = worker(peer, "peer_fastmcp_search.py", "10000")["called"]
        times = theirs / ours
        what = "FastMCP's `search_tools` over ours, 10 000 tools"
        made.append((what, f"{times:.0f}x ({ours:.2f} ms)", "at least 50x", times >= 50))
    return made


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]), sys.argv[2]))))
