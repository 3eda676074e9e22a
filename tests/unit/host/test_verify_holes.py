"""Every planted hole is found, with its profile, its tool and a call that goes through it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from toolcrib import Principal, ToolHost, ToolPolicy, ToolSpec, tool
from toolcrib.host.verify import verify

Config = dict[str, Any]


class GitPolicy(ToolPolicy):
    """Which actions, and where to."""

    allowed_actions: list[str] = ["status", "diff", "log"]  # noqa: RUF012 - as policies are written
    managed_prefix: str = "agent/"

    def check(self, ctx: Any) -> Any:
        action, branch = ctx.arguments["action"], ctx.arguments.get("branch") or ""
        if action not in self.allowed_actions:
            return self.deny("action_not_allowed")
        if action == "push" and not branch.startswith(self.managed_prefix):
            return self.deny("branch_prefix_required")
        return None


@tool(effects=["read"])
def read(path: str) -> str:
    return path


@tool(effects=["read"], tags=["slow"])
def search(query: str, limit: int = 10) -> str:
    return query


@tool(effects=["write"])
def write(path: str, text: str = "") -> str:
    return path


@tool(effects=["destructive"])
def wipe(path: str, force: bool = False) -> str:
    return path


@tool(effects=["read", "write", "egress"], policy=GitPolicy)
def git(action: Literal["status", "diff", "log", "commit", "push"], branch: str = "") -> str:
    return action


@tool(effects=["read"], category="code")
def repo(
    action: Literal["status", "log", "commit", "push"], branch: str = "", force: bool = False
) -> str:
    return action


@tool(effects=["egress"])
def deploy(env: str, ref: str) -> str:
    return env


@tool(effects=["write"])
def transfer(amount: float, notes: list[str] | None = None) -> str:
    return str(amount)


@tool(effects=["egress"])
def fetch(url: str) -> str:
    return url


@tool(effects=["execute"], requires_approval=True)
def shell(command: str) -> str:
    return command


@tool(effects=["write"], permissions=["files.write"])
def save(path: str) -> str:
    return path


TOOLS = [read, search, write, wipe, git, repo, deploy, transfer, fetch, shell, save]

BASE: Config = {
    "profiles": {
        "base": {"trust": 1, "rules": [{"deny": {"effects": ["destructive"]}}]},
        "guest": {"trust": 0, "rules": [{"allow": ["read"]}]},
        "reader": {
            "extends": "base",
            "trust": 1,
            "rules": [{"allow": ["search", "git"]}],
            "policies": {"git": {"allowed_actions": ["status", "log"]}},
        },
        "intern": {
            "extends": "reader",
            "trust": 0,
            "rules": [
                {"allow": "repo"},
                {"deny": "repo", "when": {"arguments": {"action": {"in": ["commit", "push"]}}}},
            ],
        },
        "builder": {
            "extends": "base",
            "trust": 2,
            "rules": [
                {"allow": "write", "when": {"arguments": {"path": {"path_under": "/srv"}}}},
                {"allow": "repo", "when": {"arguments": {"action": {"in": ["status", "log"]}}}},
                {"allow": "shell"},
                {"allow": "git"},
            ],
        },
        "release": {
            "extends": "base",
            "trust": 3,
            "rules": [
                {
                    "allow": "deploy",
                    "when": {
                        "roles": ["releaser"],
                        "arguments": {"env": {"in": ["staging"]}, "ref": {"glob": "release/*"}},
                    },
                },
                {
                    "allow": "fetch",
                    "when": {"arguments": {"url": {"host_in": ["api.example.org"]}}},
                },
                {
                    "allow": "transfer",
                    "when": {"arguments": {"amount": {"min": 0, "max": 100}}},
                },
                {"ask": "save"},
            ],
        },
    },
    "principals": {"root": {"profiles": ["release"]}},
}

INVARIANTS: Config = {
    "never": [
        {"trust_max": 1, "effects": ["write", "destructive", "egress", "execute"], "except": "git"},
        {"trust_max": 2, "tools": ["git", "repo"], "actions": ["commit", "push"]},
        {"profiles": "builder", "tools": "shell"},
        {"tools": "wipe", "ask": "also"},
        {"tools": "deploy", "arguments": {"env": {"in": ["production"]}}},
        {"tools": "deploy", "arguments": {"ref": {"prefix": ["main", "hotfix/"]}}},
        {"tools": "deploy", "roles": [], "effects": ["egress"]},
        {"tools": "transfer", "arguments": {"amount": {"min": 100.01}}},
        {"tools": "write", "arguments": {"path": {"path_under": ["/etc", "/root"]}}},
        {"tools": "fetch", "arguments": {"url": {"host_in": ["10.0.0.1", "*.internal"]}}},
        {"tools": "save"},
    ]
}


class Hole(NamedTuple):
    """A change to the base, where it must be found, and what its calls look like."""

    name: str
    plant: Callable[[Config], Any]
    found: set[tuple[str, str]]
    shows: Callable[[dict[str, Any]], bool] = lambda arguments: True
    tools: list[Any] = TOOLS


LOW = ("base", "guest", "reader", "intern")
"""Profiles that may not write, and with them..."""
BAD = ("write", "deploy", "transfer", "fetch")
"""...tools that a wildcard opens to all who are not asked and need no permission."""


def _rule(profile: str, rule: Config) -> Callable[[Config], None]:
    return lambda config: config["profiles"][profile].setdefault("rules", []).append(rule)


def _change(profile: str, **settings: Any) -> Callable[[Config], None]:
    return lambda config: config["profiles"][profile].update(settings)


def _when(profile: str, index: int, argument: str, constraint: Config) -> Callable[[Config], None]:
    def plant(config: Config) -> None:
        config["profiles"][profile]["rules"][index]["when"]["arguments"][argument] = constraint

    return plant


def _allow(profile: str, target: str, argument: str, constraint: Config) -> Callable[[Config], Any]:
    when = {"arguments": {argument: constraint}}
    return _rule(profile, {"allow": target, "when": when})


def _heirs(profile: str) -> list[str]:
    children = {"base": ["base", "reader", "intern"], "reader": ["reader", "intern"]}
    return children.get(profile, [profile])


def _is_bad(arguments: dict[str, Any]) -> bool:
    return arguments["action"] in ("commit", "push")


def _holes() -> list[Hole]:
    holes: list[Hole] = []
    add = holes.append
    # A tool, or many, simply allowed where trust is low; children inherit it.
    for profile in LOW:
        heirs = _heirs(profile)
        for name in BAD:
            found = {(heir, name) for heir in heirs}
            if profile == "base":
                # The trusted profiles extend it, too; invariants about arguments see them.
                found |= {("builder", name), ("release", name)}
            add(Hole(f"{profile} allows {name}", _rule(profile, {"allow": name}), found))
        if profile == "base":
            continue
        everything = {(heir, name) for heir in heirs for name in (*BAD, "repo", "save")}
        everything -= {("intern", "repo")}
        if profile == "guest":
            everything |= {("guest", "wipe")}
        add(Hole(f"{profile} allows *", _rule(profile, {"allow": "*"}), everything))
    add(Hole("glob", _rule("guest", {"allow": "wri*"}), {("guest", "write")}))
    add(Hole("question mark", _rule("guest", {"allow": "?etch"}), {("guest", "fetch")}))
    add(Hole("by effects", _rule("guest", {"allow": {"effects": ["read", "egress"]}}),
             {("guest", "deploy"), ("guest", "fetch"), ("guest", "repo")}))  # fmt: skip
    add(Hole("by category", _rule("guest", {"allow": {"category": "code"}}), {("guest", "repo")},
             _is_bad))  # fmt: skip
    # Inheritance and trust.
    add(Hole("extends the wrong one", _change("guest", extends="builder"), {("guest", "write")}))
    add(Hole("trust lowered", _change("builder", trust=1), {("builder", "write")}))
    add(Hole("trust lowered more", _change("release", trust=0),
             {("release", "deploy"), ("release", "fetch"), ("release", "transfer")}))  # fmt: skip
    add(Hole("deny dropped", lambda c: (c["profiles"]["base"].update(rules=[]),
                                        _rule("builder", {"allow": "w*"})(c)),
             {("builder", "write"), ("builder", "wipe")}))  # fmt: skip
    # Defaults.
    guest_all = {("guest", name) for name in (*BAD, "wipe", "repo", "save")}
    add(Hole("default allow", _change("guest", default="allow"), guest_all))
    add(Hole("default ask", _change("guest", default="ask"), {("guest", "wipe")}))
    add(Hole("default allow inherited", _change("reader", default="allow"),
             {(p, n) for p in ("reader", "intern") for n in (*BAD, "save")}
             | {("reader", "repo")}))  # fmt: skip
    # Conditions on the caller.
    for name, when in (
        ("role", {"roles": ["admin"]}),
        ("roles", {"roles": ["admin", "boss"]}),
        ("permission", {"permissions": ["p.a", "p.b"]}),
        ("principal", {"principals": ["eve"]}),
        ("role and permission", {"roles": ["admin"], "permissions": ["p.a"]}),
    ):
        for target in ("write", "fetch"):
            plant = _rule("guest", {"allow": target, "when": when})
            add(Hole(f"{name} may {target}", plant, {("guest", target)}))
    two = {"roles": ["admin", "boss"]}
    add(Hole("one of two roles is not denied",
             lambda c: (_rule("guest", {"allow": "write", "when": two})(c),
                        _rule("guest", {"deny": "write", "when": {"roles": ["admin"]}})(c)),
             {("guest", "write")}))  # fmt: skip
    add(Hole("role no longer needed",
             lambda c: c["profiles"]["release"]["rules"][0]["when"].pop("roles"),
             {("release", "deploy")}))  # fmt: skip
    add(
        Hole("permission given by the rule", _rule("guest", {"allow": "save"}), {("guest", "save")})
    )
    # Argument constraints that still contain the bad action.
    for constraint in (
        {"in": ["status", "push"]},
        {"not_in": ["commit"]},
        {"glob": "p*"},
        {"glob": "?????t"},
        {"prefix": "pu"},
        {"regex": "^(status|push)$"},
        {"regex": "us"},
        {"max_length": 4},
        {"not_in": ["commit"], "max_length": 5},
        {"regex": "^[a-p]"},
    ):
        name = f"repo action {json.dumps(constraint)}"
        add(Hole(name, _allow("guest", "repo", "action", constraint), {("guest", "repo")}, _is_bad))
    # Denials with a gap.
    for name, arguments in (
        ("forgets push", {"action": {"in": ["commit"]}}),
        ("only with force", {"action": {"in": ["commit", "push"]}, "force": {"in": [True]}}),
        ("only main", {"action": {"in": ["commit", "push"]}, "branch": {"prefix": "main"}}),
        ("only long branches", {"branch": {"regex": "^.{3,}$"}}),
        ("misspelt", {"action": {"in": ["comit", "pusch"]}}),
        ("glob too narrow", {"action": {"glob": "*mit"}}),
    ):
        plant = _change("intern", rules=[
            {"allow": "repo"}, {"deny": "repo", "when": {"arguments": arguments}}])  # fmt: skip
        add(Hole(f"deny {name}", plant, {("intern", "repo")}, _is_bad))
    add(Hole("deny only for a role", _change("intern", rules=[
        {"allow": "repo"}, {"deny": "repo", "when": {"roles": ["junior"]}}]),
        {("intern", "repo")}, _is_bad))  # fmt: skip
    add(Hole("deny glob misses", lambda c: (_change("base", rules=[{"deny": "wip_*"}])(c),
                                            _rule("builder", {"ask": "wipe"})(c)),
             {("builder", "wipe")}))  # fmt: skip
    # Knobs of a policy.
    for profile, actions, found in (
        ("reader", ["status", "commit"], {("reader", "git"), ("intern", "git")}),
        ("intern", ["push"], {("intern", "git")}),
        ("builder", ["status", "push"], {("builder", "git")}),
    ):
        knobs = {"git": {"allowed_actions": actions}}
        add(Hole(f"{profile} knobs {actions}", _change(profile, policies=knobs), found, _is_bad))
    far = {"git": {"allowed_actions": ["push"], "managed_prefix": "wip-"}}
    add(Hole("knob prefix", _change("builder", policies=far), {("builder", "git")},
             lambda a: a["branch"].startswith("wip-")))  # fmt: skip

    # Bounds, paths, hosts, refs.
    def dear(arguments: dict[str, Any]) -> bool:
        return arguments["amount"] > 100

    for constraint in ({"min": 0, "max": 1000}, {"min": 0}, {"min": 0, "max": 100.02},
                       {"in": [5, 500]}, {"not_in": [101]}):  # fmt: skip
        plant = _when("release", 2, "amount", constraint)
        add(Hole(f"amount {constraint}", plant, {("release", "transfer")}, dear))
    for constraint in ({"path_under": "/"}, {"path_under": ["/srv", "/etc/app"]},
                       {"path_under": "/srv/.."}, {"glob": "**"}, {"prefix": "/r"},
                       {"regex": "passwd$"}):  # fmt: skip
        plant = _when("builder", 0, "path", constraint)
        add(Hole(f"path {constraint}", plant, {("builder", "write")}))
    for constraint in ({"host_in": ["*.internal"]}, {"host_in": ["api.example.org", "10.0.0.1"]},
                       {"prefix": "https://"}, {"host_in": ["*.db.internal"]}):  # fmt: skip
        plant = _when("release", 1, "url", constraint)
        add(Hole(f"url {constraint}", plant, {("release", "fetch")}))
    for argument, constraint in (("env", {"in": ["staging", "production"]}), ("env", {"glob": "*"}),
                                 ("env", {"not_in": ["live"]}), ("ref", {"glob": "ma*"}),
                                 ("ref", {"glob": "**/x"}), ("ref", {"regex": "/f$"})):  # fmt: skip
        plant = _when("release", 0, argument, constraint)
        add(Hole(f"{argument} {constraint}", plant, {("release", "deploy")}))

    # The tools themselves.
    def with_tool(name: str, **changes: Any) -> list[Any]:
        kept = [t for t in TOOLS if t.__name__ != name]
        changed = ToolSpec(
            name=name,
            input_schema={"type": "object", "properties": {"path": {"type": "string"}},
                          "required": ["path"], "additionalProperties": False},
            config={"function": read},
            **changes,
        )  # fmt: skip
        return [*kept, changed]

    add(Hole("effects unknown", lambda c: None, {("guest", "read")}, tools=with_tool("read")))
    add(Hole("effects grew", lambda c: None, {("guest", "read")},
             tools=with_tool("read", effects=["read", "egress"])))  # fmt: skip
    approved = with_tool("shell", effects=["execute"])
    add(Hole("approval dropped", lambda c: None, {("builder", "shell")}, tools=approved))
    older = [*TOOLS, *with_tool("read", effects=["write"], version="0.dev1")[-1:]]
    add(Hole("an older version writes", lambda c: None, {("guest", "read@0.dev1")}, tools=older))
    add(Hole("ask became allow", lambda c: c["profiles"]["release"]["rules"].__setitem__(
        3, {"allow": "save"}), {("release", "save")}))  # fmt: skip
    return holes


HOLES = _holes()


def _host(config: Config, folder: Path, tools: list[Any]) -> ToolHost:
    file = folder / "toolcrib.yaml"
    file.write_text(json.dumps(config, indent=1))
    return ToolHost(tools, config=file)


def test_there_are_many_holes() -> None:
    assert len({hole.name for hole in HOLES}) == len(HOLES) >= 50


def test_the_base_has_no_finding(tmp_path: Path) -> None:
    report = verify(_host(BASE, tmp_path, TOOLS), INVARIANTS)
    assert report.findings == ()
    assert report.ok
    assert report.tested == ("git",)


@pytest.mark.parametrize("hole", HOLES, ids=lambda hole: hole.name)
def test_hole_is_found(hole: Hole, tmp_path: Path) -> None:
    config = copy.deepcopy(BASE)
    hole.plant(config)
    host = _host(config, tmp_path, hole.tools)
    found = [f for f in verify(host, INVARIANTS).findings if f.kind == "never"]
    assert {(f.profile, f.tool) for f in found} == hole.found
    fresh = _host(config, tmp_path, hole.tools)
    for finding in found:
        assert finding.certainty == "confirmed"
        assert finding.arguments is not None
        assert hole.shows(finding.arguments)
        said = fresh.explain(
            str(finding.tool),
            finding.arguments,
            profile=finding.profile,
            principal=Principal(str(finding.principal), finding.roles, finding.permissions),
        )
        assert said.verdict == finding.verdict
        assert said.verdict in ("allow", "ask")
        assert str(finding.source).startswith("toolcrib.yaml:")
        assert finding.rule


def test_one_hole_among_many_profiles(tmp_path: Path) -> None:
    config = copy.deepcopy(BASE)
    parents = ("guest", "reader", "intern", "builder", "release")
    for number in range(495):
        parent = parents[number % 5]
        config["profiles"][f"p{number}"] = {
            "extends": parent,
            "trust": BASE["profiles"][parent]["trust"],
            "rules": [{"deny": "search", "when": {"roles": [f"r{number}"]}}],
        }
    config["profiles"]["p77"]["rules"].append({"allow": "wri*", "when": {"roles": ["r77"]}})
    report = verify(_host(config, tmp_path, TOOLS), INVARIANTS)
    found = {(f.profile, f.tool, f.roles) for f in report.findings}
    assert found == {("p77", "write", ("r77",))}
    assert report.profiles == 501
