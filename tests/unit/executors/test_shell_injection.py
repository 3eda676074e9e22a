"""Nothing that a caller writes becomes anything but the one argument it is."""

from __future__ import annotations

import asyncio
import os
import shlex
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from executing import children, context, descriptors
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial
from toolcrib.executors.arguments import read_arguments
from toolcrib.executors.argv import Rules, Template
from toolcrib.executors.shell import ShellExecutor
from toolcrib.executors.template import TemplateReader
from toolcrib.host.workshop import Sandboxes, Workshop

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "depth": {"type": "string"},
        "rest": {"type": "string"},
    },
    "required": ["path", "depth", "rest"],
}
ARGV = ["printf", r"%s\0", "{path}", "--depth={depth}", "--", "{rest}"]
PLACES = ("path", "depth", "rest")

COMMANDS = ("touch marker", "sh -c 'touch marker'", "/usr/bin/touch marker", "touch${IFS}marker")
WRAPPINGS = (
    "; {}", "| {}", "|| {}", "& {}", "&& {}", "`{}`", "$({})", "\n{}", "\r\n{}", "a\n{}", "'; {} #",
    '"; {} #', "'$({})'", '"$({})"', "\\'; {}", '\\"; {}', "> marker", ">> marker", "< {}", "<({})",
    ">({})", "$(({}))", "{{{}}}", "{{{},}}", "~/{}", "*; {}", "?; {}", "[a]; {}", "$IFS{}",
    "${{{}}}",
    "a;{}", "a|{}", "a`{}`", "\0; {}", "%0a{}", "%s; {}", "%n{}", "\\x3b {}", "$'\\n'{}", "! {}",
    "!!; {}", "#{}", "\u2028{}", "\uff1b {}", "-e {}", "--exec={}", "-o ProxyCommand={}", "--{}",
    "-- ; {}", "@{}", "+{}", "=({})", "eval {}", "exec {}", ". {}", "x' -exec {} ;", "|{}|",
)  # fmt: skip


def payloads() -> list[str]:
    """200 texts of the kind that reaches a shell in other places."""
    made = [wrap.format(command) for command in COMMANDS for wrap in WRAPPINGS]
    return list(dict.fromkeys(made))[:200]


async def test_200_payloads_stay_what_they_are(tmp_path: Path) -> None:
    spec = ToolSpec(name="t", kind="shell", input_schema=SCHEMA, config={"argv": ARGV})
    run = ShellExecutor().bind(spec, Workshop(Sandboxes(), tmp_path))
    await run(context(path="a", depth="b", rest="c"))
    before, files = children(), descriptors()
    texts, ran = payloads(), 0
    assert len(texts) == 200
    for start in range(0, 200, 20):
        batch = enumerate(texts[start : start + 20], start)
        ends = await asyncio.gather(*(_ending(run, text, n) for n, text in batch))
        ran += sum(ends)
    assert ran > 100  # most are harmless as arguments, and are let through
    assert os.listdir(tmp_path) == []  # noqa: PTH208
    assert (children(), descriptors()) == (before, files)


async def _ending(run: Any, text: str, number: int) -> bool:
    place = PLACES[number % 3]
    arguments = {"path": "a", "depth": "b", "rest": "c", place: text}
    try:
        output = await run(context(**arguments))
    except Denial as denial:
        refused = denial
    else:
        refused = None
    if refused is not None:
        assert (refused.reason, refused.details) == ("argument_not_allowed", {"argument": place})
        return False
    shown = output.removesuffix("\0").split("\0")
    assert shown == [arguments["path"], f"--depth={arguments['depth']}", "--", arguments["rest"]]
    return True


def template(argv: list[Any], schema: dict[str, Any]) -> Template:
    spec = ToolSpec(name="t", kind="shell", input_schema=schema)
    return TemplateReader(spec, read_arguments(spec)).read({"argv": argv}, Rules())


LIST: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "since": {"type": "string"},
        "flag": {"type": "boolean"},
        "n": {"type": "integer"},
        "files": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["a", "n"],
}
WHOLE = template(
    ["x", "{flag?-v}", ["--since", "{since}"], "-n{n}", "[{a}]", "--", "{a}", "{files...}"], LIST
)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    a=ANY_TEXT,
    n=st.integers(),
    flag=st.booleans(),
    since=st.none() | ANY_TEXT,
    files=st.lists(ANY_TEXT, max_size=4),
)
def test_what_was_rendered_reads_back_as_the_same_arguments(
    a: str, n: int, flag: bool, since: str | None, files: list[str]
) -> None:
    arguments = {"a": a, "n": n, "flag": flag, "since": since, "files": files}
    try:
        argv = WHOLE.render(arguments)
    except Denial as denial:
        named = denial.details["argument"]
        texts = arguments[named] if named == "files" else [arguments[named]]
        assert any(not t.isprintable() or t.startswith("-") for t in texts)
        return
    assert shlex.split(shlex.join(argv)) == argv
    read = iter(argv)
    if flag:
        assert next(read) == "-v"
    if since is not None:
        assert (next(read), next(read)) == ("--since", since)
    assert int(next(read).removeprefix("-n")) == n
    assert next(read) == f"[{a}]"
    assert (next(read), next(read)) == ("--", a)
    assert list(read) == files
