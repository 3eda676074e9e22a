"""What clients are told without asking, and who is told."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import msgspec
import pytest

from toolcrib import Principal, tool
from toolcrib.core.link import LINK, UpstreamError
from toolcrib.transports.caller import Badge
from toolcrib.transports.mcp.changes import PAUSE, Wanted
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.watching import MOST_URIS

ALL = Wanted(tools=True, prompts=True, resources=True)
TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
RESOURCES = "notifications/resources/list_changed"
UPDATED = "notifications/resources/updated"


@tool(effects=["read"])
def shown() -> str:
    """Somebody may call it."""
    return "shown"


class Told(list[tuple[str, Any]]):
    """What somebody was told."""

    def __call__(self, method: str, params: Any) -> None:
        self.append((method, params))

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self]


async def listen(
    gateway: Any, kit: Any, wanted: Wanted = ALL, *, profile: str | None = None, who: str = "ann"
) -> Told:
    told = Told()
    endpoint = kit.Endpoint(profile=profile)
    await gateway.changes.listen(gateway.caller(who), endpoint, wanted, told)
    await asyncio.sleep(0)
    return told


async def test_a_tool_that_comes_or_goes_is_told_to_those_who_see_it(start: Any, kit: Any) -> None:
    gateway = await start(kit.Server("one"))
    every = await listen(gateway, kit)
    blind = await listen(gateway, kit, profile="none")
    deaf = await listen(gateway, kit, Wanted(prompts=True))
    gateway.host.register(shown)
    await gateway.until(lambda: every)
    gateway.host.unregister("shown")
    await gateway.until(lambda: len(every) == 2)
    assert every == [(TOOLS, {})] * 2
    assert blind == deaf == []


async def test_where_tools_are_searched_for_only_what_is_listed_counts(
    start: Any, kit: Any
) -> None:
    listing = {"mode": "search", "tools": 5, "pinned": ["pin*"]}
    config: dict[str, Any] = {
        "version": 1,
        "host": {"profile": "all"},
        "profiles": {
            "all": {"default": "allow"},
            "search": {"default": "allow", "listing": listing},
        },
    }
    server = kit.Server("one")
    server.definitions = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(20)]
    gateway = await start(server, config=config)
    every, searching = await listen(gateway, kit), await listen(gateway, kit, profile="search")
    gateway.host.register(shown)
    await gateway.until(lambda: every)
    gateway.host.register(tool(lambda: None, name="pin", description="p"))
    await gateway.until(lambda: searching)
    await gateway.until(lambda: len(every) == 2)
    assert searching == [(TOOLS, {})]
    gateway.host.unregister("pin")
    await gateway.until(lambda: len(searching) == 2)


async def test_many_changes_are_told_as_one(start: Any, kit: Any) -> None:
    gateway = await start()
    told = await listen(gateway, kit)
    for count in range(50):
        gateway.host.register(tool(lambda: None, name=f"t{count}", description="t"))
    await gateway.until(lambda: told)
    await asyncio.sleep(2 * PAUSE)
    assert told == [(TOOLS, {})]


async def test_a_provider_that_comes_back_with_the_same_is_no_change(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.definitions = [{"name": "t", "inputSchema": {"type": "object"}}]
    server.prompts = [{"name": "p"}]
    server.add("test://a")
    gateway = await start(server)
    for method in ("prompts/list", "resources/list", "resources/templates/list"):
        await gateway.modern(method)
    told = await listen(gateway, kit)
    for _ in range(3):
        before = server.count("resources/templates/list")
        await gateway.restart(server)
        await gateway.until(lambda before=before: server.count("resources/templates/list") > before)
    await asyncio.sleep(3 * PAUSE)
    assert told == []


async def test_what_a_provider_brings_back_changed_is_told(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.definitions = [{"name": "t", "inputSchema": {"type": "object"}}]
    server.prompts = [{"name": "p"}]
    gateway = await start(server)
    for method in ("prompts/list", "resources/list", "resources/templates/list"):
        await gateway.modern(method)
    told = await listen(gateway, kit)
    server.prompts.append({"name": "q"})
    await gateway.restart(server)
    await gateway.until(lambda: told)
    server.templates.append({"uriTemplate": "test://{x}", "name": "t"})
    await gateway.restart(server)
    await gateway.until(lambda: len(told) == 2)
    server.definitions[0]["description"] = "other"
    await gateway.restart(server)
    await gateway.until(lambda: len(told) == 3)
    await asyncio.sleep(2 * PAUSE)
    assert told == [(PROMPTS, {}), (RESOURCES, {}), (TOOLS, {})]


async def test_a_new_provider_is_told_to_those_who_may_use_it(start: Any, kit: Any) -> None:
    gateway = await start()
    every = await listen(gateway, kit)
    other = await listen(gateway, kit, profile="one")
    server = kit.Server("two")
    server.definitions = [{"name": "t", "inputSchema": {"type": "object"}}]
    await gateway.add(server)
    await gateway.until(lambda: len(every) == 3)
    assert sorted(every.methods) == [PROMPTS, RESOURCES, TOOLS]
    assert other == []


async def test_a_servers_word_of_changes_goes_to_those_who_see_it(start: Any, kit: Any) -> None:
    one, two = kit.Server("one"), kit.Server("two")
    gateway = await start(one, two)
    every = await listen(gateway, kit)
    ones = await listen(gateway, kit, profile="one")
    blind = await listen(gateway, kit, profile="hidden")
    two.say("notifications/prompts/list_changed")
    await gateway.until(lambda: every)
    assert (every, ones) == ([(PROMPTS, {})], [])
    one.say("notifications/resources/list_changed")
    one.say("notifications/resources/list_changed")
    await gateway.until(lambda: ones)
    await asyncio.sleep(2 * PAUSE)
    assert (every[1:], ones, blind) == ([(RESOURCES, {})], [(RESOURCES, {})], [])


async def test_a_change_from_another_thread_is_told_in_this_one(start: Any, kit: Any) -> None:
    gateway = await start()
    threads: list[int] = []
    gateway.changes.watch(
        gateway.caller(), kit.Endpoint(), ALL, lambda *_: threads.append(threading.get_ident())
    )
    await asyncio.sleep(0)
    await asyncio.to_thread(gateway.host.register, shown)
    await gateway.until(lambda: threads)
    assert threads == [threading.get_ident()]


async def test_a_session_hears_of_its_own_tools_and_others_do_not(start: Any, kit: Any) -> None:
    gateway = await start()
    caller = gateway.caller()
    session = await gateway.service.open_session(caller)
    mine, others = Told(), Told()
    gateway.changes.watch(caller, kit.Endpoint(session=session.id), ALL, mine)
    gateway.changes.watch(caller, kit.Endpoint(), ALL, others)
    await asyncio.sleep(0)
    session.register(shown)
    await gateway.until(lambda: mine)
    await asyncio.sleep(2 * PAUSE)
    assert (mine, others) == ([(TOOLS, {})], [])


async def test_who_is_closed_or_whose_credentials_ended_hears_nothing(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    gateway = await start(server)
    closed, revoked, open_ = Told(), Told(), Told()
    caller = gateway.caller()
    gateway.changes.watch(gateway.caller(), kit.Endpoint(), ALL, closed).close()
    gateway.changes.watch(caller, kit.Endpoint(), ALL, revoked)
    gateway.changes.watch(gateway.caller("bob"), kit.Endpoint(), ALL, open_)
    await asyncio.sleep(0)
    caller.badge.revoked = True
    gateway.host.register(shown)
    server.say("notifications/prompts/list_changed")
    await gateway.until(lambda: len(open_) == 2)
    assert closed == revoked == []


async def test_one_client_that_breaks_keeps_nothing_from_the_others(start: Any, kit: Any) -> None:
    gateway = await start()

    def broken(method: str, params: Any) -> None:
        raise RuntimeError("no")

    gateway.changes.watch(gateway.caller(), kit.Endpoint(), ALL, broken)
    told = await listen(gateway, kit)
    gateway.host.register(shown)
    await gateway.until(lambda: told)
    assert told == [(TOOLS, {})]


async def test_rules_that_change_are_told_to_those_whom_they_concern(start: Any, kit: Any) -> None:
    gateway = await start(kit.Server("one"))
    every, ones = await listen(gateway, kit), await listen(gateway, kit, profile="one")
    config = gateway.host._config_source  # what a file would say now
    config["profiles"]["one"] = {"default": "deny"}
    await gateway.host.reload()
    await gateway.until(lambda: len(ones) == 2)
    assert sorted(ones.methods) == [PROMPTS, RESOURCES]
    assert every == []


# Resources that are followed.


async def test_a_resource_is_followed_once_for_all_and_as_long_as_anybody_wants_it(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    server.add("test://a", "test://b")
    gateway = await start(server)
    wanted = Wanted(uris=frozenset({"test://a", "test://none/such"}))
    first, second = Told(), Told()
    one = await gateway.changes.listen(gateway.caller(), kit.Endpoint(), wanted, first)
    two = await gateway.changes.listen(gateway.caller("bob"), kit.Endpoint(), wanted, second)
    assert server.subscribed == {"test://a", "test://none/such"}
    assert server.count("resources/subscribe") == 2
    server.say(UPDATED, uri="test://b")
    server.say(UPDATED, uri="test://a", _meta={"io.modelcontextprotocol/subscriptionId": 7, "v": 1})
    await gateway.until(lambda: first and second)
    assert first == second == [(UPDATED, {"uri": "test://a", "_meta": {"v": 1}})]
    one.close()
    server.say(UPDATED, uri="test://a")
    await gateway.until(lambda: len(second) == 2)
    assert len(first) == 1
    two.close()
    await gateway.until(lambda: not server.subscribed)


async def test_what_cannot_be_followed_is_left_out_of_what_is_honoured(
    start: Any, kit: Any
) -> None:
    one, two = kit.Server("one"), kit.Server("two")
    one.add("test://public/a", "test://private/a")
    two.add("test://two")
    del two.capabilities["resources"]["subscribe"]
    gateway = await start(one, two)

    def refuse(params: Any) -> Any:
        if params["uri"] == "test://public/a":
            return {}
        raise UpstreamError(-32602, "no")

    one.answers["resources/subscribe"] = refuse
    uris = {"test://public/a", "test://private/a", "test://two", "test://unknown"}
    wanted = Wanted.of({"toolsListChanged": True, "resourceSubscriptions": sorted(uris)})
    watch = await gateway.changes.listen(gateway.caller(), kit.Endpoint(), wanted, Told())
    assert watch.wanted.filter() == {
        "toolsListChanged": True,
        "resourceSubscriptions": ["test://public/a"],
    }
    del one.answers["resources/subscribe"]
    part = kit.Endpoint(profile="part")
    watch = await gateway.changes.listen(gateway.caller(), part, wanted, Told())
    assert watch.wanted.uris == {"test://public/a"}
    assert "test://private/a" not in one.subscribed


async def test_an_update_reaches_only_who_may_still_read_the_resource(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.add("test://a")
    gateway = await start(server)
    wanted = Wanted(uris=frozenset({"test://a"}))
    ones = await listen(gateway, kit, wanted, profile="one")
    every = await listen(gateway, kit, wanted)
    config = gateway.host._config_source
    config["profiles"]["one"] = {"default": "deny"}
    await gateway.host.reload()
    server.say(UPDATED, uri="test://a")
    await gateway.until(lambda: every)
    assert (every, ones) == ([(UPDATED, {"uri": "test://a"})], [])


async def test_an_update_is_for_who_follows_it_and_for_what_may_be_read_now(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    server.add("test://public/a", "test://public/b")
    gateway = await start(server)
    both = Wanted(uris=frozenset({"test://public/a", "test://public/b"}))
    part = await listen(gateway, kit, both, profile="part")
    one = await listen(gateway, kit, Wanted(uris=frozenset({"test://public/b"})))
    other = await listen(gateway, kit, both)
    rule = gateway.host._config_source["profiles"]["part"]["rules"][0]
    rule["when"]["arguments"]["uri"]["glob"] = "test://public/b"
    await gateway.host.reload()
    server.say(UPDATED, uri="test://public/a")
    await gateway.until(lambda: other)
    server.say(UPDATED, uri="test://public/b")
    await gateway.until(lambda: len(other) == 2)
    assert part == one == [(UPDATED, {"uri": "test://public/b"})]


async def test_who_loses_a_role_hears_no_more_of_what_it_was_for(start: Any, kit: Any) -> None:
    config: dict[str, Any] = {
        "version": 1,
        "profiles": {
            "read": {
                "default": "deny",
                "rules": [{"allow": "one-*", "when": {"roles": ["reader"]}}],
            }
        },
        "principals": {"ann": {"roles": ["reader"]}, "bob": {"roles": ["reader"]}},
    }
    server = kit.Server("one")
    gateway = await start(server, config=config)
    wanted = Wanted(uris=frozenset({"test://a"}))
    ann, bob = await listen(gateway, kit, wanted), await listen(gateway, kit, wanted, who="bob")
    config["principals"]["ann"] = {}
    await gateway.host.reload()
    server.say(UPDATED, uri="test://a")
    await gateway.until(lambda: bob)
    assert (ann, bob) == ([], [(UPDATED, {"uri": "test://a"})])


async def test_who_is_known_no_more_cannot_listen(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    gateway = await start(server)
    caller = gateway.caller()
    caller.badge.revoked = True
    wanted = Wanted(tools=True, uris=frozenset({"test://a"}))
    with pytest.raises(McpFault) as caught:
        await gateway.changes.listen(caller, kit.Endpoint(), wanted, Told())
    assert caught.value.data == {"reason": "unauthenticated"}
    assert server.asked == []


async def test_a_part_of_what_is_followed_is_told_and_its_neighbour_is_not(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    gateway = await start(server)
    told = await listen(gateway, kit, Wanted(uris=frozenset({"test://dir"})))
    server.say(UPDATED, uri="test://directory")
    server.say(UPDATED, uri="test://dir/file")
    await gateway.until(lambda: told)
    await asyncio.sleep(2 * PAUSE)
    assert told == [(UPDATED, {"uri": "test://dir/file"})]


async def test_a_server_that_was_away_is_subscribed_to_again_and_what_may_be_missed_is_told(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    server.add("test://a")
    gateway = await start(server)
    told = await listen(gateway, kit, Wanted(uris=frozenset({"test://a"})))
    await gateway.restart(server)
    await gateway.until(lambda: told)
    assert server.subscribed == {"test://a"}
    assert told == [(UPDATED, {"uri": "test://a"})]


@pytest.mark.parametrize("how", ["a stream", "a connection", "another wish"])
async def test_one_who_leaves_while_it_is_being_subscribed_leaves_nothing_behind(
    start: Any, kit: Any, how: str
) -> None:
    server = kit.Server("one")
    gate = asyncio.Event()

    async def slow(params: Any) -> dict[str, Any]:
        await gate.wait()
        server.subscribed.add(params["uri"])
        return {}

    server.answers["resources/subscribe"] = slow
    gateway = await start(server)
    wanted, who = Wanted(uris=frozenset({"test://a"})), (gateway.caller(), kit.Endpoint())
    if how == "a stream":
        listening = asyncio.ensure_future(gateway.changes.listen(*who, wanted, Told()))
    else:
        watch = gateway.changes.watch(*who, wanted, Told())
    await gateway.until(lambda: server.count("resources/subscribe"))
    if how == "a stream":
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    elif how == "a connection":
        watch.close()
    else:
        watch.renew(ALL)
    gate.set()
    await gateway.until(lambda: server.count("resources/unsubscribe"))
    assert server.subscribed == set()


FILTERS: dict[str, Any] = {
    "nothing": None,
    "a list": [],
    "a flag that is none": {"toolsListChanged": "yes"},
    "uris that are none": {"resourceSubscriptions": [5]},
    "an empty uri": {"resourceSubscriptions": [""]},
    "uris that are no list": {"resourceSubscriptions": "test://a"},
    "too many uris": {"resourceSubscriptions": [f"test://{n}" for n in range(MOST_URIS + 1)]},
}


@pytest.mark.parametrize("notifications", FILTERS.values(), ids=FILTERS.keys())
def test_a_filter_that_is_none_is_refused(notifications: Any) -> None:
    with pytest.raises(McpFault) as caught:
        Wanted.of(notifications)
    assert caught.value.code == -32602


# Connections of the handshake era.


def told_on(frames: list[bytes]) -> list[tuple[str, Any]]:
    return [(m["method"], m.get("params")) for m in map(msgspec.json.decode, frames)]


async def test_a_connection_subscribes_and_unsubscribes_and_hears_the_servers_refusal(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    server.add("test://a", "test://b")
    gateway = await start(server)
    connection, frames = gateway.connect()
    subscribe = {"uri": "test://a"}
    assert await gateway.old("resources/subscribe", subscribe, connection=connection) == {}
    assert await gateway.old("resources/subscribe", subscribe, connection=connection) == {}
    await asyncio.sleep(0)
    assert server.count("resources/subscribe") == 1
    assert server.count("resources/unsubscribe") == 0
    server.say(UPDATED, uri="test://a")
    await gateway.until(lambda: frames)
    assert told_on(frames) == [(UPDATED, {"uri": "test://a"})]

    def refuse(_: Any) -> Any:
        raise UpstreamError(-32000, "not today")

    server.answers["resources/subscribe"] = refuse
    with pytest.raises(McpFault, match="not today"):
        await gateway.old("resources/subscribe", {"uri": "test://b"}, connection=connection)
    assert connection.uris == {"test://a"}
    assert await gateway.old("resources/unsubscribe", subscribe, connection=connection) == {}
    await gateway.until(lambda: not server.subscribed)
    connection.close()


async def test_a_connection_subscribes_to_nothing_that_it_may_not_read(
    start: Any, kit: Any
) -> None:
    one, two = kit.Server("one"), kit.Server("two")
    one.add("test://private/a")
    gateway = await start(one, two)
    connection, _ = gateway.connect()
    params = {"uri": "test://private/a"}
    part = kit.Endpoint(profile="part")
    with pytest.raises(McpFault) as caught:
        await gateway.old("resources/subscribe", params, connection=connection, endpoint=part)
    assert (caught.value.code, caught.value.data["reason"]) == (403, "not_permitted")
    with pytest.raises(McpFault) as caught:
        await gateway.old("resources/subscribe", {"uri": "test://no"}, connection=connection)
    assert caught.value.code == -32002
    assert one.count("resources/subscribe") == 0
    connection.close()


async def test_a_connection_that_ends_leaves_no_subscription(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    gateway = await start(server)
    for _ in range(5):
        connection, _ = gateway.connect()
        await gateway.old("resources/subscribe", {"uri": "test://a"}, connection=connection)
        connection.close()
        await gateway.until(lambda: not server.subscribed)
    assert gateway.changes._watches == {}
    assert gateway.changes._sights == {}
    assert gateway.changes._updates._holds == {}


async def test_a_connection_has_so_many_subscriptions_and_no_more(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    gateway = await start(server)
    connection, _ = gateway.connect()
    connection.uris.update(f"test://{n}" for n in range(MOST_URIS))
    with pytest.raises(McpFault) as caught:
        await gateway.old("resources/subscribe", {"uri": "test://a"}, connection=connection)
    assert caught.value.code == -32602
    assert server.count("resources/subscribe") == 0
    connection.close()


# Log messages.


async def test_log_messages_go_to_connections_that_want_their_level(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    gateway = await start(server)
    (quiet, silence), (loud, noise) = gateway.connect(), gateway.connect(gateway.caller("bob"))
    unset, nothing = gateway.connect(gateway.caller("eve"))
    assert await gateway.old("logging/setLevel", {"level": "error"}, connection=quiet) == {}
    await gateway.until(lambda: server.level == "error")
    assert await gateway.old("logging/setLevel", {"level": "info"}, connection=loud) == {}
    await gateway.until(lambda: server.level == "info")
    for level in ("debug", "info", "error", "emergency"):
        server.say("notifications/message", level=level, logger="l", data={"n": 1})
    message = "notifications/message"
    assert [p["level"] for m, p in told_on(noise) if m == message] == ["info", "error", "emergency"]
    assert [p["level"] for m, p in told_on(silence) if m == message] == ["error", "emergency"]
    assert nothing == []
    loud.close()
    await gateway.until(lambda: server.level == "error")
    await gateway.restart(server)
    await gateway.until(lambda: server.count("logging/setLevel") == 4)
    assert server.level == "error"
    quiet.close()
    unset.close()


async def test_log_messages_are_for_those_who_see_something_of_the_server(
    start: Any, kit: Any
) -> None:
    one, two = kit.Server("one"), kit.Server("two")
    gateway = await start(one, two)
    told, blind = Told(), Told()
    wanted = Wanted(messages="debug")
    gateway.changes.watch(gateway.caller(), kit.Endpoint(profile="one"), wanted, told)
    gateway.changes.watch(gateway.caller(), kit.Endpoint(profile="none"), wanted, blind)
    two.say("notifications/message", level="error", data="secret of two")
    one.say("notifications/message", level="error", data="of one")
    assert told == [("notifications/message", {"level": "error", "data": "of one"})]
    assert blind == []


async def test_a_server_without_levels_is_not_asked_for_one(start: Any, kit: Any) -> None:
    modern, mute = kit.Server("one", era="modern"), kit.Server("two")
    del mute.capabilities["logging"]
    gateway = await start(modern, mute)
    connection, _ = gateway.connect()
    await gateway.old("logging/setLevel", {"level": "info"}, connection=connection)
    await asyncio.sleep(0.02)
    assert modern.count("logging/setLevel") == mute.count("logging/setLevel") == 0
    with pytest.raises(McpFault) as caught:
        await gateway.old("logging/setLevel", {"level": "loud"}, connection=connection)
    assert caught.value.code == -32602
    connection.close()


async def test_what_is_asked_of_servers_for_everybody_is_asked_in_nobodys_name(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    gateway = await start(server)
    LINK.set(cast("Any", "the line of whoever came first"))
    wanted = Wanted(uris=frozenset({"test://a"}), messages="info")
    watch = gateway.changes.watch(gateway.caller(), kit.Endpoint(), wanted, Told())
    await gateway.until(lambda: server.subscribed and server.level)
    watch.close()
    await gateway.until(lambda: not server.subscribed)
    assert set(server.links) == {None}


async def test_nothing_is_listened_to_when_nobody_is_there(start: Any, kit: Any) -> None:
    gateway = await start(kit.Server("one"))
    before = gateway.host.bus._facts
    watch = gateway.changes.watch(gateway.caller(), kit.Endpoint(), ALL, Told())
    assert len(gateway.host.bus._facts) == len(before) + 1
    watch.close()
    watch.close()
    assert gateway.host.bus._facts == before


async def test_a_connection_goes_on_with_newer_credentials(start: Any, kit: Any) -> None:
    gateway = await start(kit.Server("one"))
    before, after = gateway.caller("nan"), gateway.caller("nan")
    after.principal = Principal("nan", attributes={"iat": 2})
    before.badge, after.badge = Badge(), Badge()
    connection, frames = gateway.connect(before)
    connection.renew(after)
    before.badge.revoked = True
    gateway.host.register(shown)
    await gateway.until(lambda: any(b"tools/list_changed" in frame for frame in frames))
    assert len(gateway.changes._sights) == 1
    connection.close()
    assert gateway.changes._sights == {}
