"""`tools`, `config`, `doctor`, `plugins` and `version`."""

from __future__ import annotations

import os

import pytest

MODULE = '''
from toolcrib import tool

@tool(effects=["read"])
def good(a: int) -> int:
    """Good."""
    return a

@tool
def unsure() -> None:
    """Says nothing of its effects."""

@tool
def stream():
    """A generator."""
    yield 1

class Bad:
    """Its schema is none."""
    name = "bad"
    input_schema = {"type": "nonsense"}
    async def execute(self, input):
        return None

class Echo:
    """A tool written as agent frameworks write them."""
    name = "echo"
    description = "Echo."
    input_schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    async def execute(self, input):
        return input["text"]

plain = 3
'''


def test_tools_in_columns_as_json_and_as_a_provider_wants_them(cli):
    lines = cli("tools").out.splitlines()
    assert lines[0].split() == ["name", "kind", "effects", "description"]
    assert lines[1].split()[:3] == ["add", "python", "read"]
    assert [t["name"] for t in cli("tools", "--json").json] == ["add", "save_note"]
    openai = cli("tools", "list", "--format", "openai").json
    assert openai[0]["function"]["name"] == "add"
    assert cli("tools", "--format", "anthropic").json[0]["input_schema"]["type"] == "object"
    assert cli("tools", "--format", "nope").code == 2


def test_tools_by_kind_tag_category_and_effect(cli):
    assert [t["name"] for t in cli("tools", "--effect", "write", "--json").json] == ["save_note"]
    assert len(cli("tools", "--kind", "python", "--json").json) == 2
    assert cli("tools", "--tag", "none").err.startswith("No tool fits.")
    assert cli("tools", "--category", "none", "--json").json == []


def test_one_tool(cli):
    shown = cli("tools", "show", "save_note").out
    assert shown.startswith("save_note   Write a text file in the notes folder.\n")
    assert "  effects      write\n" in shown
    assert "path       string   yes" in shown
    spec = cli("tools", "show", "add", "--json").json
    assert (spec["wire_name"], len(spec["digest"])) == ("add", 64)
    missing = cli("tools", "show", "ad")
    assert missing.code == 2
    assert missing.err == "ad: no such tool (unknown_tool). Did you mean add?\n"


def test_check_reports_every_entry(cli):
    cli.write("bad.py", "1 /\n")
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text.replace("tools:\n", "tools:\n  - python: bad.py\n", 1))
    done = cli("tools", "check", "--json")
    assert done.code == 2
    assert [(f["tool"], f["fate"]) for f in done.json] == [
        (None, "fail"),
        ("add", "ok"),
        ("save_note", "ok"),
    ]
    assert "cannot be imported" in done.json[0]["remark"]
    shown = cli("tools", "check")
    assert shown.err == "2 of 3 can be used.\n"


def test_check_a_module_without_a_project(empty):
    empty.write("mine.py", MODULE)
    done = empty("tools", "check", "--module", "mine.py", "--json")
    assert done.code == 2
    fates = {f["entry"].rpartition(":")[2]: (f["tool"], f["fate"]) for f in done.json}
    assert fates == {
        "good": ("good", "ok"),
        "unsure": ("unsure", "warn"),
        "stream": ("stream", "warn"),
        "Bad": (None, "fail"),
        "Echo": ("echo", "warn"),
    }
    empty.write("none.py", "x = 1\n")
    assert empty("tools", "check", "--module", "none.py").code == 2
    assert empty("tools", "check", "--module", "gone.py").code == 2


def test_config_mistakes_are_printed_with_file_line_and_column(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text.replace("trust: 2", "trsut: 2").replace("60/min", "60/mni"))
    done = cli("config", "check")
    assert done.code == 2
    first, second = done.out.splitlines()
    assert first.startswith("toolcrib.yaml:7:5: ")
    assert "Did you mean trust?" in first
    assert second.startswith("toolcrib.yaml:14:")
    assert done.err == "2 mistakes. Nothing was changed.\n"
    problems = cli("config", "check", "--json").json
    assert problems["ok"] is False
    assert [p["line"] for p in problems["problems"]] == [7, 14]
    called = cli("call", "add", "a=1", "b=2")
    assert (called.code, called.out) == (2, "")
    assert called.err.splitlines() == [first, second]


def test_config_check_sees_rules_for_tools_that_do_not_exist(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text.replace("allow: {effects: [read]}", "allow: [ad]"))
    done = cli("config", "check")
    assert done.code == 2
    assert "Did you mean add?" in done.out
    assert done.out.startswith("toolcrib.yaml:9")


def test_config_is_found_in_a_folder_above_and_spelled_from_here(cli):
    inner = cli.folder / "src"
    inner.mkdir()
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text.replace("trust: 2", "trsut: 2"))
    assert cli("config", "check", cwd=inner).out.startswith("../toolcrib.yaml:7:5: ")


def test_config_show_masks_and_schema_is_json(cli, monkeypatch):
    monkeypatch.setenv("CI_TOKEN", "hunter2hunter2hunter2")
    text = (cli.folder / "toolcrib.yaml").read_text()
    more = 'principals: {ci: {}}\nserve: {tokens: {ci: {secret: "${CI_TOKEN}", principal: ci}}}\n'
    cli.write("toolcrib.yaml", text + more)
    shown = cli("config", "show")
    assert shown.out.startswith("# from toolcrib.yaml\n")
    assert "hunter2" not in shown.out
    assert cli("config", "show", "--json").json["profiles"]["developer"]["trust"] == 2
    assert cli("config", "schema").json["$schema"].startswith("http://json-schema.org/draft-07")


def test_fmt_prints_checks_and_writes(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    untidy = text.replace("version: 1\n", "").rstrip() + "\nversion:   1\n"
    path = cli.write("toolcrib.yaml", untidy)
    assert cli("config", "fmt", "--check").code == 1
    assert path.read_text() == untidy
    printed = cli("config", "fmt").out
    assert path.read_text() == untidy
    assert cli("config", "fmt", "--write").code == 0
    assert path.read_text() == printed != untidy
    assert cli("config", "fmt", "--check").code == 0
    assert cli("config", "fmt", "--check", "--write").code == 2
    assert cli("config", "fmt", "--json").json["changes"] is False


def test_doctor_finds_everything_well(cli):
    done = cli("doctor")
    assert done.code == 0
    states = {line.split()[0]: line.split()[1] for line in done.out.splitlines() if line[0] != " "}
    if os.geteuid() == 0:
        assert states.pop("user") == "warn"
    assert states == {
        "sandbox": "ok",
        "python": "ok",
        "libraries": "ok",
        "config": "ok",
        "store": "ok",
        "key": "ok",
        "anchor": "warn",
        "clock": "ok",
        "plugins": "ok",
        "threads": "ok",
    }
    assert not (cli.folder / ".toolcrib/trail.db").exists()


def test_doctor_names_the_cure(cli, empty):
    cli("call", "add", "a=1", "b=2")
    key = cli.folder / ".toolcrib/trail.db.key"
    key.chmod(0o644)
    done = cli("doctor")
    assert done.code == 1
    assert "others can read it (mode 0644)" in done.out
    assert "Run `chmod 600 .toolcrib/trail.db.key`" in done.out
    key.unlink()
    findings = {f["name"]: f for f in cli("doctor", "--json").json}
    assert findings["key"]["state"] == "fail"
    cli.write(".toolcrib/trail.db", "no database " * 100)
    assert {f["name"]: f["state"] for f in cli("doctor", "--json").json}["store"] == "fail"


def test_doctor_without_a_project_tells_how_to_start(empty):
    done = empty("doctor")
    assert done.code == 1
    assert "toolcrib init" in done.out


def test_plugins_and_version(cli, empty):
    assert cli("plugins").err == "No plug-in is installed or listed.\n"
    assert cli("plugins", "--json").json == []
    assert cli("version").out == cli("--version").out
    assert cli("version", "--json").json["version"] in cli("--version").out


@pytest.mark.parametrize(
    "words",
    ["init", "call", "explain", "tools", "calls", "approvals", "grants", "audit", "config",
     "policy", "doctor", "plugins", "version"],
)  # fmt: skip
def test_every_command_has_help(empty, words):
    done = empty(words, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Usage: toolcrib ")


def test_completion_is_clicks_own(empty, monkeypatch):
    monkeypatch.setenv("_TOOLCRIB_COMPLETE", "bash_source")
    assert "_toolcrib_completion" in empty().out
