"""What callers find out about what they may not read, and what servers do to a gateway."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from toolcrib.core.link import LINK, UpstreamError
from toolcrib.protocol.mcp.keys import CAPABILITIES, LOG_LEVEL, VERSION
from toolcrib.transports.mcp.asked import asked_modern
from toolcrib.transports.mcp.faults import McpFault


async def test_no_page_gives_away_that_more_is_hidden(start: Any, kit: Any) -> None:
    """A cursor to an empty page would say that there is something behind."""
    server = kit.Server("one")
    server.add("test://public/a", "test://secret/b")
    server.prompts = [{"name": "open"}, {"name": "secret"}]
    gateway = await start(server)
    settings = gateway.service.settings
    gateway.service.settings = replace(settings, mcp=replace(settings.mcp, page=1))
    part = gateway.caller(profile="part")
    for method, member in (("resources/list", "resources"), ("prompts/list", "prompts")):
        answer = await gateway.old(method, caller=part)
        assert len(answer[member]) == 1
        assert "nextCursor" not in answer
        everything = await gateway.old(method)
        assert "nextCursor" in everything, "the pages are as small as they should be"


async def test_nothing_is_completed_about_what_may_not_be_read(start: Any, kit: Any) -> None:
    server = kit.Server("one")
    server.add("test://public/a", "test://secret/b")
    server.templates = [{"uriTemplate": "test://public/{x}", "name": "t"}]
    gateway = await start(server)
    part = gateway.caller(profile="part")

    async def complete(uri: str) -> Any:
        params = {
            "ref": {"type": "ref/resource", "uri": uri},
            "argument": {"name": "x", "value": "a"},
        }
        return await gateway.modern("completion/complete", params, caller=part)

    for uri in ("test://public/a", "test://public/{x}"):
        assert (await complete(uri))["completion"]["values"] == ["a!"]
    before = server.count("completion/complete")
    with pytest.raises(McpFault, match="nothing called"):
        await complete("test://secret/b")
    assert server.count("completion/complete") == before


def test_a_template_and_a_uri_cannot_stop_the_host() -> None:
    """Matching that goes back would take longer than the world will last."""
    code = """
from toolcrib.transports.mcp.templates import fits
for value in ("{+a}", "{a}", "{?a}", "{;a}", "{.a}", "{/a}", "{&a}"):
    letter = value[1] if value[1] in "?;./&" else "a"
    nasty = letter.join([value] * 31)
    assert not fits(nasty + "z", letter * 4000), value
    fits("z" + nasty, "z" + letter * 4000 + "!")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


async def test_a_server_with_very_many_templates_is_not_all_that_is_looked_at(
    start: Any, kit: Any
) -> None:
    import asyncio

    server = kit.Server("one")
    server.page = 100_000
    server.templates = [
        {"uriTemplate": "a{+b}" + "a{+b}" * 20 + str(n), "name": "t"} for n in range(10_000)
    ]
    server.add("test://a")
    other = kit.Server("two")
    other.add("test://b")
    gateway = await start(server, other)
    await gateway.old("resources/templates/list")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    with pytest.raises(McpFault):
        await gateway.old("resources/read", {"uri": "a" * 4096})
    task.cancel()
    assert turns > 20


SECRET = "token-4f9a77c1e2"


async def test_a_server_cannot_tell_clients_what_it_was_given_to_be_let_in(
    start: Any, kit: Any
) -> None:
    """Results of calls are looked through; so is everything else that a server says."""
    server = kit.Server("one")
    words = f"I was given {SECRET}"
    server.prompts = [{"name": "open", "description": words}]
    server.definitions = [{"name": "say", "inputSchema": {"type": "object"}}]
    server.answers["completion/complete"] = lambda _: {"completion": {"values": [words]}}

    async def say(params: Any) -> Any:
        link = LINK.get()
        assert link is not None
        link.notify("notifications/message", {"level": "error", "data": {"text": words}})
        link.notify("notifications/progress", {"progress": 1, "message": words})
        asked = {"method": "elicitation/create", "params": {"message": words}}
        await link.ask({"x": asked})
        return {"content": [{"type": "text", "text": words}], "x-more": words}

    server.answers["tools/call"] = say
    gateway = await start(server)
    gateway.host.redactor.add_secret(SECRET)
    connection, frames = gateway.connect()
    await gateway.old("logging/setLevel", {"level": "debug"}, connection=connection)
    server.say("notifications/message", level="error", data={"text": words})
    await gateway.until(lambda: frames)
    said: list[Any] = [frames]
    said.append(await gateway.old("prompts/list"))
    about = {"ref": {"type": "ref/prompt", "name": "one-open"}}
    said.append(
        await gateway.old("completion/complete", {**about, "argument": {"name": "a", "value": ""}})
    )

    def refuse(_: Any) -> Any:
        raise UpstreamError(-32000, words, {"seen": words})

    server.answers["completion/complete"] = refuse
    with pytest.raises(McpFault) as caught:
        await gateway.old("completion/complete", {**about, "argument": {"name": "a", "value": "b"}})
    said.append((caught.value.message, caught.value.data))
    meta = {VERSION: "2026-07-28", CAPABILITIES: {"elicitation": {}}, "progressToken": 1}
    meta[LOG_LEVEL] = "debug"
    call: dict[str, Any] = {"name": "one-say", "arguments": {}, "_meta": meta}
    channel = kit.Channel()
    answers = gateway.dispatcher.answer
    here = gateway.caller(), kit.Endpoint()
    first = await answers(*here, asked_modern(1, "tools/call", call), channel)
    said += [first["inputRequests"], channel.sent]
    assert len(channel.sent) == 2
    again = {"requestState": first["requestState"], "inputResponses": {"x": {"action": "cancel"}}}
    last = await answers(*here, asked_modern(2, "tools/call", {**call, **again}), channel)
    said.append(last)
    assert "I was given" in str(last)
    assert SECRET not in str(said)
    connection.close()
