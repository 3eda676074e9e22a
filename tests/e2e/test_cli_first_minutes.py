"""The first minutes, word by word."""

from __future__ import annotations

import json

import jsonschema_rs


def test_init_says_what_it_wrote_and_what_comes_next(empty):
    done = empty("init")
    assert (done.code, done.out) == (0, "")
    assert done.err == (
        "Wrote toolcrib.yaml    2 tools, 1 profile\n"
        "Wrote tools.py         add(a, b): a plain function; change it\n"
        "Wrote .toolcrib/       schema for your editor; local state (ignored by git)\n"
        "\n"
        "Next:  toolcrib call add a=1 b=2\n"
    )
    assert (empty.folder / ".toolcrib/.gitignore").read_text() == "*\n"


def test_what_init_wrote_is_right_and_in_form(cli):
    checked = cli("config", "check")
    assert (checked.code, checked.out) == (0, "")
    assert checked.err == "toolcrib.yaml: ok. 2 tools, 1 profile.\n"
    assert cli("config", "fmt", "--check").code == 0


def test_the_schema_for_the_editor_accepts_what_init_wrote(cli):
    from ruamel.yaml import YAML

    schema = json.loads((cli.folder / ".toolcrib/schema.json").read_text())
    document = YAML(typ="safe", pure=True).load((cli.folder / "toolcrib.yaml").read_text())
    assert jsonschema_rs.Draft7Validator(schema).is_valid(document)
    assert not jsonschema_rs.Draft7Validator(schema).is_valid({"tolls": []})


def test_init_overwrites_nothing_unless_forced(cli):
    cli.write("tools.py", "# mine\n")
    done = cli("init")
    assert done.code == 2
    assert done.err == (
        "toolcrib.yaml and tools.py exist already. Nothing was written; "
        "--force writes them anew, or name another folder\n"
    )
    assert (cli.folder / "tools.py").read_text() == "# mine\n"
    assert cli("init", "--force").code == 0
    assert "def add" in (cli.folder / "tools.py").read_text()


def test_init_in_another_folder_says_how_to_get_there(empty):
    done = empty("init", "demo")
    assert done.err.endswith("Next:  cd demo && toolcrib call add a=1 b=2\n")
    assert empty("init", "demo2", "--json").json == {
        "folder": "demo2",
        "written": ["toolcrib.yaml", "tools.py", ".toolcrib/"],
    }


def test_a_call_prints_its_output_alone(cli):
    done = cli("call", "add", "a=1", "b=2")
    assert (done.code, done.out, done.err) == (0, "3\n", "")


def test_arguments_that_do_not_fit(cli):
    done = cli("call", "add", "a=one", "b=2")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "add: the arguments do not fit (invalid_arguments)\n"
        "  a   'one' is not an integer\n"
        "  try: toolcrib call add a=1 b=2\n"
    )


def test_a_tool_that_does_not_exist(cli):
    done = cli("call", "ad", "a=1", "b=2")
    assert (done.code, done.out) == (2, "")
    assert done.err == "ad: no such tool (unknown_tool). Did you mean add?\n"


def test_a_refusal_explains_itself(cli):
    done = cli("call", "save_note", "path=../other", "text=hi there")
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "save_note: denied (path_outside_root)\n"
        "  '../other' is outside the folder notes\n"
        f"  decided by   policy of save_note   {_line(cli, 'save_note:')}\n"
        "  ask why      toolcrib explain save_note path=../other 'text=hi there'\n"
    )
    assert not (cli.folder.parent / "other").exists()


def test_explain_shows_every_gate_and_runs_nothing(cli):
    done = cli("explain", "save_note", "path=../other", "text=hi")
    assert (done.code, done.err) == (0, "")
    text = "path_outside_root: '../other' is outside the folder notes"
    assert done.out.splitlines() == [
        "save_note   for you, profile developer",
        "",
        "  arguments   fit the schema",
        f"  profile     ask     effects other than read are asked        {_line(cli, '- ask:')}",
        "  role        no opinion",
        f"  policy      DENY    {text}   {_line(cli, 'save_note:')}",
        f"  limit       allow   0 of 60 calls in the last minute         {_line(cli, 'limits:')}",
        "",
        "Verdict: denied. deny beats ask beats allow. Nothing was run.",
    ]
    assert not (cli.folder / ".toolcrib/trail.db").exists()


def test_explain_an_allowed_and_an_asked_call(cli):
    allowed = cli("explain", "add", "a=1", "b=2").out
    assert allowed.endswith("Verdict: allowed. deny beats ask beats allow. Nothing was run.\n")
    asked = cli("explain", "save_note", "path=notes/a", "text=x", "--as", "bo").out
    assert asked.startswith("save_note   for bo, profile developer\n")
    assert asked.endswith(
        "Verdict: a person is asked. deny beats ask beats allow. Nothing was run.\n"
    )


def test_explain_all_is_a_table_of_every_tool(cli):
    done = cli("explain", "--all", "--json")
    verdicts = {row["tool"]: row["verdict"] for row in done.json}
    assert verdicts == {"add": "allow", "save_note": "depends"}
    shown = cli("explain", "--all")
    assert [line.split()[0] for line in shown.out.splitlines()] == ["tool", "add", "save_note"]
    assert "depends" in shown.err


POLICIES = """
from toolcrib import ToolPolicy, tool

class Small(ToolPolicy):
    most: int = 10
    def check(self, ctx):
        if ctx.arguments["n"] > self.most:
            return self.deny("argument_not_allowed")

class Knobs(ToolPolicy):
    most: int = 10

@tool(effects=["read"], policy=Small)
def small(n: int) -> int:
    return n

@tool(effects=["read"], policy=Knobs)
def knobs(n: int) -> int:
    return n

@tool(effects=["read"])
def ruled(n: int) -> int:
    return n

@tool(effects=["read"])
def capped(n: int) -> int:
    return n

@tool(effects=["read"])
def always(n: int) -> int:
    return n

@tool(effects=["read"])
def plain(n: int) -> int:
    return n

@tool(effects=["read"], policy=Small)
def never(n: int) -> int:
    return n
"""
RULES = """
tools: [{python: tools.py}]
principals: {ann: {roles: [boss]}}
profiles:
  p:
    rules:
      - allow: [small, knobs, plain, capped]
      - allow: [ruled, always]
        when: {roles: [boss], arguments: {n: {max: 5}}}
      - ask: capped
        when: {arguments: {n: {min: 5}}}
      - ask: always
"""


def test_explain_all_says_depends_wherever_somebody_looks_at_the_arguments(empty):
    empty.write("tools.py", POLICIES)
    empty.write("toolcrib.yaml", RULES)

    def rows(*words):
        return {r["tool"]: r for r in empty("explain", "--all", "--json", *words).json}

    ann = rows("--as", "ann")
    assert {name: row["verdict"] for name, row in ann.items()} == {
        "small": "depends",
        "knobs": "allow",
        "plain": "allow",
        "ruled": "depends",
        "capped": "depends",
        "always": "ask",
        "never": "deny",
    }
    assert ann["small"]["message"] == "policy looks at the arguments"
    assert ann["small"]["source"].startswith("tools.py:")
    assert ann["ruled"]["message"] == "profile looks at the arguments"
    assert ann["ruled"]["source"].startswith("toolcrib.yaml:")
    # The rule that looks at arguments speaks of bosses alone.
    assert rows("--as", "bo")["ruled"]["verdict"] == "deny"


def test_explain_wants_one_tool_or_all(cli):
    assert cli("explain").code == 2
    unknown = cli("explain", "ad")
    assert (unknown.code, unknown.out) == (2, "")
    assert unknown.err == "ad: no such tool (unknown_tool). Did you mean add?\n"


def _line(cli, text: str) -> str:
    lines = (cli.folder / "toolcrib.yaml").read_text().splitlines()
    return f"toolcrib.yaml:{next(i for i, line in enumerate(lines, 1) if text in line)}"
