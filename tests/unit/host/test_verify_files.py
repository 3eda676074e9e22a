"""Invariants and tables as files: what they can say, and what is told of their mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib import ConfigError, ToolHost, ToolPolicy, tool
from toolcrib.host.verify import read_invariants, read_table, run_table, verify


class PathPolicy(ToolPolicy):
    """Where to."""

    root: str = "/srv"

    def check(self, ctx: Any) -> Any:
        if not ctx.arguments["path"].startswith(self.root):
            return self.deny("path_outside_root")
        return None


@tool(effects=["read"])
def read(path: str) -> str:
    return path


@tool(effects=["write"], policy=PathPolicy, permissions=["files"])
def write(path: str) -> str:
    return path


@tool(effects=["destructive"])
def wipe(path: str) -> str:
    return path


ASKED = {"ask": "wipe", "when": {"roles": ["op"]}}
PROFILES = {
    "reader": {"trust": 1, "rules": [{"allow": "read"}, ASKED]},
    "writer": {"trust": 2, "rules": [{"allow": ["read", "write"]}]},
}


@pytest.fixture
def host() -> ToolHost:
    principals = {"ci": {"roles": ["op"], "permissions": ["files"]}}
    config = {"profiles": PROFILES, "principals": principals}
    return ToolHost([read, write, wipe], config=config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nevr: []", "f.yaml:1:1: the file has no setting 'nevr'. Did you mean never?"),
        (
            "never:\n  - {trust_mx: 1, tools: x}",
            "f.yaml:2:6: never[0] has no setting 'trust_mx'. Did you mean trust_max?",
        ),
        ("never: {trust_max: 1}", "f.yaml:1:8: never forbids nothing in particular. Say which"),
        ("never: {effects: [wirte]}", "Did you mean write?"),
        ("never: {tools: x, ask: maybe}", "f.yaml:1:24: never.ask must be one of no, also"),
        ("never: {arguments: {a: {starts: x}}}", "never.arguments.a has no setting 'starts'"),
        ("never: {arguments: {a: {regex: '('}}}", "cannot be used as a regular expression"),
        ("never_widen: {ask: also}", "never_widen names no file"),
        ("never: [a", "f.yaml:1:8: a bracket or brace is opened here"),
        ("- a", "the file must be a mapping with never or never_widen"),
        ("", "f.yaml is empty"),
    ],
)
def test_mistakes_in_invariants(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_invariants(tmp_path / "f.yaml")
    assert message in str(caught.value)


def test_invariants_in_both_spellings(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("never: {tools: a}\nnever_widen: old.yaml\n")
    one = read_invariants(file)
    assert one.never[0].tools == ("a",)
    assert one.never[0].source == f"{file}:1"
    assert one.never_widen[0].file == tmp_path / "old.yaml"
    file.write_text("never: [{tools: a}, {tools: [b, c]}]\nnever_widen: [{file: a}, b]\n")
    two = read_invariants(file)
    assert [never.tools for never in two.never] == [("a",), ("b", "c")]
    assert [widen.file.name for widen in two.never_widen] == ["a", "b"]


@pytest.mark.parametrize(
    ("never", "found"),
    [
        ({"trust_max": 1, "effects": ["write", "destructive"]}, set()),
        ({"trust_max": 1, "effects": ["destructive"], "ask": "also"}, {("reader", "wipe")}),
        ({"tools": "wipe", "ask": "also", "roles": []}, set()),
        ({"tools": "wipe", "ask": "also", "roles": ["op"]}, {("reader", "wipe")}),
        ({"tools": "wipe", "ask": "also", "principals": "ci"}, {("reader", "wipe")}),
        ({"tools": "wipe", "ask": "also", "principals": "eve"}, set()),
        ({"tools": "write", "principals": ["eve"]}, set()),
        ({"tools": "write", "principals": ["ci"]}, {("writer", "write")}),
        ({"profiles": "w*", "tools": "*"}, {("writer", "read"), ("writer", "write")}),
        ({"profiles": "w*", "tools": "*", "except": "write"}, {("writer", "read")}),
        ({"tools": "write", "arguments": {"path": {"path_under": "/etc"}}}, set()),
        ({"tools": "write", "arguments": {"path": {"prefix": "/srv/"}}}, {("writer", "write")}),
    ],
)
def test_what_an_invariant_is_about(
    never: dict[str, Any], found: set[tuple[str, str]], host: ToolHost
) -> None:
    report = verify(host, {"never": never})
    assert {(f.profile, f.tool) for f in report.findings} == found


async def test_a_limit_that_is_used_up_hides_nothing() -> None:
    limits = {"budget": 1, "per": "profile"}
    profile = {"rules": [{"allow": "wipe"}], "limits": limits}
    async with ToolHost([wipe], config={"profiles": {"one": profile}}) as host:
        assert (await host.call("wipe", {"path": "a"})).success
        assert host.explain("wipe", {"path": "a"}).reason == "quota_exceeded"
        report = verify(host, {"never": {"tools": "wipe"}})
        assert [f.tool for f in report.findings] == ["wipe"]


def test_secrets_do_not_stand_in_a_counter_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOOR_CODE", "open-sesame-123")
    file = tmp_path / "toolcrib.yaml"
    file.write_text(
        "profiles:\n  one:\n    rules:\n"
        "      - {allow: read, when: {arguments: {path: {in: ['${DOOR_CODE}']}}}}\n"
    )
    report = verify(ToolHost([read], config=file), {"never": {"tools": "read"}})
    assert [f.tool for f in report.findings] == ["read"]
    assert "open-sesame-123" not in str(report.to_dict())


TABLE = """\
- {profile: reader, tool: read, arguments: {path: a}, expect: allow}
- {profile: reader, tool: wipe, arguments: {path: a}, expect: deny, reason: not_in_profile}
- {profile: reader, tool: wipe, arguments: {path: a}, principal: ci, expect: ask}
- {profile: reader, tool: wipe, arguments: {path: a}, roles: [op], expect: ask}
- {profile: writer, tool: write, arguments: {path: /srv/a}, permissions: [files], expect: allow}
- profile: writer
  tool: write
  arguments: {path: /etc/a}
  principal: ci
  expect: deny
  reason: path_outside_root
- {profile: writer, tool: wipe, arguments: {path: a}, expect: deny, reason: not_in_profile}
- {profile: reader, tool: read, expect: deny, reason: invalid_arguments}
- {profile: reader, tool: gone, expect: deny, reason: unknown_tool}
"""


def test_a_table_that_comes_true(host: ToolHost, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TABLE)
    report = run_table(host, tmp_path / "t.yaml")
    assert report.failures == ()
    assert (report.ok, report.rows) == (True, 9)


def test_failures_say_what_was_expected_what_came_and_why(host: ToolHost, tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(
        "- {profile: reader, tool: read, arguments: {path: a}, expect: deny}\n"
        "- {profile: reader, tool: wipe, arguments: {path: a}, expect: deny, reason: other_one}\n"
    )
    report = run_table(host, file)
    first, second = report.failures
    assert (first.expected, first.got, first.rule) == ("deny", "allow", "allow read")
    assert first.source == f"{file}:1"
    assert (second.got_reason, second.expected_reason) == ("not_in_profile", "other_one")
    assert 'wipe {"path":"a"} as local: expected deny (other_one), got deny (not_in_profile)' in (
        second.sentence
    )
    assert report.to_dict()["ok"] is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {tol: read, expect: deny}", "f.yaml:1:4: table[0] has no setting 'tol'. Did you mean"),
        ("- {tool: read}", "f.yaml:1:3: table[0] has no expect"),
        ("- {tool: read, expect: dany}", "f.yaml:1:24: table[0].expect must be one of allow, ask"),
        ("- {tool: read, expect: ask, reason: x}", "table[0] expects ask and a reason"),
        ("- {tool: raed, expect: deny}", "f.yaml:1: there is no tool 'raed'. Did you mean read?"),
        (
            "- {tool: read, profile: raeder, expect: deny}",
            "f.yaml:1: there is no profile 'raeder'. Did you mean reader?",
        ),
        ("tool: read", "table must be a list"),
        ("[]", "table is an empty list"),
    ],
)
def test_mistakes_in_tables(text: str, message: str, host: ToolHost, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        run_table(host, tmp_path / "f.yaml")
    assert message in str(caught.value)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("- {tol: a}\n- {tool: b, expect: c}\n")
    with pytest.raises(ConfigError) as caught:
        read_table(tmp_path / "f.yaml")
    assert [mistake.line for mistake in caught.value.all()] == [1, 2]


def test_tables_can_be_given_as_data(host: ToolHost) -> None:
    row = {"profile": "reader", "tool": "read", "arguments": {"path": "a"}, "expect": "allow"}
    assert run_table(host, [row]).ok
