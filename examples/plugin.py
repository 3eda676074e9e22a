"""A plug-in: an exporter that writes denials to a file, and a policy for office hours.

A package offers it to every host that it is installed beside with

    [project.entry-points."toolcrib.plugins"]
    office = "plugin:plugin"

and a configuration names what it wants of it:

    tools:
      - {name: sign, module: papers.py, function: sign, policy: {use: office-hours, present: [ann]}}
    exporters:
      - denial-file: {file: denials.jsonl}

This file also runs by itself and gives both to a host directly.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from toolcrib import Decision, Event, ToolContext, ToolHost, ToolPolicy, tool
from toolcrib.host.plugins import Registrar


class DenialFile:
    """Appends each denial to a file, as a line of JSON."""

    mode: Literal["inline", "queued"] = "queued"

    def __init__(self, file: str) -> None:
        self.path = Path(file)

    async def export(self, batch: Sequence[Event]) -> None:
        """Write the denials of a batch; the others are passed over."""
        lines = [
            json.dumps({"tool": e.data["tool"], "reason": e.data["reason"], "call": e.call_id})
            for e in batch
            if e.type == "call.denied"
        ]
        if lines:
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")


class OfficeHours(ToolPolicy):
    """Only those who are in the office may call the tool."""

    present: tuple[str, ...] = ()

    def check(self, ctx: ToolContext) -> Decision | None:
        """Refuse everybody else."""
        if ctx.principal.name not in self.present:
            return self.deny("out_of_office", f"{ctx.principal.name} is not in the office")
        return None


def plugin(registrar: Registrar) -> None:
    """Hand in what this plug-in brings."""
    registrar.exporter("denial-file", DenialFile)
    registrar.policy("office-hours", OfficeHours)


@tool(effects=["write"], policy=OfficeHours(present=["ann"]))
async def sign(paper: str) -> str:
    """Sign a paper."""
    return f"signed {paper}"


async def main(file: Path) -> None:
    """Two calls, one of them refused and written down."""
    async with ToolHost([sign], exporters=[DenialFile(str(file))]) as host:
        print((await host.call("sign", {"paper": "lease"}, principal="ann")).output)
        print((await host.call("sign", {"paper": "lease"}, principal="ben")).reason)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "denials.jsonl")
        asyncio.run(main(written))
        print(written.read_text(encoding="utf-8"), end="")
