"""`examples/toolcrib.yaml` has one tool of every kind, and each runs as its reader would run it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from needs import needs
from toolcrib import ToolHost
from toolcrib.testing import EventRecorder

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ME = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


class Case(NamedTuple):
    """A call of one tool, and what it gives."""

    arguments: dict[str, Any]
    output: Any
    """The whole output, or a part of it where it is a mapping."""
    profile: str = "reader"
    before: tuple[str, ...] = ()
    """A command that has to be run first."""


MEMO = ("call", "memo-write", "key=bolt", "value=shiny", "--profile", "fixer")
TODO = "oil the hinges\ncount the bolts\nbuy tea\n"
CASES = {
    "price": Case({"part": "bolt"}, 0.2),
    "restock": Case({}, 3, "fixer"),
    "median": Case({"numbers": [3, 1, 2]}, 2),
    "count_lines": Case({"path": "todo.txt"}, "3 todo.txt\n"),
    "part": Case({"name": "bolt"}, {"name": "bolt", "price": 0.15}),
    "invitation": Case({"name": "Ben"}, "Dear Ben, come on Friday."),
    "supplier-listParts": Case({}, {"parts": ["bolt", "nut"]}),
    "supplier-getPart": Case({"name": "nut"}, {"part": {"name": "nut", "price": 0.08}}),
    "supplier-placeOrder": Case(
        {"body": {"name": "nut", "count": 3}}, {"ordered": {"name": "nut", "count": 3}}, "releaser"
    ),
    "memo-write": Case({"key": "nut", "value": {"is": "small"}}, {"version": 1}, "fixer"),
    "memo-read": Case({"key": "bolt"}, {"value": "shiny", "version": 1}, before=MEMO),
    "memo-list": Case({}, {"items": [{"key": "bolt", "version": 1}]}, before=MEMO),
    "memo-search": Case({"text": "SHINY"}, {"more": False}, before=MEMO),
    "git": Case({"action": "status"}, {"branch": "main", "clean": True}),
    "files": Case({"action": "read", "path": "todo.txt"}, {"text": TODO}),
    "shell": Case(
        {"program": "sort", "arguments": ["todo.txt"]},
        {"exit_code": 0, "stdout": "buy tea\ncount the bolts\noil the hinges\n"},
        "shell",
    ),
    "fetch": Case({"url": "{demo}/news"}, {"title": "News"}, "fetch"),
    "sql": Case(
        {"statement": "select part, stock from parts where stock > ?", "parameters": [50]},
        {"rows": [["nut", 75], ["washer", 300]]},
        "sql",
        before=("call", "restock", "--profile", "fixer"),
    ),
    "python_code": Case(
        {"code": "10 * await price(part=name)", "inputs": {"name": "bolt"}},
        {"result": 2.0},
        "python_code",
    ),
    "to_inches": Case({"millimetres": 254}, 10.0),
}
ASKED = {
    "order": {"name": "bolt", "count": 2},
    "memo-delete": {"key": "bolt"},
}
"""Tools that a person is asked about, with the arguments of a call."""


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    """The address of the examples' server, on a free port."""
    command = [sys.executable, str(EXAMPLES / "kinds" / "server.py"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The examples as they are in a repository of their own."""
    git = needs("git", "git")
    needs("bwrap", "bubblewrap")
    left_out = shutil.ignore_patterns(".toolcrib", "__pycache__", "*.db*")
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=left_out)
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*ME, "commit", "-q", "-m", "First"]):
        subprocess.run([git, "-C", tmp_path, *words], check=True, capture_output=True)
    return tmp_path / "examples"


@pytest.fixture
def run(project: Path, demo: str) -> Run:
    """Runs the command line in the examples' folder."""

    def toolcrib(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "toolcrib", *words],
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
            env={
                **os.environ,
                "DEMO_URL": demo,
                "PYTHONPATH": str(ROOT / "src"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "NO_COLOR": "1",
            },
        )

    return toolcrib


def given(arguments: dict[str, Any], demo: str) -> list[str]:
    words = [f"{name}:={json.dumps(value)}" for name, value in arguments.items()]
    return [word.replace("{demo}", demo) for word in words]


@pytest.mark.parametrize("name", CASES)
def test_a_tool_of_every_kind_is_explained_and_called(name: str, run: Run, demo: str) -> None:
    case = CASES[name]
    if case.before:
        assert run(*case.before).returncode == 0
    words = [name, *given(case.arguments, demo), "--profile", case.profile, "--json"]
    explained = run("explain", *words)
    assert explained.returncode == 0, explained.stderr
    assert json.loads(explained.stdout)["verdict"] == "allow"

    called = run("call", *words)
    assert called.returncode == 0, called.stdout + called.stderr
    output = json.loads(called.stdout)["output"]
    if isinstance(case.output, dict):
        output = {key: output[key] for key in case.output}
    assert output == case.output


@pytest.mark.parametrize("name", ASKED)
def test_a_person_is_asked_and_the_call_runs_afterwards(name: str, run: Run) -> None:
    assert run(*MEMO).returncode == 0
    words = [name, *given(ASKED[name], ""), "--profile", "releaser", "--json"]
    explained = run("explain", *words)
    assert explained.returncode == 0, explained.stderr
    assert json.loads(explained.stdout)["verdict"] == "ask"
    assert run("call", *words, "--wait", "50ms").returncode == 4
    (asked,) = json.loads(run("approvals", "--json").stdout)
    assert run("approvals", "allow", asked["id"]).returncode == 0
    called = run("call", *words)
    assert called.returncode == 0, called.stderr
    assert json.loads(called.stdout)["status"] == "ok"


def test_every_tool_and_every_kind_is_called(run: Run) -> None:
    found = json.loads(run("explain", "--all", "--json").stdout)
    assert {row["tool"] for row in found} == {*CASES, *ASKED}
    listed = json.loads(run("tools", "--profile", "releaser", "--json").stdout)
    kinds = {"python", "process", "shell", "http", "openapi", "storage", "letter"}
    assert {tool["kind"] for tool in listed} == kinds
    broad = {"git", "files", "shell", "fetch", "sql", "python_code"}
    assert broad <= {tool["name"] for tool in listed}


def test_the_commands_that_look_at_the_whole_are_content(run: Run) -> None:
    for words in (
        *("config check", "config show", "config fmt --check", "tools", "tools check"),
        *("providers", "plugins", "doctor", "policy verify"),
    ):
        done = run(*words.split())
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    states = {
        p["name"]: (p["state"], p["tools"]) for p in json.loads(run("providers", "--json").stdout)
    }
    assert states == {"supplier": ("up", 3), "memo": ("up", 5)}


def test_the_plugin_says_where_it_comes_from(run: Run) -> None:
    (found,) = json.loads(run("plugins", "--json").stdout)
    assert (found["name"], found["problem"]) == ("plugin.py", None)
    assert found["source"].startswith("toolcrib.yaml:")
    assert found["offers"] == ["executor letter", "exporter denial-file", "policy office-hours"]
    assert found["used"] == ["executor letter"]
    assert "toolcrib.yaml:" in run("plugins").stdout


def test_a_refusal_of_every_kind_of_policy_is_explained(run: Run) -> None:
    done = run("policy", "test", "policy-table.yaml")
    assert done.returncode == 0, done.stdout
    denied = run("call", "git", "action=commit", "message=x")
    assert denied.returncode == 3
    assert "action_not_allowed" in denied.stderr
    assert "profiles/reader.yml:7" in denied.stderr


async def test_the_generator_says_how_far_it_is(project: Path) -> None:
    host = ToolHost.from_config(project / "toolcrib.yaml")
    recorder = EventRecorder(host)
    async with host:
        assert (await host.call("restock", profile="fixer")).output == 3
    said = [event.data for event in recorder.only("call.progress")]
    assert [step["message"] for step in said] == ["bolt: 40", "nut: 75", "washer: 300"]
    assert [step["fraction"] for step in said] == pytest.approx([1 / 3, 2 / 3, 1])


class Wider(NamedTuple):
    """A change of one profile, and the call that it must not make possible."""

    profile: str
    changes: dict[str, str]
    tool: str
    breaks: str


READS = "a profile of trust 1 only reads"
READ = "- allow: {effects: [read]}"
WIDER = {
    "a reader with another effect": Wider(
        "reader", {READ: "- allow: {effects: [read, write]}"}, "restock", READS
    ),
    "a reader with code": Wider("reader", {READ: f"{READ}\n  - allow: shell"}, "shell", READS),
    "a reader with questions": Wider("reader", {READ: f"{READ}\n  - ask: order"}, "order", READS),
    "a reader who writes notes": Wider(
        "reader", {READ: f"{READ}\n  - allow: files", "stat]": "stat, write]"}, "files", READS
    ),
    "a reader who writes tables": Wider(
        "sql", {"read_only: true": "read_only: false"}, "sql", READS
    ),
    "a fixer who pushes": Wider(
        "fixer",
        {
            "- ask: order": "- allow: git\n  - ask: order",
            "add, commit]": "add, commit, push]\n    allow_push: true",
        },
        "git",
        "nothing is pushed below trust 6",
    ),
    "a fixer who deletes": Wider(
        "fixer",
        {"- ask: order": "- ask: [order, memo-delete]"},
        "memo-delete",
        "nothing is destroyed below trust 6",
    ),
    "a releaser who deletes unasked": Wider(
        "releaser",
        {"in: [delete]": "in: [move]"},
        "files",
        "no note is deleted unless a person agrees",
    ),
    "a releaser who pushes main": Wider(
        "releaser",
        {
            "allow_push: true": "allow_push: true\n    managed_branch_prefix: ''"
            "\n    protected_branches: []"
        },
        "git",
        "main is nobody's to push",
    ),
}


@pytest.mark.parametrize("name", WIDER)
def test_a_wider_profile_is_found_with_a_call_that_shows_it(
    name: str, run: Run, project: Path
) -> None:
    profile, changes, tool, breaks = WIDER[name]
    path = project / "profiles" / f"{profile}.yml"
    text = path.read_text(encoding="utf-8")
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")
    done = run("policy", "verify", "--json")
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)["findings"]
    found = {(f["invariant"], f["tool"]): f for f in findings if f["profile"] == profile}
    shown = found[breaks, tool]
    assert shown["certainty"] == "confirmed"
    assert shown["arguments"] is not None


def test_a_wider_policy_under_a_rule_on_effects_widens_nothing(run: Run, project: Path) -> None:
    path = project / "profiles" / "reader.yml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("stat]", "stat, write]"), encoding="utf-8")
    assert run("policy", "verify").returncode == 0
    refused = run("call", "files", "action=read", "path=todo.txt")
    assert (refused.returncode, "not_in_profile" in refused.stderr) == (3, True)
