"""`toolcrib call`: what goes where, and how it ends."""

from __future__ import annotations

import json
import signal

import pytest

TOOLS = """
import subprocess, sys, time
from toolcrib import ToolContext, ToolFailure, ToolResult, tool

print("printed while loading")

@tool(effects=["read"])
def noisy() -> str:
    print("printed")
    sys.stdout.write("written")
    subprocess.run(["echo", "from a child"])
    return "the output"

@tool(effects=["read"])
def nothing() -> None:
    pass

@tool(effects=["read"])
def draws() -> str:
    return "\\x1b[31mred\\x1b[0m"

@tool(effects=["read"])
def paints(ctx: ToolContext):
    picture = {"type": "image", "mimeType": "image/png", "data": "A" * 4000}
    file = {"type": "resource", "resource": {"uri": "x:y", "blob": "B" * 4000}}
    words = {"type": "text", "text": "painted"}
    return ToolResult(call_id=ctx.call_id, content=[words, picture, file])

@tool(effects=["read"])
def broken() -> str:
    raise RuntimeError("hunter2")

@tool(effects=["read"])
def fails() -> str:
    raise ToolFailure("no such row")

@tool(effects=["read"])
def slow(seconds: float) -> str:
    print("begun", flush=True)
    time.sleep(seconds)
    return "slept"

@tool(effects=["read"])
def where(ctx: ToolContext) -> dict[str, str]:
    return {"cwd": ctx.cwd, "who": ctx.principal.name, "door": ctx.door}

@tool(effects=["read"])
def echo(text: str = "", items: list[int] | None = None) -> dict:
    return {"text": text, "items": items}
"""


@pytest.fixture
def many(cli):
    """A project with tools of every temper."""
    cli.write("more.py", TOOLS)
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text.replace("tools:\n", "tools:\n  - python: more.py\n", 1))
    return cli


def test_json_is_the_result_alone(cli):
    done = cli("call", "add", "a=1", "b=2", "--json")
    assert done.err == ""
    assert done.json == {
        "call_id": done.json["call_id"],
        "status": "ok",
        "output": 3,
        "content": None,
        "error": None,
        "truncated": None,
        "metadata": {},
    }


def test_json_of_a_refusal_has_reason_rule_and_place(cli):
    done = cli("call", "save_note", "path=/etc/x", "text=y", "--json")
    assert (done.code, done.err) == (3, "")
    error = done.json["error"]
    assert done.json["status"] == "denied"
    assert error["reason"] == "path_outside_root"
    assert error["details"]["rule"] == "policy of save_note"
    assert error["details"]["source"].startswith("toolcrib.yaml:")


def test_what_tools_print_never_reaches_standard_output(many):
    done = many("call", "noisy")
    assert (done.code, done.out) == (0, "the output\n")
    for words in ("printed while loading", "printed", "written", "from a child"):
        assert words in done.err
    assert many("call", "noisy", "--json").json["output"] == "the output"


def test_pictures_are_not_shown_as_letters(many):
    told = "4000 characters of base64; --json shows them"
    assert many("call", "paints").out.splitlines() == [
        "painted",
        json.dumps({"type": "image", "mimeType": "image/png", "data": told}),
        json.dumps({"type": "resource", "resource": {"uri": "x:y", "blob": told}}),
    ]
    assert many("call", "paints", "--json").json["content"][1]["data"] == "A" * 4000


def test_no_output_is_said_and_not_printed(many):
    done = many("call", "nothing")
    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("Finished with no output.\n")


def test_a_pipe_gets_every_character(many):
    assert many("call", "draws").out == "\x1b[31mred\x1b[0m\n"


def test_failures_exit_with_one_and_show_no_traceback(many):
    told = many("call", "fails")
    assert told.code == 1
    assert "fails: failed (tool_error)\n  no such row\n" in told.err
    broken = many("call", "broken")
    assert broken.code == 1
    assert "broken: failed (unexpected_failure)" in broken.err
    assert "Traceback" not in broken.err
    assert "hunter2" not in broken.err
    debug = many("--debug", "call", "broken")
    assert "Traceback" in debug.err
    assert "hunter2" in debug.err
    assert many("call", "broken", "--debug").err.count("Traceback") == 1


def test_a_timeout_ends_the_command_though_the_thread_does_not_stop(many):
    done = many("call", "slow", "seconds=30", "--timeout", "100ms")
    assert done.code == 1
    assert "slow: failed (timeout)" in done.err
    assert "It could not be stopped and may still have an effect." in done.err


def test_ctrl_c_cancels_the_call_and_the_trail_says_so(many):
    running = many.start("call", "slow", "seconds=30")
    assert running.stderr is not None
    for line in running.stderr:
        if "begun" in line:
            break
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert (running.returncode, out) == (130, "")
    assert "Cancelled." in err
    assert "Traceback" not in err
    (call,) = many("calls", "--json").json
    assert (call["tool"], call["status"], call["reason"]) == ("slow", "error", "cancelled")


def test_a_call_works_in_the_folder_of_the_configuration(many):
    inner = many.folder / "src/deep"
    inner.mkdir(parents=True)
    done = many("call", "where", "--json", "--as", "bo", cwd=inner)
    assert done.json["output"] == {"cwd": str(many.folder), "who": "bo", "door": "cli"}


def test_arguments_from_a_file_from_standard_input_and_on_top(many):
    many.write("a.json", '{"text": "file", "items": [1]}')
    assert many("call", "echo", "--input", "a.json", "--json").json["output"]["text"] == "file"
    piped = many("call", "echo", "text=typed", "--input", "-", "--json", stdin='{"items": [1]}')
    assert piped.json["output"] == {"text": "typed", "items": [1]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["call", "add", "a", "b=2"], "'a' is not an argument. Write key=value, or key:=JSON"),
        (["call", "add", '{"a": 1}'], "a whole JSON object goes in by --input FILE"),
        (["call", "add", "a=1", "a=2", "b=1"], "a is given twice. Give it once"),
        (["call", "add", "a:={", "b=1"], "a: "),
        (["call", "add", "a=@none.txt"], "a: the file 'none.txt' cannot be read"),
        (["call", "add", "--input", "none.json"], "--input: the file 'none.json' cannot be read"),
        (["call", "add", "--input", "-"], "standard input: "),
        (["call", "add", "--timeout", "5"], 'did you mean "5s"?'),
        (["call", "add", "--profile", "devloper"], "Did you mean developer?"),
        (["call", "add", "--config", "none.yaml"], "there is no file none.yaml"),
        (["calll"], "Did you mean call?"),
    ],
)
def test_mistakes_of_the_caller_exit_with_two(cli, words, said):
    done = cli(*words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_without_a_project_the_cure_is_named(empty):
    for words in (["call", "add"], ["tools"], ["calls"], ["audit", "verify"], ["config", "show"]):
        done = empty(*words)
        assert (done.code, done.out) == (2, "")
        assert done.err == (
            "there is no toolcrib.yaml here or in a folder above. "
            "Start one with `toolcrib init`, or name a file with --config\n"
        )


def test_a_profile_a_principal_may_not_choose_is_a_denial_on_the_trail(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    people = "  other: {default: allow}\nprincipals:\n  ci: {profiles: [developer]}\n"
    cli.write("toolcrib.yaml", text + people)
    done = cli("call", "add", "a=1", "b=2", "--as", "ci", "--profile", "other")
    assert done.code == 3
    assert "ci may not use the profile other" in done.err
    (call,) = cli("calls", "--json").json
    assert (call["status"], call["reason"]) == ("denied", "not_in_profile")


def test_a_store_that_cannot_be_opened_exits_with_five(cli):
    cli.write(".toolcrib/trail.db", "this is not a database, and it is long enough to be read " * 9)
    done = cli("call", "add", "a=1", "b=2")
    assert (done.code, done.out) == (5, "")
    assert "it is not a database" in done.err
    assert "Traceback" not in done.err


def test_a_reader_that_leaves_early_is_no_trouble(cli):
    cli("call", "add", "a=1", "b=2")
    with cli.start("audit", "export") as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.stderr is not None
        assert running.stderr.read() == ""
        assert running.wait(20) == 141


def test_colours_go_to_terminals_only_and_not_with_no_color(cli, terminal):
    assert "\x1b" not in cli("explain", "add", "a=1", "b=2").out
    import pexpect

    with_colours = terminal("explain", "add", "a=1", "b=2")
    with_colours.expect(pexpect.EOF)
    assert "\x1b[32mallow" in with_colours.before
    without = terminal("explain", "add", "a=1", "b=2", NO_COLOR="1")
    without.expect(pexpect.EOF)
    assert "\x1b" not in without.before
    assert "allow" in without.before
    listed = terminal("tools", NO_COLOR="1")
    listed.expect(pexpect.EOF)
    assert "\x1b" not in listed.before
    assert "save_note" in listed.before


def test_help_is_quick_to_load_and_names_every_command(empty):
    code = (
        "import sys; from toolcrib.cli import main\n"
        "try: main.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('asyncio', 'rich', 'sqlite3', 'ruamel') if m in sys.modules])"
    )
    done = empty.python(code)
    assert done.out.splitlines()[-1] == "[]"
    for name in ("init", "call", "explain", "approvals", "audit", "doctor"):
        assert f"  {name} " in done.out
