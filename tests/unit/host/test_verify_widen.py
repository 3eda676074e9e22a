"""What is allowed now and was not before is found, with a call that shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from toolcrib import ConfigError, Principal, ToolHost, ToolPolicy, tool
from toolcrib.host.verify import Finding, verify


class CountPolicy(ToolPolicy):
    """How many at once."""

    most: int = 5
    allowed_actions: list[str] = ["get"]  # noqa: RUF012 - as policies are written

    def check(self, ctx: Any) -> Any:
        if ctx.arguments["count"] > self.most:
            return self.deny("too_many_files")
        if ctx.arguments["action"] not in self.allowed_actions:
            return self.deny("action_not_allowed")
        return None


@tool(effects=["read"])
def read(path: str) -> str:
    return path


@tool(effects=["write"])
def write(path: str, size: int = 0) -> str:
    return path


@tool(effects=["read"], policy=CountPolicy)
def batch(action: Literal["get", "put"], count: int = 1) -> str:
    return action


TOOLS = [read, write, batch]

WORK = {"path": {"path_under": "/srv"}}
OLD: dict[str, Any] = {
    "rules": [
        {"allow": "read"},
        {"allow": "write", "when": {"arguments": {**WORK, "size": {"max": 10}}}},
        {"deny": "write", "when": {"roles": ["guest"]}},
        {"allow": "batch"},
    ]
}


def _rules(*changes: tuple[int, Any]) -> dict[str, Any]:
    rules = list(OLD["rules"])
    for index, rule in changes:
        rules[index] = rule
    return {"rules": [rule for rule in rules if rule is not None]}


def _compare(
    old: dict[str, Any], new: dict[str, Any], folder: Path, tools: Any = TOOLS, **more: Any
) -> list[Finding]:
    (folder / "old.json").write_text(json.dumps({"profiles": {"one": old}}))
    host = ToolHost(tools, config={"profiles": {"one": new}})
    demand = {"file": str(folder / "old.json"), **more}
    report = verify(host, {"never_widen": demand})
    return [finding for finding in report.findings if finding.kind == "widened"]


def test_the_same_and_less_are_not_wider(tmp_path: Path) -> None:
    assert _compare(OLD, OLD, tmp_path) == []
    assert _compare(OLD, {"rules": [{"allow": "read"}]}, tmp_path) == []
    narrow = _rules((1, {"allow": "write", "when": {"arguments": {**WORK, "size": {"max": 9}}}}))
    assert _compare(OLD, narrow, tmp_path) == []
    # Said otherwise, and meaning the same.
    both = [
        {"allow": "write", "when": {"arguments": {**WORK, "size": size}}}
        for size in ({"max": 5}, {"min": 6, "max": 10})
    ]
    same = {"rules": [OLD["rules"][0], *both, *OLD["rules"][2:]]}
    assert _compare(OLD, same, tmp_path) == []


@pytest.mark.parametrize(
    ("new", "name", "shows"),
    [
        (
            _rules((1, {"allow": "write", "when": {"arguments": {**WORK, "size": {"max": 11}}}})),
            "write",
            lambda a: a["size"] == 11,
        ),
        (
            _rules((1, {"allow": "write", "when": {"arguments": {"size": {"max": 10}}}})),
            "write",
            lambda a: not a["path"].startswith("/srv"),
        ),
        (
            _rules((1, {"allow": "write", "when": {"arguments": {
                "path": {"path_under": "/"}, "size": {"max": 10}}}})),
            "write",
            lambda a: not a["path"].startswith("/srv"),
        ),
        (_rules((1, {"allow": "write"})), "write", lambda a: True),
        ({**_rules((3, {"allow": "batch"})), "policies": {"batch": {"most": 6}}},
         "batch", lambda a: a["count"] == 6),
        ({**OLD, "policies": {"batch": {"allowed_actions": ["put"]}}},
         "batch", lambda a: a["action"] == "put"),
    ],
)  # fmt: skip
def test_a_wider_profile_is_found(
    new: dict[str, Any], name: str, shows: Any, tmp_path: Path
) -> None:
    (found,) = _compare(OLD, new, tmp_path)
    assert (found.profile, found.tool, found.certainty) == ("one", name, "confirmed")
    assert found.arguments is not None
    assert shows(found.arguments)
    who = Principal(str(found.principal), found.roles, found.permissions)
    verdicts = [
        ToolHost(TOOLS, config={"profiles": {"one": profile}})
        .explain(name, found.arguments, principal=who)
        .verdict
        for profile in (OLD, new)
    ]
    assert verdicts == ["deny", "allow"]


def test_a_dropped_denial_is_found_for_those_it_denied(tmp_path: Path) -> None:
    (found,) = _compare(OLD, _rules((2, None)), tmp_path)
    assert (found.tool, found.roles) == ("write", ("guest",))
    assert "before it was deny (denied_by_rule)" in found.sentence


def test_a_new_tool_that_is_allowed_is_wider(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "from toolcrib import tool\n\n@tool\ndef extra() -> int:\n    return 1\n"
    )
    profile = {"rules": [{"allow": "*"}]}
    old = tmp_path / "old.json"
    old.write_text(json.dumps({"profiles": {"one": profile}}))
    new = tmp_path / "new.json"
    new.write_text(json.dumps({"tools": [{"python": "a.py"}], "profiles": {"one": profile}}))
    report = verify(new, {"never_widen": str(old)})
    assert [(f.kind, f.tool) for f in report.findings] == [("widened", "extra")]


def test_asking_counts_only_when_demanded(tmp_path: Path) -> None:
    asks = _rules((1, {"ask": "write"}))
    assert _compare(OLD, asks, tmp_path) == []
    (found,) = _compare(OLD, asks, tmp_path, ask="also")
    assert (found.tool, found.verdict) == ("write", "ask")
    allows = {"rules": [{"allow": "read"}]}
    (found,) = _compare({"rules": [{"ask": "read"}]}, allows, tmp_path)
    assert (found.tool, found.verdict) == ("read", "allow")


def test_profiles_of_other_names_are_mentioned(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps({"profiles": {"other": OLD}}))
    host = ToolHost(TOOLS, config={"profiles": {"one": OLD}})
    report = verify(host, {"never_widen": str(tmp_path / "old.json")})
    assert report.ok
    assert report.notes == ("old.json has no profile one: not compared",)


def test_a_file_that_cannot_be_read_is_a_mistake_with_a_place(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("never: {tools: write}\nnever_widen: gone.yaml\n")
    host = ToolHost(TOOLS, config={"profiles": {"one": {}}})
    with pytest.raises(ConfigError) as caught:
        verify(host, policy)
    assert caught.value.line == 2
    assert "gone.yaml does not exist" in str(caught.value)
