"""Ten thousand tools from one file, to specs and a report of every entry."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from toolcrib.host.loaders import FileLoader

COUNT = 10_000
BARS = {"yaml": 5.0, "json": 1.0}


def entry(number: int) -> dict[str, Any]:
    """A tool that no other one is like."""
    return {
        "name": f"tool_{number}",
        "kind": "http",
        "description": f"Does thing number {number}.",
        "input_schema": {
            "type": "object",
            "properties": {
                f"first_{number}": {"type": "integer", "minimum": number},
                "name": {"type": "string", "maxLength": 64},
            },
            "required": [f"first_{number}"],
            "additionalProperties": False,
        },
        "config": {
            "method": "GET",
            "url": f"https://api.example.com/things/{number}",
            "query": {"q": "{name}"},
        },
        "effects": ["read"],
        "tags": ["bench", "http"],
        "timeout": "30s",
        "version": "1.0",
    }


def as_yaml(value: Any, indent: int) -> str:
    """Block style, as people write it."""
    lines: list[str] = []
    for key, inner in value.items():
        if isinstance(inner, dict):
            lines.append(f"{' ' * indent}{key}:\n{as_yaml(inner, indent + 2)}")
        elif isinstance(inner, list):
            lines.append(f"{' ' * indent}{key}: [{', '.join(inner)}]")
        else:
            lines.append(f"{' ' * indent}{key}: {json.dumps(inner)}")
    return "\n".join(lines)


def written(ending: str) -> str:
    """The file's text."""
    entries = [entry(number) for number in range(COUNT)]
    if ending == "json":
        return json.dumps({"tools": entries}, indent=1)
    return "tools:\n" + "".join(f"  - {as_yaml(each, 4)[4:]}\n" for each in entries)


def measure(ending: str) -> dict[str, float]:
    """Seconds of CPU for one load, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"tools.{ending}").write_text(written(ending))
        loader = FileLoader(f"tools.{ending}", folder)
        began = time.process_time()
        report = loader.read()
        seconds = time.process_time() - began
    if len(report.specs) != COUNT or report.problems:
        raise SystemExit(f"not all tools were loaded: {report.problems[:1]}")
    return {"seconds": seconds}


def run(rounds: int = 3) -> list[tuple[str, str, str, bool]]:
    """What was measured, how much, the bar, and whether it holds."""
    rows: list[tuple[str, str, str, bool]] = []
    for ending, bar in BARS.items():
        command = [sys.executable, __file__, ending]
        runs = [subprocess.run(command, check=True, capture_output=True) for _ in range(rounds)]
        best = min(json.loads(done.stdout)["seconds"] for done in runs)
        what = f"load {COUNT // 1000} 000 specs from {ending.upper()}"
        rows.append((what, f"{best:.2f} s CPU", f"under {bar:.0f} s", best < bar))
    return rows


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
