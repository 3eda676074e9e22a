"""`prompts/get`, `resources/read` and `completion/complete`: calls like any other, told apart."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.core.link import LINK, UpstreamError
from toolcrib.transports.mcp.faults import McpFault

ELICITATION = {"elicitation": {"form": {}}}


async def refused(asking: Any) -> McpFault:
    with pytest.raises(McpFault) as caught:
        await asking
    return caught.value


async def test_a_prompt_comes_as_its_server_gave_it_and_the_call_is_on_the_trail(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one", era="modern")
    server.prompts = [{"name": "greet"}]
    raw = {
        "resultType": "complete",
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi", "x": 1}}],
        "x-more": [None],
        "_meta": {"vendor/x": 1, "io.modelcontextprotocol/serverInfo": {"name": "behind"}},
    }
    server.answers["prompts/get"] = lambda _: raw
    gateway = await start(server)
    params = {"name": "one-greet", "arguments": {"who": "Ann"}}
    answer = await gateway.old("prompts/get", params)
    assert answer == {
        "messages": raw["messages"],
        "x-more": [None],
        "_meta": {"vendor/x": 1},
    }
    modern = await gateway.modern("prompts/get", params)
    assert modern == {k: v for k, v in raw.items() if k != "_meta"}
    called = [params for method, params in server.asked if method == "prompts/get"]
    assert called == [{"name": "greet", "arguments": {"who": "Ann"}}] * 2
    trail = await gateway.host.trail()
    assert {event.data["tool"] for event in trail if event.type == "call.finished"} == {
        "one-get_prompt"
    }


async def test_a_resource_comes_as_its_server_gave_it_with_how_long_it_may_be_kept(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    server.add("test://a")
    gateway = await start(server)
    body = {"contents": [{"uri": "test://a", "text": "text", "x-new": 1}], "x-more": True}
    assert await gateway.old("resources/read", {"uri": "test://a"}) == body
    assert await gateway.modern("resources/read", {"uri": "test://a"}) == {
        **body,
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }
    server.answers["resources/read"] = lambda _: {
        "contents": [],
        "ttlMs": 5,
        "cacheScope": "public",
    }
    assert await gateway.modern("resources/read", {"uri": "test://a"}) == {
        "contents": [],
        "resultType": "complete",
        "ttlMs": 5,
        "cacheScope": "private",
    }


async def test_a_uri_belongs_to_who_lists_it_then_to_whose_template_it_fits_then_to_the_only_one(
    start: Any, kit: Any
) -> None:
    one, two = kit.Server("one"), kit.Server("two")
    one.templates = [{"uriTemplate": "test://t/{id}/data", "name": "t"}]
    two.add("test://t/listed/data", text="two")
    one.texts = {"test://t/listed/data": "one", "test://t/5/data": "one"}
    gateway = await start(one, two)
    read = await gateway.modern("resources/read", {"uri": "test://t/listed/data"})
    assert read["contents"][0]["text"] == "two"
    read = await gateway.modern("resources/read", {"uri": "test://t/5/data"})
    assert read["contents"][0]["text"] == "one"
    before = len(one.asked) + len(two.asked)
    await refused(gateway.modern("resources/read", {"uri": "test://unlisted"}))
    assert len(one.asked) + len(two.asked) == before  # nobody is asked by guessing
    one.texts["test://unlisted"] = "only"
    endpoint = kit.Endpoint(profile="one")
    read = await gateway.modern("resources/read", {"uri": "test://unlisted"}, endpoint=endpoint)
    assert read["contents"][0]["text"] == "only"


@pytest.mark.parametrize("era", ["handshake", "modern"])
@pytest.mark.parametrize("several", [False, True], ids=["its server", "nobody"])
async def test_a_resource_that_there_is_not_has_the_code_of_the_clients_era(
    start: Any, kit: Any, era: str, several: bool
) -> None:
    servers = [kit.Server("one", era=era), *([kit.Server("two")] if several else [])]
    gateway = await start(*servers)
    old = await refused(gateway.old("resources/read", {"uri": "test://no"}))
    new = await refused(gateway.modern("resources/read", {"uri": "test://no"}))
    assert (old.code, new.code) == (-32002, -32602)
    assert old.data == new.data == {"uri": "test://no"}


async def test_other_errors_of_a_server_come_as_they_are(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.prompts = [{"name": "p"}]

    def fail(_: Any) -> Any:
        raise UpstreamError(-32602, "who is missing", {"missing": ["who"]})

    server.answers["prompts/get"] = server.answers["resources/read"] = fail
    gateway = await start(server)
    for asking in (
        gateway.modern("prompts/get", {"name": "one-p"}),
        gateway.old("prompts/get", {"name": "one-p"}),
        gateway.old("resources/read", {"uri": "test://a"}),
    ):
        fault = await refused(asking)
        assert fault.error() == {
            "code": -32602,
            "message": "who is missing",
            "data": {"missing": ["who"]},
        }


async def test_a_refusal_says_why_with_a_code_of_ours_and_is_on_the_trail(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    server.prompts = [{"name": "shut"}]
    server.add("test://private/a")
    gateway = await start(server)
    part = kit.Endpoint(profile="part")
    fault = await refused(gateway.modern("prompts/get", {"name": "one-shut"}, endpoint=part))
    assert fault.code == 403
    assert fault.data["status"] == "denied"
    assert fault.data["reason"] == "argument_not_allowed"
    params = {"uri": "test://private/a"}
    fault = await refused(gateway.old("resources/read", params, endpoint=part))
    assert fault.code == 403
    assert server.count("resources/read") == server.count("prompts/get") == 0
    trail = await gateway.host.trail()
    ended = {event.call_id for event in trail if event.type == "call.denied"}
    came = [e.data["tool"] for e in trail if e.type == "call.received" and e.call_id in ended]
    assert came == ["one-get_prompt", "one-read_resource"]


async def test_what_is_outside_the_profile_is_refused_on_the_trail_and_concealed_where_it_should_be(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    server.prompts = [{"name": "p"}]
    server.add("test://a")
    server.templates = [{"uriTemplate": "test://t/{id}", "name": "t"}]
    gateway = await start(server)
    for method in ("prompts/list", "resources/list", "resources/templates/list"):
        await gateway.modern(method)  # somebody has looked
    cases = {
        "prompts/get": [{"name": "one-p"}],
        "resources/read": [{"uri": "test://a"}, {"uri": "test://t/5"}],
    }
    for method, all_params in cases.items():
        for params in all_params:
            plain = kit.Endpoint(profile="none")
            fault = await refused(gateway.modern(method, params, endpoint=plain))
            assert (fault.code, fault.data["reason"]) == (403, "not_in_profile")
            veiled = kit.Endpoint(profile="hidden")
            fault = await refused(gateway.modern(method, params, endpoint=veiled))
            absent = dict.fromkeys(params, "none:such")
            unknown = await refused(gateway.modern(method, absent, endpoint=veiled))
            assert fault.error() == unknown.error()
            assert fault.code == -32601
    assert server.count("resources/read") == server.count("prompts/get") == 0
    denied = [e for e in await gateway.host.trail() if e.type == "call.denied"]
    assert {e.data["reason"] for e in denied} == {"not_in_profile"}
    assert len(denied) == 6


async def test_a_server_that_needs_input_gets_it_from_a_modern_client(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.prompts = [{"name": "p"}]
    server.add("test://a")

    async def ask(_: Any) -> dict[str, Any]:
        link = LINK.get()
        assert link is not None
        request = {"method": "elicitation/create", "params": {"message": "who?", "mode": "form"}}
        answers = await link.ask({"who": request})
        return {"messages": [answers], "contents": [answers]}

    server.answers["prompts/get"] = server.answers["resources/read"] = ask
    gateway = await start(server)
    for method, params in (
        ("prompts/get", {"name": "one-p"}),
        ("resources/read", {"uri": "test://a"}),
    ):
        first = await gateway.modern(method, params, capabilities=ELICITATION)
        assert first["resultType"] == "input_required"
        assert first["inputRequests"]["who"]["method"] == "elicitation/create"
        assert "ttlMs" not in first
        given = {"who": {"action": "accept", "content": {"name": "Ann"}}}
        again = {**params, "inputResponses": given, "requestState": first["requestState"]}
        second = await gateway.modern(method, again, capabilities=ELICITATION)
        assert second["messages"] == [given]
        assert second["resultType"] == "complete"
    assert server.count("prompts/get") == server.count("resources/read") == 1


async def test_what_is_too_large_to_pass_on_is_an_error_and_no_broken_result(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    server.add("test://a", text="x" * 1_100_000)
    gateway = await start(server)
    fault = await refused(gateway.modern("resources/read", {"uri": "test://a"}))
    assert (fault.code, fault.data) == (413, {"reason": "output_too_large"})


WRONG: dict[str, tuple[str, Any]] = {
    "prompt without name": ("prompts/get", {}),
    "prompt with a number": ("prompts/get", {"name": 5}),
    "prompt that there is not": ("prompts/get", {"name": "one-none"}),
    "prompt by its server's name": ("prompts/get", {"name": "p"}),
    "prompt arguments": ("prompts/get", {"name": "one-p", "arguments": []}),
    "resource without uri": ("resources/read", {}),
    "completion without ref": ("completion/complete", {"argument": {"name": "a", "value": ""}}),
    "completion of nothing": (
        "completion/complete",
        {"ref": {"type": "ref/x"}, "argument": {"name": "a", "value": ""}},
    ),
    "completion without value": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "one-p"}, "argument": {"name": "a"}},
    ),
    "completion of an unknown prompt": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}},
    ),
    "completion with odd context": (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "one-p"},
            "argument": {"name": "a", "value": ""},
            "context": 5,
        },
    ),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
async def test_wrong_params_are_named(start: Any, kit: Any, case: tuple[str, Any]) -> None:
    server = kit.Server("one")
    server.prompts = [{"name": "p"}]
    gateway = await start(server, kit.Server("two"))
    for ask in (gateway.modern, gateway.old):
        fault = await refused(ask(*case))
        assert fault.code == -32602
    assert server.count("prompts/get") == server.count("completion/complete") == 0


async def test_completions_come_from_the_owner_under_its_own_names(start: Any, kit: Any) -> None:
    one, two, mute = kit.Server("one"), kit.Server("two"), kit.Server("mute")
    one.prompts = mute.prompts = [{"name": "p"}]
    two.templates = [{"uriTemplate": "test://{x}", "name": "t"}]
    del mute.capabilities["completions"]
    gateway = await start(one, two, mute)
    argument = {"name": "a", "value": "py"}
    params = {
        "ref": {"type": "ref/prompt", "name": "one-p", "x": 1},
        "argument": argument,
        "context": {"arguments": {"b": "c"}},
    }
    answer = await gateway.modern("completion/complete", params)
    assert answer == {"completion": {"values": ["py!"]}, "resultType": "complete"}
    sent = {**params, "ref": {"type": "ref/prompt", "name": "p", "x": 1}}
    assert one.asked[-1] == ("completion/complete", sent)
    ref = {"type": "ref/resource", "uri": "test://{x}"}
    answer = await gateway.old("completion/complete", {"ref": ref, "argument": argument})
    assert answer == {"completion": {"values": ["py!"]}}
    assert two.asked[-1] == ("completion/complete", {"ref": ref, "argument": argument})
    ref = {"type": "ref/prompt", "name": "mute-p"}
    answer = await gateway.old("completion/complete", {"ref": ref, "argument": argument})
    assert answer == {"completion": {"values": [], "total": 0, "hasMore": False}}
    assert mute.count("completion/complete") == 0


async def test_what_is_passed_on_bears_what_the_request_said_and_no_questions(
    start: Any, kit: Any
) -> None:
    server = kit.Server("one")
    server.prompts = [{"name": "p"}]

    async def ask(_: Any) -> Any:
        link = LINK.get()
        assert link is not None
        link.notify("notifications/progress", {"progress": 1})
        return await link.ask({"who": {"method": "elicitation/create", "params": {}}})

    gateway = await start(server)
    params = {
        "ref": {"type": "ref/prompt", "name": "one-p"},
        "argument": {"name": "a", "value": ""},
    }
    await gateway.modern("completion/complete", params, capabilities=ELICITATION)
    link = server.links[-1]
    assert (link.era, dict(link.capabilities)) == ("modern", ELICITATION)
    assert server.links[0] is None  # the list was for everybody
    server.answers["completion/complete"] = ask
    for asking in (gateway.modern, gateway.old):
        fault = await refused(asking("completion/complete", params))
        assert fault.data["reason"] == "upstream_error"
    assert LINK.get() is None


@pytest.mark.parametrize("profile", ["part", "none", "hidden"])
async def test_nothing_is_completed_that_may_not_be_had(start: Any, kit: Any, profile: str) -> None:
    server = kit.Server("one")
    server.prompts = [{"name": "shut"}]
    gateway = await start(server)
    params = {
        "ref": {"type": "ref/prompt", "name": "one-shut"},
        "argument": {"name": "a", "value": ""},
    }
    endpoint = kit.Endpoint(profile=profile)
    fault = await refused(gateway.modern("completion/complete", params, endpoint=endpoint))
    assert fault.code == (-32602 if profile == "part" else -32601)
    assert server.count("completion/complete") == 0


async def test_a_server_that_fails_to_complete_is_named(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.prompts = [{"name": "p"}]
    server.answers["completion/complete"] = lambda _: ["no object"]
    gateway = await start(server)
    params = {
        "ref": {"type": "ref/prompt", "name": "one-p"},
        "argument": {"name": "a", "value": ""},
    }
    fault = await refused(gateway.modern("completion/complete", params))
    assert (fault.code, fault.data["reason"]) == (502, "upstream_error")


async def test_methods_of_the_other_era_are_unknown(start: Any, kit: Any) -> None:
    gateway = await start(kit.Server("one"))
    for method in ("logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
        fault = await refused(gateway.modern(method, {"uri": "a", "level": "info"}))
        assert (fault.code, fault.http) == (-32601, 404)
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        fault = await refused(gateway.old(method, {"taskId": "a"}))
        assert fault.code == -32601


async def test_who_is_known_no_more_gets_nothing(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.prompts = [{"name": "p"}]
    gateway = await start(server)
    caller = gateway.caller()
    caller.badge.revoked = True
    for method in ("prompts/list", "prompts/get", "resources/read", "completion/complete"):
        fault = await refused(gateway.modern(method, {"name": "one-p"}, caller=caller))
        assert fault.data["reason"] == "unauthenticated"
    assert server.asked == []
