"""Which runs of the suites there are, and what each has to reach."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import suites

ALPHA = "0.2.0-alpha.12"


@dataclass(frozen=True)
class Run:
    """One run of a suite at a server."""

    suite: str
    words: tuple[str, ...]
    scenarios: int
    """How many it scores."""

    def at(self, url: str, folder: Path) -> suites.Score:
        return suites.server(self.suite, url, folder, *self.words)


SERVER = {
    "0.1.16": Run("0.1.16", (), 30),
    "2025-11-25": Run(ALPHA, ("--requirements", "2025-11-25"), 30),
    "2026-07-28": Run(ALPHA, ("--requirements", "2026-07-28"), 37),
}
CLIENT = {"2025-11-25": 18, "2026-07-28": 32}

_ELSEWHERE = ("completion-", "prompts-", "resources-", "sep-2164-", "tasks-")
_MIXED = ("caching", "input-required-result-non-tool-request")


def about_tools(score: suites.Score) -> suites.Score:
    """The scored scenarios without those that need prompts, resources or their completion, which
    only other servers bring."""
    kept = {
        name: counts
        for name, counts in score.scored.items()
        if not name.startswith(_ELSEWHERE) and name not in _MIXED
    }
    return suites.Score(kept, {}, score.folder)
