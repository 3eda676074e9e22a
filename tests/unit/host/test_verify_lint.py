"""Rules that do nothing and knobs that contradict each other are told, and only those."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from toolcrib import ToolHost, ToolPolicy, tool
from toolcrib.host.verify import verify


class PushPolicy(ToolPolicy):
    """Two knobs that have to go together."""

    allowed_actions: list[str] = ["status"]  # noqa: RUF012 - as policies are written
    allow_push: bool = False

    @classmethod
    def contradictions(cls, knobs: dict[str, Any]) -> list[str]:
        if knobs["allow_push"] and "push" not in knobs["allowed_actions"]:
            return ["allow_push without push in allowed_actions"]
        return []


class BrokenPolicy(ToolPolicy):
    """Whose self-check fails."""

    @classmethod
    def contradictions(cls, knobs: dict[str, Any]) -> list[str]:
        raise KeyError("nothing")


@tool(effects=["read"])
def read(path: str) -> str:
    return path


@tool(effects=["write"], tags=["slow"])
def write(path: str, mode: Literal["new", "append"] = "new") -> str:
    return path


@tool(effects=["destructive"])
def wipe(path: str) -> str:
    return path


@tool(effects=["read"], policy=PushPolicy)
def git(action: Literal["status", "push"]) -> str:
    return action


TOOLS = [read, write, wipe, git]


def _found(profiles: dict[str, Any], **more: Any) -> list[tuple[str, str | None, str]]:
    host = ToolHost(TOOLS, config={"profiles": profiles, **more})
    return [(f.kind, f.tool, f.sentence) for f in verify(host).findings]


def _of(*rules: dict[str, Any], **settings: Any) -> list[tuple[str, str | None, str]]:
    return _found({"one": {"rules": list(rules), **settings}})


@pytest.mark.parametrize(
    ("rules", "kind", "named", "because"),
    [
        ([{"allow": "reed*"}], "unmatched", None, "no tool is called reed*; did you mean read?"),
        ([{"deny": ["wipe", "wip_*"]}], "unmatched", None, "no tool is called wip_*"),
        ([{"allow": {"tags": ["quick"]}}], "unmatched", None, "it matches no tool"),
        ([{"deny": {"tags": ["quick"]}}], "unmatched", None, "it matches no tool"),
        (
            [{"allow": "wipe"}, {"deny": {"effects": ["destructive"]}}],
            "shadowed", None, "'deny effects destructive' at config always wins",
        ),
        (
            [{"allow": ["read", "wipe"]}, {"deny": "wipe"}],
            "shadowed", "wipe", "'deny wipe' at config always wins",
        ),
        (
            [{"allow": "write", "when": {"arguments": {"mode": {"in": ["append"]}}}},
             {"deny": "write", "when": {"arguments": {"mode": {"prefix": "a"}}}}],
            "shadowed", None, "always wins",
        ),
        (
            [{"allow": "write", "when": {"roles": ["a"]}},
             {"deny": "write", "when": {"roles": ["a", "b"]}}],
            "shadowed", None, "always wins",
        ),
        ([{"allow": "read"}, {"ask": "read"}], "shadowed", None, "'ask read' at config always"),
        (
            [{"allow": "write", "when": {"arguments": {"mode": {"in": ["a"], "not_in": ["a"]}}}}],
            "never_holds", None, "no value of mode that write takes meets in and not_in",
        ),
        (
            [{"deny": "write", "when": {"arguments": {"mode": {"glob": "del*"}}}}],
            "never_holds", None, "no value of mode that write takes meets glob",
        ),
        (
            [{"allow": ["read", "git"], "when": {"arguments": {"path": {"prefix": "/srv"}}}}],
            "never_holds", "git", "git has no argument path",
        ),
        (
            [{"allow": "read"}, {"allow": "read", "when": {"roles": ["boss"]}}],
            "redundant", None, "'allow read' at config allows it anyway",
        ),
        ([{"allow": ["read"]}, {"allow": "*"}], "redundant", None, "'allow *' at config allows it"),
    ],
)  # fmt: skip
def test_a_rule_that_does_nothing_is_told(
    rules: list[dict[str, Any]], kind: str, named: str | None, because: str
) -> None:
    (found,) = _of(*rules)
    assert found[:2] == (kind, named)
    assert because in found[2]


@pytest.mark.parametrize(
    "rules",
    [
        [{"allow": "*"}, {"deny": {"effects": ["egress"]}}],
        [{"allow": "read"}, {"deny": {"effects": ["destructive"]}}],
        [{"allow": "write"}, {"deny": "write", "when": {"roles": ["guest"]}}],
        [{"allow": "write", "when": {"roles": ["a", "b"]}},
         {"deny": "write", "when": {"roles": ["a"]}}],
        [{"allow": ["read", "git"]}, {"allow": ["read", "write"]}],
        [{"allow": "read", "when": {"roles": ["a"]}}, {"allow": "read", "when": {"roles": ["b"]}}],
        [{"allow": "wi*"}, {"ask": {"tags": ["slow"]}}],
    ],
)  # fmt: skip
def test_a_rule_that_does_something_is_not_told(rules: list[dict[str, Any]]) -> None:
    assert _of(*rules) == []


def test_a_default_of_allow_makes_allowing_idle() -> None:
    (found,) = _of({"allow": "read"}, default="allow")
    assert found[0] == "redundant"


def test_an_inherited_rule_must_do_something_somewhere() -> None:
    base = {"rules": [{"allow": "read"}]}
    assert _found({"base": base, "strict": {"extends": "base", "rules": [{"deny": "read"}]}}) == []
    (found,) = _found({"base": base, "child": {"extends": "base", "rules": [{"allow": "read"}]}})
    assert found[0] == "redundant"
    assert "profile child" in found[2]


def test_a_principal_that_may_not_use_the_profile() -> None:
    rule = {"allow": "read", "when": {"principals": ["ci"]}}
    profiles = {"one": {"rules": [rule]}, "two": {"rules": [{"allow": "read"}]}}
    (found,) = _found(profiles, principals={"ci": {"profiles": ["two"]}})
    assert found[0] == "never_holds"
    assert "ci may not use this profile" in found[2]


def test_knobs_that_contradict_each_other() -> None:
    knobs = {"git": {"allow_push": True}}
    profiles = {
        "good": {"rules": [{"allow": "git"}]},
        "bad": {"rules": [{"allow": "git"}], "policies": knobs},
    }
    (found,) = verify(ToolHost(TOOLS, config={"profiles": profiles})).findings
    assert (found.kind, found.profile, found.tool) == ("contradiction", "bad", "git")
    assert "allow_push without push in allowed_actions" in found.sentence


def test_an_action_that_the_tool_does_not_have() -> None:
    knobs = {"git": {"allowed_actions": ["status", "pusch"]}}
    (found,) = _of({"allow": "git"}, policies=knobs)
    assert found[0] == "contradiction"
    assert "'pusch', which the tool does not have; did you mean push?" in found[2]


def test_knobs_of_the_tool_itself_are_told_once() -> None:
    @tool(name="git", policy=PushPolicy(allow_push=True))
    def pushing(action: Literal["status", "push"]) -> str:
        return action

    profiles = {name: {"rules": [{"allow": "git"}]} for name in ("a", "b")}
    (found,) = verify(ToolHost([pushing], config={"profiles": profiles})).findings
    assert (found.kind, found.profile, found.tool) == ("contradiction", None, "git")


def test_a_self_check_that_fails_is_told() -> None:
    @tool(policy=BrokenPolicy)
    def odd() -> None: ...

    host = ToolHost([odd], config={"profiles": {"one": {"rules": [{"allow": "odd"}]}}})
    (found,) = verify(host).findings
    assert "contradictions() failed with KeyError" in found.sentence


def test_source_is_the_line_of_the_rule(tmp_path: Path) -> None:
    file = tmp_path / "toolcrib.yaml"
    file.write_text("profiles:\n  one:\n    rules:\n      - allow: read\n      - allow: wri_*\n")
    (found,) = verify(ToolHost(TOOLS, config=file)).findings
    assert found.source == "toolcrib.yaml:5"


def test_a_host_without_profiles_allows_everything() -> None:
    report = verify(ToolHost(TOOLS), {"never": {"tools": "wipe"}})
    (found,) = report.findings
    assert (found.kind, found.tool, found.profile) == ("never", "wipe", "(no profile)")
    assert "there are no profiles" in report.notes[0]
