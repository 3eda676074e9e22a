"""Measure, print a table, and say which bars hold. `make bench` runs this.

Every number is a ratio to something measured in the same run, or CPU time and memory of one
process. `--write FILE` puts the table into a page; what was not measured stays there as it was.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import doors
import loading
import protocols
import search
from doors import calm, middle

HERE = Path(__file__).parent
PEER = os.environ.get("BENCH_PEER_PYTHON")
if PEER:
    PEER = str(Path(PEER).absolute())
FORGE = os.environ.get("BENCH_FORGE_PYTHON")
if FORGE:
    FORGE = str(Path(FORGE).absolute())
PARTS = ("governed", "durable", "kinds", "scale", "search", "loading", "cold", "doors", "mcp")


class Row(NamedTuple):
    """One line of the table."""

    what: str
    measured: str
    bar: str
    holds: bool


class Worker:
    """A benchmark in its own process."""

    def __init__(self, python: str, script: str) -> None:
        self.process = subprocess.Popen(
            [python, str(HERE / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE,
        )
        self.answer()

    def answer(self) -> dict[str, float]:
        """The next line the worker prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args} ended with {self.process.wait()}")
        return json.loads(line)

    def round(self) -> dict[str, float]:
        """Have it run one round."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        """Let it end; it may still find that something is wrong."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        if self.process.wait(60):
            raise SystemExit(f"{self.process.args} ended with {self.process.returncode}")


def governed(rounds: int) -> list[Row]:
    """In process: ours in turn with the floor and the peer."""
    ours = Worker(sys.executable, "governed.py")
    peer = Worker(PEER, "peer_fastmcp.py") if PEER else None
    over_bare: list[float] = []
    theirs: list[float] = []
    costs: list[float] = []
    for _ in range(rounds):
        mine = ours.round()
        costs.append(mine["governed"])
        over_bare.append(mine["governed"] / mine["bare"])
        if peer is not None:
            # Each pair is measured in one go: the machine's speed changes from round to round.
            theirs.append(peer.round()["call"] / mine["governed"])
    ours.close()
    rows = [
        Row(
            "governed call over a bare await",
            f"{middle(over_bare):.1f}x ({calm(costs):.1f} us)",
            "at most 30x (aim 20x)",
            middle(over_bare) <= 30,
        )
    ]
    if peer is not None:
        peer.close()
        times = middle(theirs)
        rows.append(
            Row("FastMCP `server.call_tool` over it", f"{times:.0f}x", "at least 40x", times >= 40)
        )
    return rows


def durable(rounds: int) -> list[Row]:
    """On disk before and after, 64 callers."""
    worker = Worker(sys.executable, "durable.py")
    cost = calm([worker.round()["durable"] for _ in range(rounds)])
    worker.close()
    bar = "at most 40 us (aim 20 us)"
    return [Row("durable call, 64 at once", f"{cost:.1f} us CPU", bar, cost <= 40)]


def least(script: str, rounds: int) -> dict[str, float]:
    """The quickest turn of each work in all rounds, on the clock. What waits for other processes
    is lengthened by others who want the processor, and is never shortened."""
    worker = Worker(sys.executable, script)
    measured = [worker.round() for _ in range(rounds)]
    worker.close()
    return {name: min(each[name] for each in measured) for name in measured[0]}


def kinds(rounds: int) -> list[Row]:
    """What the executors add to what they build on."""
    command = least("sandboxed.py", rounds)
    spawn = command["inside"] / command["bare"]
    process = least("warm.py", rounds)
    warm, fresh = process["warm"] / process["bare"], process["fresh"] / process["warm"]
    request = least("requesting.py", rounds)
    tool, whole = request["tool"] / request["alone"], request["governed"] / request["alone"]
    long = f"{command['inside'] / 1000:.1f} ms"
    return [
        Row("sandboxed command over a bare spawn", f"{spawn:.1f}x ({long})",
            "at most 15x", spawn <= 15),
        Row("warm process call over a bare await", f"{warm:.0f}x ({process['warm']:.0f} us)",
            "at most 250x", warm <= 250),
        Row("a thread and a fresh process over it", f"{fresh:.0f}x", "at least 10x", fresh >= 10),
        Row("HTTP tool over its client library alone", f"{tool:.2f}x ({request['tool']:.0f} us)",
            "at most 1.5x", tool <= 1.5),
        Row("governed HTTP call likewise", f"{whole:.2f}x", "at most 1.5x", whole <= 1.5),
    ]  # fmt: skip


def scale(runs: int) -> list[Row]:
    """Many tools."""

    def measure(count: int) -> dict[str, float]:
        command = [sys.executable, str(HERE / "scale.py"), str(count)]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    few = [measure(100) for _ in range(runs)]
    many = [measure(100_000) for _ in range(runs)]
    call = min(m["call_us"] for m in many) / min(f["call_us"] for f in few)
    why = min(m["explain_us"] for m in many) / min(f["explain_us"] for f in few)
    seconds, size = min(m["register_s"] for m in many), min(m["mb"] for m in many)
    return [
        Row("register 100 000 tools", f"{seconds:.1f} s CPU", "under 8 s", seconds < 8),
        Row("memory for them", f"{size:.0f} MB", "under 250 MB", size < 250),
        Row("a call with 100 000 tools over one with 100", f"{call:.2f}x", "1.2x", call <= 1.2),
        Row("explain likewise", f"{why:.2f}x", "1.2x", why <= 1.2),
    ]


def cold(rounds: int) -> list[Row]:
    """Importing, against importing asyncio."""

    def cpu(code: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        after = os.times()
        return (
            after.children_user
            + after.children_system
            - (before.children_user + before.children_system)
        )

    # Installed packages come with bytecode; a checkout may not have any yet.
    source = Path(importlib.util.find_spec("toolcrib").origin).parent
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(source)], check=True)
    package: list[float] = []
    used: list[float] = []
    for _ in range(rounds):
        floor = cpu("import asyncio")
        package.append(cpu("import toolcrib") / floor)
        used.append(cpu("from toolcrib import ToolHost, tool") / floor)
    bar = "at most 1.7x"
    whole = "for information"
    return [
        Row("`import toolcrib` over `import asyncio`", f"{middle(package):.2f}x", bar,
            middle(package) <= 1.7),
        Row("`from toolcrib import ToolHost, tool` likewise", f"{middle(used):.2f}x", whole, True),
    ]  # fmt: skip


HEAD = ["| what | measured | bar | |", "|---|---|---|---|"]


def table(rows: list[Row]) -> list[str]:
    """The rows as Markdown."""
    return [
        f"| {r.what} | {r.measured} | {r.bar} | {'ok' if r.holds else 'MISSED'} |" for r in rows
    ]


def merged(old: list[str], new: list[str]) -> list[str]:
    """A table's lines with what was measured anew in its place; the rest as it was."""
    by_what = {line.split(" | ")[0]: line for line in old if line.startswith("| ")}
    by_what |= {line.split(" | ")[0]: line for line in new}
    by_what.pop("| what", None)
    return list(by_what.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--write", type=Path, help="a page with a marked region for the table")
    options = parser.parse_args()
    rows: list[Row] = []
    works = (
        lambda: governed(options.rounds),
        lambda: durable(options.rounds),
        lambda: kinds(options.rounds),
        lambda: scale(2),
        lambda: [Row(*row) for row in search.rows(2, PEER)],
        lambda: [Row(*row) for row in loading.run(3)],
        lambda: cold(options.rounds),
        lambda: [Row(*row) for row in doors.run(7, PEER)],
        lambda: [Row(*row) for row in protocols.run(5, PEER, FORGE)],
    )
    print("\n".join(HEAD), flush=True)
    for name, work in zip(PARTS, works, strict=True):
        if options.only in (None, name):
            print(f"measuring: {name}", file=sys.stderr)
            found = work()
            print("\n".join(table(found)), flush=True)  # a part that fails loses no other
            rows += found
    if PEER is None:
        print("BENCH_PEER_PYTHON is not set: the peer was not measured", file=sys.stderr)
    if options.write:
        made = table(rows)
        page = options.write.read_text()
        head, _, rest = page.partition("<!-- table -->\n")
        old, _, tail = rest.partition("<!-- end -->\n")
        if options.only is not None:
            made = merged(old.splitlines(), made)
        text = "\n".join([*HEAD, *made])
        options.write.write_text(f"{head}<!-- table -->\n{text}\n<!-- end -->\n{tail}")
    if not all(row.holds for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
