"""What `explain` says is what a call does, for profiles, callers and arguments of many kinds."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolcrib import Decision, Principal, ToolContext, ToolHost, ToolPolicy, tool
from toolcrib.testing import ApprovalSimulator


class Small(ToolPolicy):
    most: int = 5

    def check(self, ctx: ToolContext) -> Decision | None:
        n = ctx.arguments["n"]
        if n == self.most:
            return self.ask("that is a lot")
        return self.deny("too_many_files") if n > self.most else None


RAN: list[str] = []


def make(name: str, **fields: Any) -> Any:
    @tool(name=name, **fields)
    async def run(n: int, path: str = "src/a.py") -> str:
        RAN.append(name)
        return name

    return run


TOOLS = [
    make("read", effects={"read"}, tags=["safe"]),
    make("read_and_delete", effects={"read", "destructive"}),
    make("odd", category="misc"),
    make("guarded", effects={"write"}, permissions=["repo.write"]),
    make("small", effects={"read"}, policy=Small),
    make("asked", effects={"write"}, requires_approval=True, tags=["safe"]),
]
NAMES = ["read", "read_and_delete", "odd", "guarded", "small", "asked"]

matches = st.one_of(
    st.lists(st.sampled_from([*NAMES, "read*", "*"]), min_size=1, max_size=2),
    st.fixed_dictionaries(
        {"effects": st.lists(st.sampled_from(["read", "write", "destructive"]), min_size=1)}
    ),
    st.just({"tags": ["safe"]}),
    st.just({"category": ["misc"]}),
)
constraints = st.sampled_from(
    [
        {"n": {"max": 3}},
        {"n": {"in": [1, 5, 7]}},
        {"path": {"prefix": "src/"}},
        {"path": {"glob": "src/*"}, "n": {"min": 2}},
    ]
)
conditions = st.one_of(
    st.fixed_dictionaries({"roles": st.just(["boss"])}),
    st.fixed_dictionaries({"principals": st.just(["ann"])}),
    st.fixed_dictionaries({"permissions": st.just(["repo.write"])}),
    st.fixed_dictionaries({"arguments": constraints}),
    st.fixed_dictionaries({"roles": st.just(["boss"]), "arguments": constraints}),
)


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    verdict = draw(st.sampled_from(["allow", "ask", "deny"]))
    rule: dict[str, Any] = {verdict: draw(matches)}
    if draw(st.booleans()):
        rule["when"] = draw(conditions)
    if verdict != "ask" and draw(st.booleans()):
        rule["reason"] = "house_rule"
    return rule


profiles = st.fixed_dictionaries(
    {
        "default": st.sampled_from(["deny", "allow", "ask"]),
        "rules": st.lists(rules(), max_size=4),
    },
    optional={
        "limits": st.sampled_from([{"budget": 1, "per": "tool"}, {"calls": "1000/min"}]),
        "policies": st.just({"small": {"most": 2}}),
        "pins": st.just({"odd": "0" * 64}),
    },
)
callers = st.builds(
    Principal,
    st.sampled_from(["ann", "bob"]),
    roles=st.sampled_from([(), ("boss",)]),
    permissions=st.sampled_from([(), ("repo.write",)]),
)
good_arguments = st.fixed_dictionaries(
    {"n": st.sampled_from([1, 2, 3, 5, 7])},
    optional={"path": st.sampled_from(["src/b.py", "src/x/y.py", "/etc/passwd", ""])},
)
bad_arguments = st.sampled_from([{}, {"n": "x"}, {"n": 1, "more": 2}, {"n": None}])


async def compare(profile: dict[str, Any], who: Principal, arguments: list[Any]) -> None:
    approver = ApprovalSimulator(default="allow")
    config = {"profiles": {"only": profile}}
    async with ToolHost(TOOLS, config=config, approver=approver) as host:
        listed = {t.name for t in host.tools(principal=who)}
        for given_arguments in arguments:
            for name in NAMES:
                RAN.clear()
                approver.requests.clear()
                said = host.explain(name, given_arguments, principal=who)
                assert (RAN, approver.requests) == ([], [])
                result = await host.call(name, given_arguments, principal=who)
                told = (said, result)
                if said.verdict == "deny":
                    assert RAN == [], told
                    assert result.reason == said.reason, told
                    assert approver.requests == [], told
                else:
                    assert [name] == RAN, told
                    assert result.success, told
                    assert bool(approver.requests) is (said.verdict == "ask"), told
                at_find = result.error is not None and result.error.details.get("gate") == "find"
                assert (name in listed) is not at_find, told


@given(profiles, callers, st.lists(good_arguments, min_size=1, max_size=2))
def test_explain_says_what_the_call_does(
    profile: dict[str, Any], who: Principal, arguments: list[Any]
) -> None:
    asyncio.run(compare(profile, who, arguments))


@given(profiles, callers, bad_arguments)
def test_explain_says_what_the_call_does_with_arguments_that_do_not_fit(
    profile: dict[str, Any], who: Principal, arguments: Any
) -> None:
    asyncio.run(compare(profile, who, [arguments]))


async def test_explaining_leaves_nothing_behind() -> None:
    config = {"profiles": {"only": {"default": "ask"}}}
    async with ToolHost(TOOLS, config=config) as host:
        before = len(await host.trail())
        for name in [*NAMES, "unknown"]:
            host.explain(name, {"n": 1})
        assert len(await host.trail()) == before
        assert await host.approvals.list() == []


async def test_every_step_names_its_gate() -> None:
    rule = {"deny": "read", "when": {"arguments": {"n": {"max": 3}}}}
    config = {"profiles": {"only": {"default": "allow", "rules": [rule]}}}
    async with ToolHost(TOOLS, config=config) as host:
        said = host.explain("read", {"n": 1})
        assert (said.verdict, said.reason) == ("deny", "denied_by_rule")
        denying = [step for step in said.steps if step.verdict == "deny"]
        assert [step.gate for step in denying] == ["profile"]
        assert denying[0].rule == "deny read when n max 3"
        assert said.arguments == {"n": 1, "path": "src/a.py"}
