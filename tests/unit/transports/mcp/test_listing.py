"""`tools/list`: what is listed is what can be called, in pages, for this principal and profile."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcp_door import ERAS, Door, handshake, modern, opened
from toolcrib import Decision, Principal, tool
from toolcrib.core.entry import Entry
from toolcrib.core.spec import ToolSpec
from toolcrib.protocol.mcp.definitions import spec_of
from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp import listing
from toolcrib.transports.mcp.asked import Endpoint
from toolcrib.transports.mcp.faults import McpFault

CONFIG: dict[str, Any] = {
    "version": 1,
    "host": {"profile": "plain"},
    "profiles": {
        "plain": {"default": "allow", "rules": [{"deny": "tool_03"}]},
        "narrow": {"default": "deny", "rules": [{"allow": ["tool_01", "tool_05"]}]},
    },
    "principals": {"ann": {"profiles": ["plain", "narrow"]}, "carl": {"profiles": ["narrow"]}},
}


def numbered(number: int) -> Any:
    async def made(a: int) -> int:
        """One of many."""
        return a

    return tool(name=f"tool_{number:02}", effects=["read"])(made)


@tool(effects=["read"], permissions=["vault.read"])
async def vault() -> str:
    """For some only."""
    return "gold"


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened([*(numbered(n) for n in range(10)), vault], CONFIG, page=4) as door:
        yield door


async def pages(door: Door, era: str = "modern", **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        found.append(await door.answer(ERAS[era]("tools/list", cursor), **more))
        if "nextCursor" not in found[-1]:
            return found
        cursor = {"cursor": found[-1]["nextCursor"]}


async def names(door: Door, era: str = "modern", **more: Any) -> list[str]:
    return [each["name"] for page in await pages(door, era, **more) for each in page["tools"]]


@pytest.mark.parametrize("era", ERAS)
async def test_pages_in_the_order_of_the_names(door: Door, era: str) -> None:
    found = await pages(door, era)
    assert [len(page["tools"]) for page in found] == [4, 4, 1]
    assert await names(door, era) == [f"tool_{n:02}" for n in range(10) if n != 3]


async def test_what_the_modern_era_says_besides(door: Door) -> None:
    new = await door.answer(modern("tools/list"))
    assert (new["resultType"], new["ttlMs"], new["cacheScope"]) == ("complete", 60000, "private")
    assert set(await door.answer(handshake("tools/list"))) == {"tools", "nextCursor"}


async def test_a_tool_as_clients_read_it(door: Door) -> None:
    (first, *_) = (await door.answer(modern("tools/list")))["tools"]
    assert first["description"] == "One of many."
    assert first["inputSchema"]["type"] == "object"
    assert first["annotations"]["readOnlyHint"] is True
    assert first["outputSchema"] == {"type": "integer"}
    (old, *_) = (await door.answer(handshake("tools/list")))["tools"]
    assert "outputSchema" not in old  # clients of that era take objects only


async def test_what_is_listed_can_be_called_and_nothing_else(door: Door) -> None:
    rich = Caller(
        Principal("eve", permissions=frozenset({"vault.read"})), door="mcp", profile="plain"
    )
    for caller, endpoint in [
        (door.caller(), Endpoint()),
        (door.caller(), Endpoint(profile="narrow")),
        (door.caller("carl", "narrow"), Endpoint()),
        (rich, Endpoint()),
    ]:
        listed = set(await names(door, caller=caller, endpoint=endpoint))
        for name in [*(f"tool_{n:02}" for n in range(10)), "vault"]:
            arguments = {} if name == "vault" else {"a": 1}
            asked = modern("tools/call", {"name": name, "arguments": arguments})
            found = await door.answer(asked, caller=caller, endpoint=endpoint)
            assert (name in listed) is not found.get("isError", False), name
    assert "vault" in await names(door, caller=rich)


async def test_a_profile_that_is_not_the_callers_is_refused(door: Door) -> None:
    # One by the configuration, the other by its credentials.
    for held, profile in [
        (door.caller("carl", "narrow"), "plain"),
        (door.caller("ann", "plain", profiles=()), "narrow"),
    ]:
        with pytest.raises(McpFault) as fault:
            await names(door, caller=held, endpoint=Endpoint(profile=profile))
        assert fault.value.code == 403


async def test_lists_follow_tools_that_come_and_go(door: Door) -> None:
    before = await names(door)
    door.host.register(numbered(77))
    assert await names(door) == [*before, "tool_77"]
    door.host.unregister("tool_77")
    door.host.unregister("tool_00")
    assert await names(door) == before[1:]


async def test_a_cursor_survives_tools_that_come_and_go(door: Door) -> None:
    first = await door.answer(modern("tools/list"))
    door.host.unregister("tool_02")
    door.host.register(numbered(11))
    rest = await door.answer(modern("tools/list", {"cursor": first["nextCursor"]}))
    assert [each["name"] for each in rest["tools"]] == ["tool_05", "tool_06", "tool_07", "tool_08"]


async def test_lists_follow_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "toolcrib.yaml"
    text = "version: 1\nprofiles: {plain: {default: allow, rules: [{deny: tool_02}]}}\n"
    file.write_text(text)
    async with opened([numbered(1), numbered(2)], file) as door:
        assert await names(door) == ["tool_01"]
        file.write_text(text.replace("tool_02", "tool_01"))
        await door.host.reload()
        assert await names(door) == ["tool_02"]


async def test_lists_do_not_depend_on_the_connection(door: Door) -> None:
    one, other = door.caller(), door.caller()
    session = await door.service.open_session(other)
    assert await pages(door, caller=one) == await pages(door, caller=other.at(session))


async def test_a_sessions_own_tools_are_listed_there_only(door: Door) -> None:
    session = await door.service.open_session(door.caller())
    there = Endpoint(session=session.id)
    before = await names(door, endpoint=there)
    session.register(numbered(88))
    assert await names(door, endpoint=there) == [*before, "tool_88"]
    assert "tool_88" not in await names(door)
    with pytest.raises(McpFault):
        await names(door, endpoint=there, caller=door.caller("carl", "narrow"))


@pytest.mark.parametrize(
    "cursor",
    [
        "", "x", "invalid-cursor", 5, True, [], {}, "A" * 600, "é",
        base64.urlsafe_b64encode(b"prompts\nx").decode(),
        base64.urlsafe_b64encode(b"tools\n").decode(),
        base64.urlsafe_b64encode(b"tools\n\xff").decode(),
    ],
    ids=repr,
)  # fmt: skip
async def test_a_cursor_that_is_none_of_ours(door: Door, cursor: Any) -> None:
    with pytest.raises(McpFault) as fault:
        await door.answer(modern("tools/list", {"cursor": cursor}))
    assert fault.value.code == -32602


async def test_gates_are_asked_every_time() -> None:
    class Moody:
        name = "moody"
        hidden = False

        def visible(self, spec: ToolSpec, principal: Principal, profile: Any) -> bool:
            return not self.hidden

        def check(self, ctx: Any) -> Any:
            return Decision.abstain()

    gate = Moody()
    async with opened([numbered(n) for n in range(10)], CONFIG, gates=[gate]) as door:
        assert len(await names(door)) == 9
        gate.hidden = True
        assert await names(door) == []


async def test_a_tool_of_a_server_behind_us_is_listed_as_it_came(door: Door) -> None:
    raw: dict[str, Any] = {
        "name": "echo",
        "title": "Echo",
        "description": "Say it\u200b again.",
        "inputSchema": {"type": "object", "$comment": "kept", "properties": {"x": {}}},
        "outputSchema": {"type": "array"},
        "icons": [{"src": "data:,"}],
        "annotations": {"readOnlyHint": True, "com.example/more": 1},
        "_meta": {"com.example/a": 1},
        "future": [1, 2],
    }
    await_relay = ToolSpec(
        name="up-read_resource", kind="mcp", annotations={"toolcrib/relay": "resources"}
    )
    for spec in (spec_of("up", "up-", raw), await_relay):
        door.host.catalog.register(Entry(spec=spec, execute=_nothing, owner="up"))
    listed = {each["name"]: each for page in await pages(door) for each in page["tools"]}
    assert "up-read_resource" not in listed
    expected = {**raw, "name": "up-echo", "description": "Say it\\u200b again."}
    assert listed["up-echo"] == expected
    old = {each["name"]: each for page in await pages(door, "handshake") for each in page["tools"]}
    assert old["up-echo"] == {k: v for k, v in expected.items() if k != "outputSchema"}


async def _nothing(ctx: Any) -> Any:
    return None


async def test_a_list_is_made_once_until_something_changes(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    plan = door.host.calling.plan

    def counting(name: str, *more: Any) -> Any:
        made.append(name)
        return plan(name, *more)

    monkeypatch.setattr(door.host.calling, "plan", counting)
    first = await door.answer(modern("tools/list"))
    assert len(made) < 8  # no more than the page needs
    made.clear()
    assert await door.answer(modern("tools/list")) == first
    assert made == []
    await door.answer(modern("tools/list"), caller=door.caller("bob"))
    assert made != []


async def test_lists_follow_what_a_principal_holds(tmp_path: Path) -> None:
    file = tmp_path / "toolcrib.yaml"
    text = (
        "version: 1\nhost: {profile: plain}\nprofiles: {plain: {default: allow}}\n"
        "principals: {ann: {profiles: [plain], permissions: [%s]}}\n"
    )
    file.write_text(text % "")
    async with opened([numbered(1), vault], file) as door:

        def ann() -> Caller:
            return Caller(door.host.callers.principal("ann"), door="mcp", profile="plain")

        assert await names(door, caller=ann()) == ["tool_01"]
        file.write_text(text % "vault.read")
        await door.host.reload()
        assert await names(door, caller=ann()) == ["tool_01", "vault"]
        file.write_text(text % "")
        await door.host.reload()
        assert await names(door, caller=ann()) == ["tool_01"]


async def test_lists_of_two_principals_of_one_name_differ(door: Door) -> None:
    rich = Principal("ann", permissions=frozenset({"vault.read"}))
    for _ in range(2):
        assert "vault" not in await names(door)
        assert "vault" in await names(door, caller=Caller(rich, door="mcp", profile="plain"))


async def test_lists_follow_a_tool_that_is_told_anew(door: Door) -> None:
    async def made(a: int) -> int:
        """Told in another way."""
        return a

    await pages(door)
    door.host.unregister("tool_00")
    door.host.register(tool(name="tool_00", effects=["read"])(made))
    (first, *_) = (await door.answer(modern("tools/list")))["tools"]
    assert (first["name"], first["description"]) == ("tool_00", "Told in another way.")


async def test_what_is_kept_has_a_limit(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = door.dispatcher.tools._listing
    ann, bob = door.caller(), door.caller("bob")
    whole = await pages(door, caller=ann)
    once = kept._size
    assert once == sum(len(msgspec.json.encode(page["tools"])) for page in whole)
    assert await pages(door, caller=ann) == whole
    assert kept._size == once
    monkeypatch.setattr(listing, "MOST_BYTES", once + once // 2)
    for who in (bob, ann, bob):
        # There is no room for both: who asked last is kept, and everybody is told all.
        assert await pages(door, caller=who) == whole
        assert kept._size == once
        assert [len(each.pages) for each in kept._kept.values()] == [3]
    monkeypatch.setattr(listing, "MOST_BYTES", once // 2)
    door.host.unregister("tool_09")
    for _ in range(2):
        # Not even for one: as much of it as fits.
        assert len(await names(door, caller=ann)) == 8
        assert 0 < kept._size <= once // 2
    monkeypatch.setattr(listing, "MOST_BYTES", 10)
    assert len(await names(door, caller=bob)) == 8
    assert kept._size == 0


async def test_lists_that_are_dropped_are_counted_no_more(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = door.dispatcher.tools._listing
    monkeypatch.setattr(listing, "MOST_KEPT", 2)
    for name in ("ann", "bob", "carol", "dora"):
        await pages(door, caller=door.caller(name))
    for n in range(3):
        door.host.register(numbered(50 + n))
        await pages(door)
    assert len(kept._kept) == 2
    assert kept._size == sum(each.size for each in kept._kept.values())
    for each in kept._kept.values():
        assert each.size == sum(page.size for page in each.pages.values())
