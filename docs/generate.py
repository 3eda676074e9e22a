"""Writes the reference tables of this folder, and the JSON Schema, from the code they describe.

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`; what is outside is left alone.
`--check` writes nothing and ends with 1 when something is out of date.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

import toolcrib
import toolcrib.testing
from toolcrib.cli.commands import cli
from toolcrib.core import protocols
from toolcrib.core.events import EVENTS
from toolcrib.host.config import config_schema, document_settings
from toolcrib.host.verify.invariants import NEVER
from toolcrib.reasons import REASONS

FOLDER = Path(__file__).resolve().parent
SCHEMA = "toolcrib.schema.json"
REGION = re.compile(
    r"(?P<open><!-- generated: (?P<name>[a-z-]+) -->\n).*?(?P<close><!-- end -->)", re.DOTALL
)


def reasons() -> str:
    """Every reason and what it means on every door."""
    rows = (
        (f"`{row.code}`", row.status, row.http, row.exit, row.retry, row.meaning)
        for row in REASONS.values()
    )
    return table(("reason", "status", "HTTP", "exit", "retry", "meaning"), rows)


def events() -> str:
    """Every event."""
    return table(("event", "what it says"), ((f"`{name}`", text) for name, text in EVENTS.items()))


def settings() -> str:
    """Every setting of a configuration file."""
    rows = (
        (f"`{row.path}`", row.type, row.default, f"{row.doc[0].upper()}{row.doc[1:]}.")
        for row in document_settings()
    )
    return table(("setting", "value", "default", "meaning"), rows)


def invariants() -> str:
    """Everything that `never` can say."""
    rows = ((f"`{s.name}`", s.kind.name, f"{s.doc[0].upper()}{s.doc[1:]}.") for s in NEVER.settings)
    return table(("setting", "value", "meaning"), rows)


def commands() -> str:
    """Every command with its arguments and options."""
    return "\n\n".join(described(path, command) for path, command in all_commands())


def extension_points() -> str:
    """Every contract that a plug-in can fulfil."""
    rows = (
        # The whole docstring: the failure contract stands in its later paragraphs.
        (f"`{seam.__name__}`", ", ".join(f"`{m}`" for m in members(seam)), inspect.getdoc(seam))
        for seam in seams()
    )
    return table(("contract", "what it has", "what it promises"), rows)


def names() -> str:
    """Every public name."""
    return table(("name", "what it is"), public(toolcrib))


def test_kit() -> str:
    """Every name of the test kit."""
    return table(("name", "what it is"), public(toolcrib.testing))


REGIONS: dict[str, Callable[[], str]] = {
    "reasons": reasons,
    "events": events,
    "settings": settings,
    "invariants": invariants,
    "commands": commands,
    "extension-points": extension_points,
    "names": names,
    "test-kit": test_kit,
}


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell(value) for value in line) + " |" for line in lines)


def cell(value: object) -> str:
    """A value as one cell: on one line, with its bars escaped."""
    return " ".join(str(value).split()).replace("|", r"\|")


def summary(thing: object) -> str:
    """The first paragraph of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n\n")[0]


def public(module: Any) -> Iterable[tuple[str, str]]:
    """The public names of a module, each with its sentence."""
    return ((f"`{name}`", summary(getattr(module, name))) for name in module.__all__)


def seams() -> list[type]:
    """The contracts of `toolcrib.core.protocols`, in the order in which they stand there."""
    found = [
        thing
        for thing in vars(protocols).values()
        if inspect.isclass(thing) and thing.__module__ == protocols.__name__
    ]
    return sorted(found, key=lambda thing: inspect.getsourcelines(thing)[1])


def members(contract: type) -> list[str]:
    """The attributes and methods of a contract."""
    return [
        name
        for name in {**contract.__annotations__, **vars(contract)}
        if not name.startswith("_") or name in ("__aenter__", "__aexit__")
    ]


def all_commands() -> list[tuple[str, click.Command]]:
    """Each command with the words that call it, groups in front of what they hold."""
    return list(_walk("toolcrib", cli))


def _walk(path: str, command: click.Command) -> Iterable[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from _walk(f"{path} {name}", found)


def described(path: str, command: click.Command) -> str:
    """One command: how it is written, what it does, its options."""
    context = click.Context(command, info_name=path)
    written = " ".join(command.collect_usage_pieces(context))
    depth = "##" + "#" * min(path.count(" "), 2)
    parts = [f"{depth} `{path}`", f"`{path} {written}`".replace(" `", "`")]
    if command.help:
        parts.append("\n\n".join(" ".join(p.split()) for p in command.help.split("\n\n")))
    options = [option for option in command.params if isinstance(option, click.Option)]
    records = (option.get_help_record(context) for option in options)
    rows = [(f"`{written}`", meaning) for written, meaning in filter(None, records)]
    if rows:
        parts.append(table(("option", "meaning"), rows))
    return "\n\n".join(parts)


def schema() -> str:
    """The JSON Schema of a configuration file."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


def renewed(text: str) -> str:
    """A page with its generated regions written anew."""
    return REGION.sub(lambda m: f"{m['open']}{REGIONS[m['name']]()}\n{m['close']}", text)


def pages() -> list[Path]:
    """The pages of this folder."""
    return sorted(FOLDER.glob("**/*.md"))


def outdated() -> dict[Path, str]:
    """The files that differ from what the code says, with what they should hold."""
    wanted = {page: renewed(page.read_text(encoding="utf-8")) for page in pages()}
    wanted[FOLDER / SCHEMA] = schema()
    return {
        path: text
        for path, text in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def main(arguments: Sequence[str]) -> int:
    """Write what is out of date, or with `--check` only tell."""
    changes = outdated()
    check = "--check" in arguments
    for path, text in changes.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        print(f"{'out of date' if check else 'wrote'}: {path.relative_to(FOLDER.parent)}")
    return 1 if check and changes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
