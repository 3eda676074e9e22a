"""A plug-in: a kind of tools, an exporter that writes denials to a file, a policy for office hours.

A configuration beside it lists it, as `toolcrib.yaml` here does:

    plugins: [plugin.py]

A package offers it to every host that it is installed beside, and no configuration lists it then:

    [project.entry-points."toolcrib.plugins"]
    office = "plugin:plugin"

Either way nothing of it is active until a configuration names it:

    tools:
      - name: invitation
        kind: letter
        effects: [read]
        input_schema: {type: object, properties: {name: {type: string}}, required: [name]}
        config: {text: "Dear $name, come on Friday."}
      - {name: sign, module: papers.py, function: sign, policy: {use: office-hours, present: [ann]}}
    exporters:
      - denial-file: {file: denials.jsonl}

This file also runs by itself and gives all three to a host directly.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from string import Template
from typing import Any, Literal

from toolcrib import Decision, Event, SpecError, ToolContext, ToolHost, ToolPolicy, ToolSpec, tool
from toolcrib.core.protocols import Workshop
from toolcrib.host.plugins import Registrar


class Letters:
    """Runs tools of kind `letter`: each fills the arguments into a text of its own."""

    kind = "letter"

    def bind(
        self, spec: ToolSpec, workshop: Workshop | None = None
    ) -> Callable[[ToolContext], Awaitable[str]]:
        """Read the text once, when the tool is registered; what is wrong with it shows there."""
        text: Any = spec.config.get("text")
        if not isinstance(text, str):
            raise SpecError(
                f"tool {spec.name}: a letter needs a text", key="config.text", cure="Write text: …"
            )
        letter = Template(text)
        for name in letter.get_identifiers():
            if name not in spec.input_schema.get("properties", {}):
                raise SpecError(
                    f"tool {spec.name}: ${name} is no argument of the tool",
                    key="config.text",
                    cure=f"Add {name} to input_schema.properties",
                )

        async def execute(ctx: ToolContext) -> str:
            return letter.substitute(ctx.arguments)

        return execute

    async def execute(self, ctx: ToolContext) -> str:
        """Run a call of a tool that was not bound."""
        assert ctx.spec is not None
        return await self.bind(ctx.spec)(ctx)


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
    registrar.executor(Letters())
    registrar.exporter("denial-file", DenialFile)
    registrar.policy("office-hours", OfficeHours)


@tool(effects=["write"], policy=OfficeHours(present=["ann"]))
async def sign(paper: str) -> str:
    """Sign a paper."""
    return f"signed {paper}"


INVITATION = ToolSpec(
    name="invitation",
    kind="letter",
    effects=frozenset({"read"}),
    input_schema={
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    },
    config={"text": "Dear $name, come on Friday."},
)


async def main(file: Path) -> None:
    """A letter, and two calls, one of them refused and written down."""
    host = ToolHost([sign], exporters=[DenialFile(str(file))])
    host.entries.executors["letter"] = Letters()
    host.register(INVITATION)
    async with host:
        print((await host.call("invitation", {"name": "Ben"})).output)
        print((await host.call("sign", {"paper": "lease"}, principal="ann")).output)
        print((await host.call("sign", {"paper": "lease"}, principal="ben")).reason)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "denials.jsonl")
        asyncio.run(main(written))
        print(written.read_text(encoding="utf-8"), end="")
