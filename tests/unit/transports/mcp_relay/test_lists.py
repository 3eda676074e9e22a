"""Prompts, resources and templates of several servers, as one list for each caller."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, cast

import pytest

from toolcrib.core.link import LINK, UpstreamError
from toolcrib.errors import ToolFailure
from toolcrib.transports.mcp import catalogue, upstreams
from toolcrib.transports.mcp.faults import McpFault


def names(answer: dict[str, Any], member: str = "prompts", key: str = "name") -> list[str]:
    return [item[key] for item in answer[member]]


async def test_prompts_bear_the_prefix_of_their_provider_and_everything_else_as_it_came(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    server.prompts = [
        {
            "name": "greet",
            "title": "Greet",
            "arguments": [{"name": "who", "required": True, "x": 1}],
            "icons": [{"src": "data:,"}],
            "_meta": {"vendor/x": [1]},
            "x-unknown": {"a": None},
        }
    ]
    gateway = await start(server)
    answer = await gateway.modern("prompts/list")
    assert answer == {
        "prompts": [{**server.prompts[0], "name": "one-greet"}],
        "resultType": "complete",
        "ttlMs": 60_000,
        "cacheScope": "private",
    }
    assert await gateway.old("prompts/list") == {"prompts": answer["prompts"]}


async def test_of_two_prompts_of_one_name_the_second_is_found_under_its_provider(
    start: Any, kit: Any
) -> None:
    first, second = kit.Server("a", prefix=""), kit.Server("b", prefix="")
    first.prompts = second.prompts = [{"name": "same"}]
    gateway = await start(second, first)
    answer = await gateway.modern("prompts/list")
    assert names(answer) == ["b-same", "same"]
    await gateway.modern("prompts/get", {"name": "b-same"})
    await gateway.modern("prompts/get", {"name": "same"})
    assert (first.count("prompts/get"), second.count("prompts/get")) == (1, 1)
    assert ("prompts/get", {"name": "same"}) in second.asked


async def test_resources_keep_their_uris_and_the_first_server_has_what_two_list(
    start: Any, kit: Any
) -> None:
    first, second = kit.Server("a"), kit.Server("b")
    first.add("test://shared", "test://z", text="a")
    second.add("test://shared", "test://b", text="b")
    second.templates = [{"uriTemplate": "test://t/{id}", "name": "t"}]
    gateway = await start(second, first)
    answer = await gateway.modern("resources/list")
    assert names(answer, "resources", "uri") == ["test://b", "test://shared", "test://z"]
    templates = await gateway.old("resources/templates/list")
    assert templates == {"resourceTemplates": second.templates}
    read = await gateway.modern("resources/read", {"uri": "test://shared"})
    assert read["contents"][0]["text"] == "a"


async def test_pages_of_the_servers_are_followed_and_ours_are_cut_anew(
    start: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = kit.Server("one")
    server.page = 7
    server.add(*(f"test://{n:03}" for n in range(450)))
    gateway = await start(server)
    seen: list[str] = []
    params: dict[str, Any] = {}
    sizes: list[int] = []
    while True:
        answer = await gateway.modern("resources/list", params)
        seen += names(answer, "resources", "uri")
        sizes.append(len(answer["resources"]))
        if "nextCursor" not in answer:
            break
        params = {"cursor": answer["nextCursor"]}
    assert sizes == [200, 200, 50]
    assert seen == [item["uri"] for item in server.resources]
    assert server.count("resources/list") == 65


CURSORS = {
    "number": 5,
    "empty": "",
    "words": "next page please",
    "no json": base64.urlsafe_b64encode(b"hello").decode(),
    "of another list": base64.urlsafe_b64encode(b'["prompts/list","x"]').decode(),
    "huge": "A" * 40_000,
    "object": {"a": 1},
}


@pytest.mark.parametrize("cursor", CURSORS.values(), ids=CURSORS.keys())
async def test_a_cursor_that_is_not_ours_is_refused(start: Any, kit: Any, cursor: Any) -> None:
    server = kit.Server("one")
    gateway = await start(server)
    with pytest.raises(McpFault) as caught:
        await gateway.modern("resources/list", {"cursor": cursor})
    assert caught.value.code == -32602


async def test_a_list_is_kept_until_its_server_says_that_it_changed(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.prompts = [{"name": "a"}]
    gateway = await start(server)
    for _ in range(3):
        assert names(await gateway.modern("prompts/list")) == ["one-a"]
    assert server.count("prompts/list") == 1
    server.prompts = [{"name": "b"}]
    server.say("notifications/prompts/list_changed")
    assert names(await gateway.modern("prompts/list")) == ["one-b"]


async def test_a_change_while_the_list_is_fetched_is_not_lost(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    gate = asyncio.Event()

    async def slow(_: Any) -> dict[str, Any]:
        await gate.wait()
        return {"prompts": [{"name": "old"}]}

    server.answers["prompts/list"] = slow
    gateway = await start(server)
    task = asyncio.ensure_future(gateway.modern("prompts/list"))
    await gateway.until(lambda: server.count("prompts/list"))
    server.say("notifications/prompts/list_changed")
    gate.set()
    assert names(await task) == ["one-old"]
    del server.answers["prompts/list"]
    server.prompts = [{"name": "new"}]
    assert names(await gateway.modern("prompts/list")) == ["one-new"]


async def test_many_who_ask_at_once_cost_the_server_one_list_asked_in_nobodys_name(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    gateway = await start(server)
    LINK.set(cast("Any", "the line of the first who asks"))
    await asyncio.gather(*(gateway.modern("prompts/list") for _ in range(20)))
    assert server.count("prompts/list") == 1
    assert server.links == [None]


async def test_without_word_of_changes_a_list_is_kept_as_long_as_its_server_says(
    start: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "SHORTEST", 0.0)
    server = kit.Server("one")
    server.capabilities["prompts"] = {}
    server.extra = {"ttlMs": 0}
    gateway = await start(server)
    await gateway.modern("prompts/list")
    await gateway.modern("prompts/list")
    assert server.count("prompts/list") == 2
    server.extra = {"ttlMs": 3_600_000}
    await gateway.modern("prompts/list")
    await gateway.modern("prompts/list")
    assert server.count("prompts/list") == 3


def _error(_: Any) -> Any:
    raise UpstreamError(-32603, "broken")


def _failure(_: Any) -> Any:
    raise ToolFailure("gone", reason="tool_unavailable")


async def _hang(_: Any) -> Any:
    await asyncio.sleep(3600)


BAD = {
    "an error": _error,
    "a failure": _failure,
    "hanging": lambda _: _hang(_),
    "no object": lambda _: [],
    "no list": lambda _: {"prompts": 5},
    "nothing": lambda _: {},
    "wrong entries": lambda _: {"prompts": [None, 5, {}, {"name": 3}, {"name": ""}]},
    "invisible names": lambda _: {"prompts": [{"name": name} for name in "\t\n\0\u202e\u200b"]},
    "endless": lambda p: {"prompts": [], "nextCursor": p.get("cursor", "") + "x"},
    "a circle": lambda _: {"prompts": [], "nextCursor": "again"},
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_a_bad_server_never_breaks_the_list_of_the_others(
    start: Any, kit: Any, bad: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "LONGEST", 0.2)
    monkeypatch.setattr(upstreams, "PATIENCE", 3600.0)
    good, other = kit.Server("good"), kit.Server("other")
    good.prompts = [{"name": "p"}]
    other.answers["prompts/list"] = bad
    gateway = await start(good, other)
    async with asyncio.timeout(20):
        assert names(await gateway.modern("prompts/list")) == ["good-p"]


async def test_a_list_that_goes_in_circles_is_left_at_once(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.answers["prompts/list"] = BAD["a circle"]
    gateway = await start(server)
    await gateway.modern("prompts/list")
    assert server.count("prompts/list") == 2


@pytest.mark.parametrize(
    ("bound", "most", "pages"), [("MOST_ITEMS", 25, 3), ("MOST_BYTES", 1, 1), ("MOST_PAGES", 4, 4)]
)
async def test_a_list_that_is_too_long_is_cut(
    start: Any, kit: Any, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, pages: int
) -> None:
    monkeypatch.setattr(catalogue, bound, most)
    server = kit.Server("one")
    server.page = 10
    server.prompts = [{"name": f"p{n:03}"} for n in range(100)]
    gateway = await start(server)
    listed = await gateway.modern("prompts/list")
    assert len(listed["prompts"]) == min(pages * 10, most if bound == "MOST_ITEMS" else 100)
    assert server.count("prompts/list") == pages


async def test_a_tool_of_another_kind_stands_for_nothing(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.prompts = [{"name": "p"}]
    server.definitions = [{"name": "t", "inputSchema": {"type": "object"}}]
    gateway = await start(server)
    assert names(await gateway.modern("prompts/list")) == ["one-p"]
    server.life.tools = {"prompts": "one-t", "resources": "one-get_prompt"}
    for method in ("prompts/list", "resources/list"):
        with pytest.raises(McpFault) as caught:
            await gateway.modern(method)
        assert caught.value.code == -32601


async def test_a_server_that_failed_is_not_asked_again_at_once(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.answers["prompts/list"] = _failure
    gateway = await start(server)
    await gateway.modern("prompts/list")
    await gateway.modern("prompts/list")
    assert server.count("prompts/list") == 1


async def test_while_a_server_is_down_its_lists_stay(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.prompts = [{"name": "a"}]
    server.add("test://a")
    gateway = await start(server)
    await gateway.modern("prompts/list")
    await gateway.modern("resources/list")
    server.down = True
    await gateway.restart(server)
    assert gateway.host.sources.relays() == []
    assert names(await gateway.modern("prompts/list")) == ["one-a"]
    assert names(await gateway.modern("resources/list"), "resources", "uri") == ["test://a"]
    with pytest.raises(McpFault) as caught:
        await gateway.modern("resources/read", {"uri": "test://a"})
    assert (caught.value.code, caught.value.data["reason"]) == (503, "tool_unavailable")


async def test_words_are_shown_without_invisible_characters(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.prompts = [
        {
            "name": "p",
            "title": "a\u202eb",
            "description": "c\u200bd",
            "arguments": [{"name": "x", "description": "e\u2066f"}, "odd"],
        }
    ]
    server.resources = [{"uri": "test://a", "name": "n\u202em", "description": "g\x1bh"}]
    gateway = await start(server)
    [prompt] = (await gateway.modern("prompts/list"))["prompts"]
    assert prompt == {
        "name": "one-p",
        "title": "a\\u202eb",
        "description": "c\\u200bd",
        "arguments": [{"name": "x", "description": "e\\u2066f"}, "odd"],
    }
    [resource] = (await gateway.modern("resources/list"))["resources"]
    assert resource == {"uri": "test://a", "name": "n\\u202em", "description": "g\\u001bh"}


@pytest.mark.parametrize(
    ("profile", "prompts", "uris"),
    [
        ("all", ["one-open", "one-shut", "two-p"], ["test://private/a", "test://public/a"]),
        ("one", ["one-open", "one-shut"], ["test://private/a", "test://public/a"]),
        ("part", ["one-open"], ["test://public/a"]),
        ("none", [], []),
        ("hidden", [], []),
    ],
)
async def test_a_list_has_what_its_caller_may_get_and_nothing_else(
    start: Any, kit: Any, profile: str, prompts: list[str], uris: list[str]
) -> None:
    one, two = kit.Server("one"), kit.Server("two")
    one.prompts = [{"name": "open"}, {"name": "shut"}]
    one.add("test://public/a", "test://private/a")
    two.prompts = [{"name": "p"}]
    gateway = await start(one, two)
    endpoint = kit.Endpoint(profile=profile)
    if prompts:
        listed = await gateway.modern("prompts/list", endpoint=endpoint)
        assert names(listed) == prompts
        listed = await gateway.modern("resources/list", endpoint=endpoint)
        assert names(listed, "resources", "uri") == uris
    else:
        for method in ("prompts/list", "resources/list", "resources/templates/list"):
            with pytest.raises(McpFault) as caught:
                await gateway.modern(method, endpoint=endpoint)
            assert (caught.value.code, caught.value.http) == (-32601, 404)
    # The same decides on what is called.
    for name in ("one-open", "one-shut", "two-p"):
        await _expect(gateway, "prompts/get", {"name": name}, endpoint, name in prompts)
    for uri in ("test://public/a", "test://private/a"):
        await _expect(gateway, "resources/read", {"uri": uri}, endpoint, uri in uris)


async def _expect(gateway: Any, method: str, params: Any, endpoint: Any, allowed: bool) -> None:
    if allowed:
        await gateway.modern(method, params, endpoint=endpoint)
    else:
        with pytest.raises(McpFault):
            await gateway.modern(method, params, endpoint=endpoint)


async def test_what_is_advertised_is_what_the_caller_may_have(start: Any, kit: Any) -> None:
    one, two = kit.Server("one"), kit.Server("two")
    one.capabilities = {"prompts": {}, "resources": {}}
    gateway = await start(one, two)
    relays, caller = gateway.dispatcher.relays, gateway.caller()
    every = relays.capabilities(caller, kit.Endpoint(), "handshake")
    assert every == {
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "completions": {},
    }
    one_only = relays.capabilities(caller, kit.Endpoint(profile="one"), "modern")
    assert one_only == {
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True},
    }
    assert relays.capabilities(caller, kit.Endpoint(profile="none"), "modern") == {"logging": {}}
