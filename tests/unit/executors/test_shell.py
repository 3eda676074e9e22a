"""Commands as tools: what is started, what comes back, and how failures are told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from executing import alive, children, context, descriptors, heard, until
from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Execute
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial, ToolFailure
from toolcrib.executors.shell import ShellExecutor
from toolcrib.host.workshop import Sandboxes, Workshop

TEXT = {"type": "string"}
SHOW = ["printf", r"[%s]"]
"""A program that shows its arguments."""
Bind = Callable[..., Execute]


@pytest.fixture
def shell(tmp_path: Path) -> Bind:
    def shell(argv: Any, properties: Mapping[str, Any] | None = None, **config: Any) -> Execute:
        required = config.pop("required", list(properties or {}))
        schema = {"type": "object", "properties": dict(properties or {}), "required": required}
        settings = {"command" if isinstance(argv, str) else "argv": argv, **config}
        spec = ToolSpec(name="t", kind="shell", input_schema=schema, config=settings)
        return ShellExecutor().bind(spec, Workshop(Sandboxes(), tmp_path))

    return shell


def plain(text: str) -> str:
    """Text without placeholders."""
    return text.replace("{", "{{").replace("}", "}}")


@pytest.mark.parametrize(
    ("template", "properties", "arguments", "shown"),
    [
        (["{a}"], {"a": TEXT}, {"a": "x y"}, "[x y]"),
        (["{a}"], {"a": TEXT}, {"a": ""}, "[]"),
        (["--n={n}"], {"n": {"type": "integer"}}, {"n": 3}, "[--n=3]"),
        (["--n={n}"], {"n": {"type": "integer"}}, {"n": 3.0}, "[--n=3]"),
        (["--n={n}"], {"n": {"type": "number"}}, {"n": 0.1}, "[--n=0.1]"),
        (["--n={n}"], {"n": {"type": "integer"}}, {"n": -3}, "[--n=-3]"),
        (["{a}:{b}"], {"a": TEXT, "b": TEXT}, {"a": "1", "b": "2 3"}, "[1:2 3]"),
        (["{yes}"], {"yes": {"type": "boolean"}}, {"yes": True}, "[true]"),
        (["{{a}}", "{a}"], {"a": TEXT}, {"a": "x"}, "[{a}][x]"),
        (["{a...}"], {"a": {"type": "array", "items": TEXT}}, {"a": ["1", "2 3"]}, "[1][2 3]"),
        (["x", "{a...}"], {"a": {"type": "array", "items": TEXT}}, {"a": []}, "[x]"),
        (["{v?-v}", "x"], {"v": {"type": "boolean"}}, {"v": True}, "[-v][x]"),
        (["{v?-v}", "x"], {"v": {"type": "boolean"}}, {"v": False}, "[x]"),
        (["{v?-v}", "x"], {"v": {"type": "boolean"}}, {}, "[x]"),
        (
            ["x", {"if": "v", "then": ["-v", "-w"]}],
            {"v": {"type": "boolean"}},
            {"v": True},
            "[x][-v][-w]",
        ),
        (["x", ["--since", "{s}"]], {"s": TEXT}, {"s": "now"}, "[x][--since][now]"),
        (["x", ["--since", "{s}"]], {"s": TEXT}, {}, "[x]"),
        (["x", ["--since", "{s}"]], {"s": {"type": ["string", "null"]}}, {"s": None}, "[x]"),
        (["x", ["-f", "{a...}"]], {"a": {"type": "array", "items": TEXT}}, {"a": []}, "[x]"),
        (["--", "{a}"], {"a": TEXT}, {"a": "-rf"}, "[--][-rf]"),
        (["x", 3], {}, {}, "[x][3]"),
    ],
    ids=str,
)
async def test_one_placeholder_is_one_argument(
    shell: Bind, template: list[Any], properties: Any, arguments: Any, shown: str
) -> None:
    run = shell([*SHOW, *template], properties, required=list(arguments))
    assert await run(context(**arguments)) == shown


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("printf [%s] {a}", "refused"),
        ("printf '[%s]' {a}", "[x; y]"),
        ('printf "[%s]" \'{a}\' "b  c"', "[x; y][b  c]"),
        ("printf '[%s]' '*|;$(x)' --a={a}", "[*|;$(x)][--a=x; y]"),
    ],
)
async def test_a_command_line_is_taken_apart_at_load(shell: Bind, command: str, shown: str) -> None:
    if shown == "refused":
        with pytest.raises(Exception, match="needs a shell"):
            shell(command, {"a": TEXT})
    else:
        assert await shell(command, {"a": TEXT})(context(a="x; y")) == shown


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("-rf", "begins with '-'"),
        ("--", "begins with '-'"),
        ("a\0b", "U+0000"),
        ("a\nb", "a line end"),
        ("a\rb", "a line end"),
        ("a\tb", "U+0009"),
        ("\x1b[2J", "U+001B"),
        ("\x7f", "U+007F"),
        ("\x9b", "U+009B"),
        ("\ud800", "surrogate"),
        ("x" * 131_072, "longer than 131071 bytes"),
        ("é" * 65_536, "longer than 131071 bytes"),
    ],
    ids=lambda value: ascii(value)[:20],
)
async def test_what_could_be_taken_for_something_else_is_refused(
    shell: Bind, tmp_path: Path, value: str, words: str
) -> None:
    run = shell(["touch", "marker", "{a}"], {"a": TEXT})
    with pytest.raises(Denial) as caught:
        await run(context(a=value))
    error = caught.value
    assert (error.reason, error.details) == ("argument_not_allowed", {"argument": "a"})
    assert words in str(error.message)
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - nothing was started


async def test_a_negative_number_is_an_option_too(shell: Bind) -> None:
    with pytest.raises(Denial, match="begins with '-'"):
        await shell([*SHOW, "{n}"], {"n": {"type": "integer"}})(context(n=-1))


async def test_an_item_of_a_list_is_held_to_the_same(shell: Bind) -> None:
    run = shell([*SHOW, "{a...}"], {"a": {"type": "array", "items": TEXT}})
    with pytest.raises(Denial, match="begins with '-'"):
        await run(context(a=["x", "-y"]))


async def test_two_dashes_in_a_group_that_is_left_out_lift_nothing(shell: Bind) -> None:
    run = shell([*SHOW, ["--", "{b}"], "{a}"], {"a": TEXT, "b": TEXT}, required=["a"])
    assert await run(context(a="-x", b="y")) == "[--][y][-x]"
    with pytest.raises(Denial, match="'a' begins with '-'"):
        await run(context(a="-x"))


async def test_exceptions_are_declared(shell: Bind) -> None:
    run = shell([*SHOW, "{a}"], {"a": TEXT}, allow_dash=["a"], multiline=["a"])
    assert await run(context(a="-x\n\ty")) == "[-x\n\ty]"
    with pytest.raises(Denial, match=r"U\+001B"):
        await run(context(a="\x1b"))


async def test_arguments_that_are_too_much_together(shell: Bind) -> None:
    run = shell([*SHOW, "{a...}"], {"a": {"type": "array", "items": TEXT}})
    with pytest.raises(Denial, match="too long for one command"):
        await run(context(a=["x" * 130_000] * 40))


@pytest.mark.parametrize(
    ("form", "printed", "output"),
    [
        ("text", r"a\r\nb\n", "a\r\nb\n"),
        ("lines", r"a\r\nb\n", ["a", "b"]),
        ("lines", r"a\n\nb", ["a", "", "b"]),
        ("lines", "", []),
        ("json", r'{"a": [1, null]}\n', {"a": [1, None]}),
        ("text", r"a\377b", "a\ufffdb"),
    ],
)
async def test_the_output_is_read_as_told(
    shell: Bind, form: str, printed: str, output: Any
) -> None:
    assert await shell(["printf", plain(printed)], output=form)(context()) == output


@pytest.mark.parametrize("printed", ["no", '{"a": 1, "a": 2}', "[NaN]", r"\377", ""])
async def test_output_that_is_not_json(shell: Bind, printed: str) -> None:
    with pytest.raises(ToolFailure, match="did not write JSON") as caught:
        await shell(["printf", plain(printed)], output="json")(context())
    assert caught.value.reason == "invalid_output"


async def test_an_exit_code_that_is_not_allowed(shell: Bind) -> None:
    run = shell(["sh", "-c", "echo out; echo 'it is \033[1mbroken' >&2; exit 3"])
    with pytest.raises(ToolFailure) as caught:
        await run(context())
    error = caught.value
    assert error.message == r"t ended with exit code 3: it is \x1b[1mbroken"
    assert error.details == {"exit_code": 3, "stderr": "it is \\x1b[1mbroken\n"}


async def test_allowed_exit_codes_are_told_apart(shell: Bind, tmp_path: Path) -> None:
    run = shell(["grep", "-c", "--", "{a}", "file"], {"a": TEXT}, exit_codes=[0, 1])
    (tmp_path / "file").write_text("x\n")
    found, missing = await run(context(a="x")), await run(context(a="y"))
    assert (found.output, found.metadata) == ("1\n", {"exit_code": 0})
    assert (missing.output, missing.metadata) == ("0\n", {"exit_code": 1})


async def test_a_command_that_a_signal_ended(shell: Bind) -> None:
    with pytest.raises(ToolFailure, match="SIGKILL") as caught:
        await shell(["sh", "-c", "kill -9 $$"])(context())
    assert caught.value.details["exit_code"] == -9


async def test_standard_input(shell: Bind) -> None:
    run = shell(["cat"], {"a": TEXT}, stdin="a")
    assert await run(context(a="x\n\0-y")) == "x\n\0-y"
    run = shell(["cat"], {"a": {"type": "object"}}, stdin={"from": "a"}, output="json")
    assert await run(context(a={"b": [1]})) == {"b": [1]}
    run = shell(["cat"], {"a": TEXT}, stdin="a", required=[])
    assert await run(context()) == ""


async def test_the_environment_is_what_was_said(
    shell: Bind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    monkeypatch.setenv("REGION", "eu")
    run = shell(
        ["env"],
        {"a": TEXT},
        required=[],
        env={"MODE": "x{a}", "FIXED": 3},
        environment=["REGION", "NOT_SET"],
        output="lines",
    )
    seen = {
        line for line in await run(context(a="1")) if not line.startswith(("PATH=", "TOOLCRIB"))
    }
    assert seen == {"MODE=x1", "FIXED=3", "REGION=eu", "LANG=C.UTF-8"}
    assert not [line for line in await run(context()) if line.startswith("MODE=")]
    with pytest.raises(Denial, match="a line end"):
        await run(context(a="1\nX=2"))


async def test_where_it_runs(shell: Bind, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "other").mkdir()
    there = ToolContext("s1", cwd=str(tmp_path / "other"))
    assert (await shell(["pwd"])(context())).strip() == str(tmp_path)
    assert (await shell(["pwd"])(there)).strip() == str(tmp_path / "other")
    assert (await shell(["pwd"], cwd="sub")(there)).strip() == str(tmp_path / "sub")
    with pytest.raises(ToolFailure, match="there is no folder"):
        await shell(["pwd"], cwd="missing")(context())


async def test_which_program_runs(shell: Bind, tmp_path: Path) -> None:
    script = tmp_path / "own"
    script.write_text("#!/bin/sh\necho own\n")
    script.chmod(0o755)
    assert await shell(["./own"])(context()) == "own\n"
    assert await shell([str(script)])(context()) == "own\n"
    with pytest.raises(ToolFailure, match="'own' is not in /usr/local/sbin") as caught:
        await shell(["own"])(context())  # the working folder is never searched
    assert caught.value.reason == "tool_unavailable"
    assert await shell(["own"], env={"PATH": str(tmp_path)})(context()) == "own\n"
    with pytest.raises(ToolFailure, match="cannot run"):
        await shell(["./missing"])(context())


async def test_lines_are_told_while_it_runs(shell: Bind, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    ctx = context()
    said = heard(ctx)
    run = shell(
        ["sh", "-c", "echo first; read x < gate; echo second; echo warn >&2"], progress=True
    )
    call = asyncio.ensure_future(run(ctx))
    await until(lambda: said)
    assert said == [("call.progress", {"fraction": None, "message": "first"})]
    await asyncio.to_thread(gate.write_text, "go\n")
    assert await call == "first\nsecond\n"
    assert said[1:] == [
        ("call.progress", {"fraction": None, "message": "second"}),
        ("tool.log", {"message": "warn\n", "stream": "stderr"}),
    ]


async def test_endless_output_is_stopped(shell: Bind) -> None:
    before, files = children(), descriptors()
    with pytest.raises(ToolFailure) as caught:
        await shell(["yes"], limits={"output": "100kB"})(context())
    assert caught.value.reason == "output_too_large"
    assert (children(), descriptors()) == (before, files)


async def test_output_is_limited_unless_told_otherwise(shell: Bind) -> None:
    with pytest.raises(ToolFailure) as caught:
        await shell(["head", "-c", "1100000", "/dev/zero"])(context())
    assert caught.value.reason == "output_too_large"
    run = shell(["head", "-c", "1100000", "/dev/zero"], limits={"output": "2MB"})
    assert len(await run(context())) == 1_100_000


async def test_its_own_time_limit(shell: Bind) -> None:
    with pytest.raises(ToolFailure, match="did not finish") as caught:
        await shell(["sleep", "60"], limits={"time": "50ms"})(context())
    assert caught.value.reason == "timeout"


async def test_a_cancelled_command_is_gone_when_the_call_ends(shell: Bind, tmp_path: Path) -> None:
    before, files = children(), descriptors()
    note = tmp_path / "pids"
    script = "sleep 60 & echo $! > pids.tmp; echo $$ >> pids.tmp; mv pids.tmp pids; wait"
    call = asyncio.ensure_future(shell(["sh", "-c", script])(context()))
    await until(note.exists)
    pids = [int(pid) for pid in note.read_text().split()]
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not [pid for pid in pids if alive(pid)]
    assert (children(), descriptors()) == (before, files)
