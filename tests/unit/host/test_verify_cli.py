"""`toolcrib policy verify` and `toolcrib policy test`, as they are typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import toolcrib
from toolcrib.cli.main import main

TOOLS = """\
from toolcrib import tool


@tool(effects=["read"])
def read(path: str) -> str:
    return path


@tool(effects=["destructive"])
def wipe(path: str) -> str:
    return path
"""
CONFIG = """\
tools:
  - python: tools.py
profiles:
  reader:
    trust: 1
    rules:
      - allow: read
      - allow: wipe
        when: {roles: [boss], arguments: {path: {glob: "tmp/*"}}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "toolcrib.yaml").write_text(CONFIG)
    (tmp_path / "policy.yaml").write_text("never:\n  trust_max: 1\n  effects: [destructive]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(args)
    return int(ended.value.code or 0)


def test_a_finding_is_printed_with_its_call_and_places(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _run("policy", "verify") == 1
    out, err = capfd.readouterr()
    assert out == (
        'toolcrib.yaml:8: profile reader (trust 1) can call wipe {"path":"tmp/x"}\n'
        "    kind    never, confirmed\n"
        "    caller  anyone with role boss\n"
        "    rule    allow wipe when roles boss and path glob tmp/*\n"
        "    breaks  never trust_max 1; effects destructive (policy.yaml:2)\n"
    )
    assert err == "1 finding: 1 invariant, 1 profile, 2 tools, 1 decision asked.\n"


def test_nothing_found(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "other.yaml").write_text("never: {trust_max: 0, effects: [destructive]}\n")
    assert _run("policy", "verify", "other.yaml") == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("No findings: 1 invariant")


def test_json_alone_on_standard_output(project: Path) -> None:
    (project / "tools.py").write_text(TOOLS + "\nprint('loaded')\n")
    command = [sys.executable, "-m", "toolcrib", "policy", "verify", "--json"]
    sources = str(Path(toolcrib.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": sources}
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=60
    )
    assert ended.returncode == 1
    report = json.loads(ended.stdout)
    assert report["ok"] is False
    (finding,) = report["findings"]
    assert finding["arguments"] == {"path": "tmp/x"}
    assert finding["source"] == "toolcrib.yaml:8"


def test_without_invariants_only_rules_are_checked(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "policy.yaml").unlink()
    assert _run("policy", "verify") == 0
    assert "no policy.yaml beside the configuration" in capfd.readouterr().err


def test_bad_input_ends_with_two(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _run("policy", "verify", "gone.yaml") == 2
    assert "gone.yaml cannot be read: no such file or directory" in capfd.readouterr().err
    (project / "bad.yaml").write_text("- {tol: read, expect: deny}\n- {tool: read}\n")
    assert _run("policy", "test", "bad.yaml") == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err == (
        "bad.yaml:1:4: table[0] has no setting 'tol'. Did you mean tool?\n"
        "bad.yaml:2:3: table[1] has no expect. "
        "Write {profile, tool, arguments, expect: allow, ask or deny}\n"
    )


def test_a_table_of_policy_tests(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table = project / "tests.yaml"
    table.write_text("- {tool: read, arguments: {path: a}, expect: allow}\n")
    assert _run("policy", "test", "tests.yaml") == 0
    assert capfd.readouterr() == ("", "1 of 1 row came true.\n")
    table.write_text("- {tool: read, arguments: {path: a}, expect: deny}\n")
    assert _run("policy", "test", "tests.yaml") == 1
    out, err = capfd.readouterr()
    assert out == (
        'tests.yaml:1: under reader read {"path":"a"} as local: expected deny, got allow\n'
        "    rule    allow read (toolcrib.yaml:7)\n"
    )
    assert err == "0 of 1 row came true.\n"
    assert _run("policy", "test", "tests.yaml", "--json") == 1
    assert json.loads(capfd.readouterr().out)["failures"][0]["got"] == "allow"
