"""`tools check`: every entry has one fate, whatever became of the others."""

from __future__ import annotations

TOOLS = """\
version: 1
sandboxes:
  mine: {type: subprocess}
tools:
  - {name: boxed, kind: shell, config: {argv: ["true"], sandbox: mine}, effects: [read],
     description: Nothing., input_schema: {type: object}}
  - template: git
    policy: {allowed_actions: [status]}
"""
BROKEN = "  - {name: typo, kind: shell, config: {argw: [x]}, input_schema: {type: object}}\n"
PROFILES = """\
profiles:
  some: {rules: [{allow: typo}, {allow: boxed}]}
"""


def fates(cli):
    done = cli("tools", "check", "--json")
    return done.code, [(f["entry"], f["tool"], f["fate"]) for f in done.json]


def test_an_entry_may_run_in_a_sandbox_of_the_configuration(empty):
    empty.write("toolcrib.yaml", TOOLS)
    assert fates(empty) == (
        0,
        [("toolcrib.yaml:5", "boxed", "ok"), ("toolcrib.yaml:7", "git", "ok")],
    )


def test_a_wrong_sandbox_is_told_once_and_hides_nothing(empty):
    empty.write("toolcrib.yaml", TOOLS.replace("{type: subprocess}", "{type: subprocess, x: 1}"))
    code, found = fates(empty)
    assert code == 2
    assert found == [
        ("toolcrib.yaml:5", "boxed", "fail"),
        ("toolcrib.yaml:7", "git", "ok"),
        ("toolcrib.yaml:3", None, "fail"),
    ]


def test_the_effects_of_a_broad_tool_are_those_its_policy_leaves(empty):
    empty.write("toolcrib.yaml", TOOLS)
    assert "  effects      read\n" in empty("tools", "show", "git").out
    assert empty("tools", "show", "git", "--json").json["effects"] == ["read"]


def test_rules_that_name_a_broken_tool_are_not_to_blame(empty):
    empty.write("toolcrib.yaml", TOOLS + BROKEN + PROFILES)
    code, found = fates(empty)
    assert code == 2
    assert [fate for fate in found if fate[2] == "fail"] == [("toolcrib.yaml:9", "typo", "fail")]
    empty.write("toolcrib.yaml", TOOLS + PROFILES)
    assert [fate for fate in fates(empty)[1] if fate[2] == "fail"] == [
        ("toolcrib.yaml:10", None, "fail")
    ]


def test_what_is_loaded_is_counted_once_and_built(empty):
    listed = "tools:\n" + BROKEN + BROKEN.replace("typo", "other").replace("argw", "argv")
    empty.write("more/a.yaml", listed + "  - {name: bad, kid: shell}\n")
    empty.write("toolcrib.yaml", TOOLS + "  - load: more/*.yaml\n")
    code, found = fates(empty)
    assert code == 2
    assert found[2:] == [
        ("more/a.yaml:2", "typo", "fail"),
        ("more/a.yaml:3", "other", "warn"),
        ("more/a.yaml:4", "bad", "fail"),
    ]
    assert empty("tools", "check").err == "3 of 5 can be used.\n"


def test_providers_are_tried_though_something_else_is_wrong(empty):
    empty.write("more/a.yaml", "providers:\n  late: {type: storage}\n")
    empty.write(
        "toolcrib.yaml",
        TOOLS + BROKEN + "  - load: more/*.yaml\n"
        "providers:\n  good: {type: storage}\n  bad: {type: storag}\n",
    )
    code, found = fates(empty)
    assert code == 2
    assert found[2:] == [
        ("toolcrib.yaml:9", "typo", "fail"),
        ("toolcrib.yaml:13", None, "fail"),
        ("toolcrib.yaml:12", None, "ok"),
        ("more/a.yaml:2", None, "ok"),
    ]


def test_two_entries_of_one_name_are_told_together(empty):
    code = "from toolcrib import tool\n@tool(effects=['read'])\ndef boxed(): 'Boxed.'\n"
    empty.write("mine.py", code)
    empty.write("toolcrib.yaml", TOOLS + "  - python: mine.py\n")
    done = empty("tools", "check", "--json")
    assert [f["fate"] for f in done.json] == ["ok", "ok", "ok", "fail"]
    assert "two tools are called 'boxed'" in done.json[-1]["remark"]


def test_a_source_that_a_variable_names_is_shown_nowhere(empty, monkeypatch):
    monkeypatch.setenv("WHERE", "hidden-folder")
    empty.write("toolcrib.yaml", "version: 1\ntools:\n  - load: ${WHERE}/a.yaml\n")
    for content in (None, "tools: [}\n", "tools:\n" + BROKEN + "  - {name: x, kid: shell}\n"):
        if content is not None:
            empty.write("hidden-folder/a.yaml", content)
        done = empty("tools", "check")
        assert done.code == 2
        assert "toolcrib.yaml:3" in done.out
        assert "hidden-folder" not in done.out + done.err
    assert "Did you mean argv?" in done.out
    assert "Did you mean kind?" in done.out


def test_one_tool_shows_what_it_runs_and_hides_secrets(empty, monkeypatch):
    monkeypatch.setenv("API_TOKEN", "hunter2hunter2")
    empty.write("numbers_of.py", "def median(): ...\n")
    empty.write(
        "toolcrib.yaml",
        "version: 1\ntools:\n"
        "  - {name: count, kind: shell, config: {argv: [wc, -l, --, '{path}', 'a b'],\n"
        "     sandbox: subprocess}, description: C.,\n"
        "     input_schema: {type: object, properties: {path: {type: string}}, required: [path]}}\n"
        "  - {name: part, kind: http, description: P., input_schema: {type: object},\n"
        "     config: {method: POST, url: 'https://example.org/x?t=${API_TOKEN}'}}\n"
        "  - {name: median, kind: process, description: M., input_schema: {type: object},\n"
        "     config: {module: numbers_of.py, function: median}}\n"
        "providers:\n  memo: {type: storage}\n",
    )
    counted = empty("tools", "show", "count").out
    assert '  command      wc -l -- {path} "a b"\n' in counted
    assert "  sandbox      subprocess (subprocess)\n" in counted
    part = empty("tools", "show", "part").out
    assert "  request      POST https://example.org/x?t=" in part
    assert "  function     numbers_of.py:median\n" in empty("tools", "show", "median").out
    stored = empty("tools", "show", "memo-read")
    assert "  from         provider memo (toolcrib.yaml:11)\n" in stored.out
    told = part + empty("tools", "show", "part", "--json").out
    assert "hunter2" not in told


def test_one_tool_shows_its_knobs_a_line_each_those_set_first(empty):
    empty.write("toolcrib.yaml", TOOLS)
    lines = empty("tools", "show", "git").out.splitlines()
    start = lines.index("  policy       GitPolicy")
    assert lines[start + 1].split(maxsplit=1) == ["allowed_actions", '["status"]']
    knobs = lines[start + 2 : lines.index("", start)]
    assert len(knobs) > 10
    assert all(line.endswith("   (default)") for line in knobs)
    assert "    allow_push                  false   (default)" in knobs
    # The values of `action` are many, and their line is not the longest of the page.
    assert any('one of "status", "diff"' in line for line in lines)
    assert max(map(len, lines)) < 200
