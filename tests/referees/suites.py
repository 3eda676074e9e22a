"""Running a conformance suite and reading what it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import environments

_LINE = re.compile(r"^([✓✗]) (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)
_UNSCORED = re.compile(r"^  [✓✗] (\S+) \(", re.MULTILINE)
PROGRAMS = {
    "0.1.16": environments.MODULES / "conformance-handshake" / "dist" / "index.js",
    "0.2.0-alpha.12": environments.MODULES / "conformance" / "dist" / "index.js",
}
CLIENT = f"{sys.executable} {Path(__file__).parent / 'client.py'}"


@dataclass(frozen=True)
class Score:
    """What one run of a suite said: per scenario, how many checks passed and failed."""

    scored: Mapping[str, tuple[int, int]]
    unscored: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    folder: Path = Path()

    @property
    def lost(self) -> list[str]:
        return sorted(name for name, (good, bad) in self.scored.items() if bad or not good)

    @property
    def passed(self) -> int:
        return len(self.scored) - len(self.lost)

    def complaints(self) -> dict[str, list[str]]:
        """What the suite did not like, by scenario: failing checks, and those that only warn."""
        found: dict[str, list[str]] = {}
        for name in [*self.scored, *self.unscored]:
            last = name.rpartition("/")[2]
            for file in sorted(self.folder.glob(f"**/*{last}-2*/checks.json")):
                said = [
                    f"{check['id']}: {check.get('errorMessage', '')}"
                    for check in json.loads(file.read_text())
                    if check["status"] in ("FAILURE", "WARNING")
                ]
                if said:
                    found[name] = said
        return found

    def why(self, names: Sequence[str]) -> str:
        """The complaints about these scenarios, in the suite's own words."""
        found = self.complaints()
        said = [f"{name}: {text}" for name in names for text in found.get(name, ())]
        return "\n".join(said) or f"{', '.join(names)} failed without a word"


def _run(suite: str, words: Sequence[str | Path], folder: Path, seconds: float) -> Score:
    folder.mkdir(parents=True, exist_ok=True)
    argv = [environments.node(), PROGRAMS[suite], *words, "-o", folder]
    done = subprocess.run(
        [str(word) for word in argv],
        capture_output=True,
        text=True,
        timeout=seconds,
        env=environments.with_node(),
    )
    said = done.stdout + done.stderr
    (folder / "said.txt").write_text(said)
    counted = {name: (int(good), int(bad)) for _, name, good, bad in _LINE.findall(said)}
    unscored = set(_UNSCORED.findall(said))
    assert counted, f"the suite {suite} said nothing that can be read:\n{said[-2000:]}"
    return Score(
        {name: counts for name, counts in counted.items() if name not in unscored},
        {name: counts for name, counts in counted.items() if name in unscored},
        folder,
    )


def server(suite: str, url: str, folder: Path, *words: str) -> Score:
    """Judge the server at an address."""
    return _run(suite, ["server", "--url", url, *words], folder, 240)


def scenarios(revision: str) -> list[str]:
    """The client scenarios that a revision requires."""
    argv = [environments.node(), PROGRAMS["0.2.0-alpha.12"], "list", "--requirements", revision]
    listed = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    part = listed.partition("Client scenarios")[2].partition("\n\n")[0]
    return re.findall(r"^  - (\S+)$", part, re.MULTILINE)


def client(scenario: str, revision: str, folder: Path) -> Score:
    """Judge a client in one scenario; several at once would only wait for each other."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = [environments.node(), PROGRAMS["0.2.0-alpha.12"], "client", "--command", CLIENT]
    argv += ["--scenario", scenario, "--spec-version", revision, "--timeout", "60000"]
    done = subprocess.run(
        [str(word) for word in [*argv, "-o", folder]],
        capture_output=True,
        text=True,
        timeout=90,
        env=environments.with_node(),
    )
    (folder / "said.txt").write_text(done.stdout + done.stderr)
    return Score({scenario: (0, 1) if done.returncode else (1, 0)}, {}, folder)
