"""Searching finds what the caller may call, and tells nothing of anything else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from toolcrib import Decision, Principal, ToolHost, ToolPolicy, ToolSpec, tool
from toolcrib.core.profile import Profile


async def run(**_: Any) -> int:
    return 1


def made(name: str, text: str = "Sends mail.", **more: Any) -> ToolSpec:
    return ToolSpec(name=name, description=text, config={"function": run}, **more)


Hits = list[tuple[float, str]]


def found(host: ToolHost, query: str = "mail", limit: int = 50, **who: Any) -> Hits:
    return [(score, hit.name) for score, hit in host.finding.find(query, limit, **who)]


def names(host: ToolHost, query: str = "mail", **who: Any) -> list[str]:
    return [name for _, name in found(host, query, **who)]


RULES: dict[str, Any] = {
    "open": {"default": "allow"},
    "named": {"rules": [{"allow": ["mail_a", "mail_c"]}]},
    "readers": {"rules": [{"allow": {"effects": ["read"]}}]},
    "roles": {"rules": [{"allow": "*", "when": {"roles": ["boss"]}}, {"allow": "mail_a"}]},
    "one": {"rules": [{"allow": "*", "when": {"principals": ["ann"]}}]},
    "denied": {"default": "allow", "rules": [{"deny": "mail_b"}]},
    "pinned": {"default": "allow", "pins": {"mail_a": "0" * 64}},
    "asked": {"rules": [{"ask": "mail_b"}]},
}
TOOLS = [
    made("mail_a", effects={"read"}),
    made("mail_b", effects={"write"}),
    made("mail_c", permissions={"post"}),
]
ANN, BOB = Principal("ann", roles=["boss"]), Principal("bob", permissions=["post"])


@pytest.mark.parametrize(
    ("profile", "who", "expected"),
    [
        ("open", ANN, ["mail_a", "mail_b"]),
        ("open", BOB, ["mail_a", "mail_b", "mail_c"]),
        ("named", BOB, ["mail_a", "mail_c"]),
        ("readers", BOB, ["mail_a"]),
        ("roles", ANN, ["mail_a", "mail_b"]),
        ("roles", BOB, ["mail_a"]),
        ("one", ANN, ["mail_a", "mail_b"]),
        ("one", BOB, []),
        ("denied", BOB, ["mail_a", "mail_c"]),
        ("pinned", BOB, ["mail_b", "mail_c"]),
        ("asked", ANN, ["mail_b"]),
    ],
)
def test_found_is_what_may_be_called(profile: str, who: Principal, expected: list[str]) -> None:
    host = ToolHost(TOOLS, config={"profiles": RULES})
    assert names(host, profile=profile, principal=who) == expected
    listed = [each.name for each in host.tools(profile=profile, principal=who)]
    assert listed == expected


@pytest.mark.parametrize("seed", range(10))
def test_any_profile(seed: int) -> None:
    chance = random.Random(seed)
    host = ToolHost(config={"profiles": {"p": _any_profile(chance)}})
    effects = ["read", "write", "destructive", "egress", "execute"]
    for number in range(40):
        tags = chance.sample(["x", "y", "z"], chance.randrange(3))
        some = frozenset(chance.sample(effects, chance.randrange(3)))
        permissions = chance.choice([(), (), ("post",)])
        host.register(
            made(
                f"mail_{number}",
                effects=chance.choice([None, some]),
                tags=tags,
                category=chance.choice([None, "k"]),
                permissions=permissions,
            )
        )
    for who in (ANN, BOB):
        listed = {each.name for each in host.tools(principal=who)}
        assert set(names(host, principal=who)) == listed


def _any_profile(chance: random.Random) -> dict[str, Any]:
    matches: list[Any] = ["mail_1*", "mail_7", {"effects": ["read", "write"]}, {"tags": ["x"]}]
    matches += [{"category": "k"}, {"kind": "python"}, {"effects": ["destructive"]}]
    whens: list[Any] = [None, None, {"roles": ["boss"]}, {"principals": ["bob"]}]
    rules: list[dict[str, Any]] = []
    for _ in range(chance.randrange(1, 4)):
        rule = {chance.choice(["allow", "ask", "deny"]): chance.choice(matches)}
        when = chance.choice(whens)
        rules.append(rule if when is None else {**rule, "when": when})
    return {"default": chance.choice(["allow", "deny"]), "rules": rules}


def test_scores_tell_nothing_of_what_is_hidden() -> None:
    config = {"profiles": {"p": {"rules": [{"allow": "open_*"}]}}}
    seen = [made("open_mail"), made("open_file", "Reads files."), made("open_x", "Mails a file.")]
    alone = ToolHost(seen, config=config)
    among = ToolHost(seen, config=config)
    for number in range(200):
        among.register(made(f"mail_{number}", "mail mailer mailbox"))
    for number in range(200):
        among.register(made(f"open_mail_{number}", "mail mailer mailbox", permissions={"post"}))
    for query in ("mail", "file mail", "mai", "mailbox", "mailer", "open"):
        assert found(alone, query) == found(among, query)


def test_callers_do_not_see_with_each_others_eyes() -> None:
    host = ToolHost(TOOLS, config={"profiles": RULES})
    eve = Principal("eve", roles=ANN.roles)
    assert names(host, profile="one", principal=eve) == []
    assert names(host, profile="one", principal=ANN) == ["mail_a", "mail_b"]
    assert names(host, profile="open", principal=ANN) == ["mail_a", "mail_b"]
    assert names(host, profile="open", principal=BOB) == ["mail_a", "mail_b", "mail_c"]
    assert names(host, profile="roles", principal=BOB) == ["mail_a"]
    assert names(host, profile="roles", principal=ANN) == ["mail_a", "mail_b"]


def test_a_version_that_is_denied_is_not_counted() -> None:
    rules: dict[str, Any] = {"default": "allow", "rules": [{"deny": "letter*"}]}
    alone = ToolHost([made("mail_a"), made("x", "other")], config={"profiles": {"p": rules}})
    old, new = made("letters", version="1"), made("letters", "New.", version="2")
    config = {"profiles": {"p": {**rules, "versions": {"letters": "1"}}}}
    among = ToolHost([made("mail_a"), made("x", "other"), old, new], config=config)
    assert found(alone) == found(among)


class Hides:
    """A gate that hides what it is told to."""

    name = "hides"

    def __init__(self, *names: str, broken: bool = False) -> None:
        self.names = names
        self.broken = broken

    def visible(self, spec: ToolSpec, principal: Principal, profile: Profile | None) -> bool:
        if self.broken:
            raise RuntimeError("no")
        return spec.name not in self.names

    def check(self, ctx: Any) -> Decision:
        return Decision.abstain()


def test_a_gate_hides_tools_and_their_number() -> None:
    alone = ToolHost([made("mail_a"), made("x", "other")], gates=[Hides()])
    among = ToolHost([made("mail_a"), made("x", "other")], gates=[Hides("mail_b", "mail_c")])
    among.register(made("mail_b"))
    among.register(made("mail_c"))
    assert found(alone) == found(among)
    assert names(among) == ["mail_a"]


class Knobs(ToolPolicy):
    """Something to be held to."""

    most: int = 3


def test_a_gate_hides_a_tool_with_a_policy() -> None:
    tools = [made("mail_a", policy=Knobs), made("mail_b", policy=Knobs)]
    assert names(ToolHost(tools, gates=[Hides("mail_b")])) == ["mail_a"]


def test_a_gate_that_fails_hides_everything() -> None:
    assert names(ToolHost(TOOLS, gates=[Hides(broken=True)])) == []


def test_changes_are_followed() -> None:
    host = ToolHost([made("mail_a")])
    assert names(host) == ["mail_a"]
    host.register(made("mail_b"))
    host.register(made("mail_a", "Another thing entirely.", title="Letters"), replace=True)
    assert names(host, "letters") == ["mail_a"]
    assert names(host, "entirely") == ["mail_a"]
    host.unregister("mail_b")
    assert names(host) == ["mail_a"]
    host.unregister("mail_a")
    assert names(host) == []


def test_a_change_can_hide_a_tool_or_show_it() -> None:
    config = {"profiles": {"p": {"rules": [{"allow": {"tags": ["x"]}}]}}}
    host = ToolHost([made("mail_a"), made("mail_b", tags=["x"])], config=config)
    assert names(host) == ["mail_b"]
    host.register(made("mail_a", tags=["x"]), replace=True)
    host.register(made("mail_b"), replace=True)
    assert names(host) == ["mail_a"]


async def test_changed_rules_count_at_once(tmp_path: Any) -> None:
    file = tmp_path / "toolcrib.yaml"
    file.write_text("version: 1\nprofiles: {p: {rules: [{allow: mail_a}]}}\n")
    host = ToolHost(TOOLS, config=file)
    assert names(host) == ["mail_a"]
    file.write_text("version: 1\nprofiles: {p: {rules: [{allow: mail_b}]}}\n")
    await host.reload()
    assert names(host) == ["mail_b"]


def test_another_version_is_found_by_its_own_words() -> None:
    old, new = made("letters", "Reads old mail.", version="1"), made("letters", "New.", version="2")
    config = {"profiles": {"old": {"default": "allow", "versions": {"letters": "1"}}}}
    host = ToolHost([old, new], config=config)
    assert [hit.spec.version for _, hit in host.finding.find("mail", 9)] == ["1"]
    assert names(host, "new") == []


async def test_a_session_finds_its_own_tools_too() -> None:
    @tool(name="mail_b")
    def own() -> str:
        """Sends letters."""
        return ""

    async with ToolHost([made("mail_a")]) as host:
        async with host.session() as session:
            session.register(own)
            assert names(host, "letters", session=session) == ["mail_b"]
            assert names(host, session=session) == ["mail_a", "mail_b"]
        assert names(host, "letters") == []


async def test_others_have_their_turn_while_the_index_is_made() -> None:
    host = ToolHost(made(f"mail_{number}") for number in range(3000))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await asyncio.gather(*(host.finding.ready() for _ in range(3)))
    counting.cancel()
    assert turns > 3
    assert len(found(host, limit=7)) == 7


def test_what_cannot_be_looked_for() -> None:
    host = ToolHost(TOOLS)
    queries: Sequence[str] = ("", "…", "x" * 1001)
    for query in queries:
        with pytest.raises(ValueError, match="query"):
            host.finding.find(query, 5)
