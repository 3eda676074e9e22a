"""Runs every referee once and writes the scores into docs/conformance.md.

    python tests/referees/report.py [--check]

With `--check` the page is not written, and a score that differs from it is a failure.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import environments
import programs
import suites
from processes import gateway, own_tools, passing, upstream
from runs import CLIENT, SERVER, about_tools
from test_matrix import CELLS, CLIENTS, UPSTREAMS, right

PAGE = environments.ROOT / "docs" / "conformance.md"
_TABLE = re.compile(r"<!-- (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def _score(score: suites.Score) -> str:
    # A scenario that checked nothing counts neither way.
    unscored = [bad == 0 for good, bad in score.unscored.values() if good or bad]
    more = f" + {sum(unscored)}/{len(unscored)}" if unscored else ""
    return f"{score.passed}/{len(score.scored)}{more}"


def served(folder: Path) -> Iterator[str]:
    """The suites at servers."""
    yield "| suite | fixture alone | through the gateway | own tools |"
    yield "|---|---|---|---|"
    with ExitStack() as stack:
        behind = stack.enter_context(upstream("sdk2"))
        front = stack.enter_context(gateway(folder, passing(behind.url)))
        own = stack.enter_context(own_tools())
        for name, run in SERVER.items():
            direct = run.at(behind.url, folder / f"{name}-direct")
            through = run.at(front.mcp, folder / f"{name}-through")
            tools = about_tools(run.at(own.url, folder / f"{name}-own"))
            title = f"`{run.suite}`" if not run.words else f"`{run.suite}` `{' '.join(run.words)}`"
            yield f"| {title} | {_score(direct)} | {_score(through)} | {_score(tools)} |"


def called(folder: Path) -> Iterator[str]:
    """The suites at the provider as a client."""
    yield "| revision | scenarios |"
    yield "|---|---|"
    for revision in CLIENT:
        names = suites.scenarios(revision)
        lost = [
            name
            for name in names
            if suites.client(name, revision, folder / revision / name.replace("/", "-")).lost
        ]
        words = f" (not: {', '.join(lost)})" if lost else ""
        yield f"| {revision} | {len(names) - len(lost)}/{len(names)}{words} |"


def crossed(folder: Path) -> Iterator[str]:
    """The clients at the servers, of both eras."""
    yield "| client | revision | server of the handshake era | server of 2026-07-28 only |"
    yield "|---|---|---|---|"
    for client, (program, revision) in CLIENTS.items():
        scores = []
        for name, words in UPSTREAMS.items():
            place = folder / f"{client}-{name}"
            place.mkdir()
            with upstream(*words) as behind, gateway(place, passing(behind.url)) as front:
                saw = programs.cells(program, front.mcp)
            good = [cell for cell in CELLS if right(saw, cell, name)]
            scores.append(f"{len(good)}/{len(CELLS)}")
        yield f"| {_named(program)} | {revision} | {' | '.join(scores)} |"


def _named(program: str) -> str:
    if program in programs.PYTHONS:
        words = (environments.ROOT / "requirements" / f"referee-{program}.in").read_text()
        return f"Python `{words.split()[-2]}`"
    package = f"@modelcontextprotocol/{program.split('-')[1]}"
    listed = json.loads((environments.LISTED / "package.json").read_text())["dependencies"]
    return f"TypeScript `{package}@{listed[package]}`"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    before = PAGE.read_text()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        tables = {part.__name__: "\n".join(part(folder)) for part in (served, called, crossed)}
    after = _TABLE.sub(
        lambda found: f"<!-- {found[1]} -->\n{tables[found[1]]}\n<!-- end -->", before
    )
    print("\n\n".join(tables.values()))
    if check:
        return int(after != before)
    PAGE.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
