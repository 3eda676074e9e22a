"""Servers behind a URL: both eras, streams that break, sessions that end, answers without end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mcp_http_server import event, mcp_server
from mcp_upstreams import Link, call, context, descriptors, entered, failure, provider, until
from toolcrib.core.link import LINK
from toolcrib.errors import Denial, ToolcribError, ToolFailure
from toolcrib.protocol.mcp.keys import TASKS

ERAS = pytest.mark.parametrize("era", ["handshake", "modern"])
ACCEPTED = {"action": "accept", "content": {}}


@ERAS
async def test_calls_pass_through_and_eras_are_found_out(tmp_path: Path, era: str) -> None:
    async with mcp_server(era) as server, entered(tmp_path, {"url": server.url}) as up:
        assert up.relay.era == era
        for name in ("echo", "stream"):
            result = await call(up, name)
            assert (result.status, result.output) == ("ok", "good")
        _, headers = server.last("tools/call")
        if era == "modern":
            assert headers["mcp-protocol-version"] == "2026-07-28"
            assert (headers["mcp-method"], headers["mcp-name"]) == ("tools/call", "stream")
        else:
            assert headers["mcp-protocol-version"] == "2025-06-18"
            assert headers["mcp-session-id"] in server.sessions
            assert server.told == ["notifications/initialized"]


async def test_marked_arguments_stand_in_headers_too(tmp_path: Path) -> None:
    async with mcp_server("modern") as server, entered(tmp_path, {"url": server.url}) as up:
        await call(up, "region", region="zürich")
        assert server.last("tools/call")[1]["mcp-param-region"] == "=?base64?esO8cmljaA==?="
        await call(up, "region")
        assert "mcp-param-region" not in server.last("tools/call")[1]


async def test_a_tool_whose_marks_are_wrong_is_not_listed(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
    async with mcp_server("modern") as server:
        server.tools.append({"name": "bad", "inputSchema": schema})
        async with entered(tmp_path, {"url": server.url}) as up:
            assert "up-bad" not in {spec.name for spec in await up.list_tools()}
            assert any("bad" in problem for problem in up.problems)


@ERAS
@pytest.mark.parametrize("kind", ["drop", "cut"])
async def test_a_broken_connection_leaves_the_outcome_unknown_and_is_not_replayed(
    tmp_path: Path, era: str, kind: str
) -> None:
    async with mcp_server(era) as server, entered(tmp_path, {"url": server.url}) as up:
        error = await failure(up, kind)
        assert error.reason == "outcome_unknown"
        assert server.calls(kind) == 1
        assert (await call(up, "echo")).output == "good"


@ERAS
async def test_a_server_that_is_not_there_was_not_asked(tmp_path: Path, era: str) -> None:
    async with mcp_server(era) as server:
        made = provider(tmp_path, {"url": server.url})
        async with made:
            await made.list_tools()
            ctx = context(made, "echo")
            await server.stop()
            with pytest.raises(ToolFailure) as caught:
                await made.execute(ctx)
            assert caught.value.reason in ("upstream_error", "outcome_unknown")
            with pytest.raises(ToolFailure) as caught:
                await made.execute(ctx)
            assert (caught.value.reason, caught.value.retryable) == ("upstream_error", True)
            with pytest.raises(ToolcribError):
                await made.health()


async def test_a_stream_goes_on_where_it_broke(tmp_path: Path) -> None:
    async with mcp_server("handshake") as server, entered(tmp_path, {"url": server.url}) as up:
        assert (await call(up, "resume")).output == "good"
        assert server.gets[-1] == "e1"
        assert server.calls("resume") == 1


@pytest.mark.parametrize("status", [404, 410])
async def test_a_session_that_ended_is_begun_anew_once_for_all(tmp_path: Path, status: int) -> None:
    async with mcp_server("handshake") as server, entered(tmp_path, {"url": server.url}) as up:
        server.forgotten = status
        server.sessions.clear()
        results = await asyncio.gather(*(call(up, "echo") for _ in range(5)))
        assert [result.output for result in results] == ["good"] * 5
        assert sum(1 for method, _, _ in server.seen if method == "initialize") == 2
        assert server.told.count("notifications/initialized") == 2


async def test_what_was_asked_for_a_session_is_asked_of_the_next_one(tmp_path: Path) -> None:
    async with mcp_server("handshake") as server, entered(tmp_path, {"url": server.url}) as up:
        for uri in ("a:1", "a:2"):
            await up.relay.request("resources/subscribe", {"uri": uri})
        await up.relay.request("resources/unsubscribe", {"uri": "a:1"})
        await up.relay.request("logging/setLevel", {"level": "info"})
        server.sessions.clear()
        server.seen.clear()
        await call(up, "echo")
        await until(lambda: [m for m, _, _ in server.seen if m == "logging/setLevel"])
        again = [p["uri"] for m, p, _ in server.seen if m == "resources/subscribe"]
        assert again == ["a:2"]


async def test_a_server_that_forgets_every_session_is_given_up(tmp_path: Path) -> None:
    async with mcp_server("handshake") as server, entered(tmp_path, {"url": server.url}) as up:
        server.sessions = _Forgetful()  # type: ignore[assignment]
        error = await failure(up, "echo")
        assert error.reason == "upstream_error"
        assert server.calls("echo") == 2


class _Forgetful(set[str]):
    def add(self, element: str, /) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("garbage", "no message"),
        ("html", "text/html"),
        ("wrong_id", "another request"),
        ("huge", "more than 2000000 bytes"),
        ("huge_event", "more than 2000000 bytes"),
    ],
)
async def test_nonsense_is_refused_in_words(tmp_path: Path, kind: str, words: str) -> None:
    async with (
        mcp_server("modern") as server,
        entered(tmp_path, {"url": server.url, "max_message": "2MB"}) as up,
    ):
        assert words in (await failure(up, kind)).message
        assert (await call(up, "echo")).output == "good"


@pytest.mark.parametrize(("status", "reason"), [(500, "upstream_error"), (403, "tool_unavailable")])
async def test_a_status_that_says_no_fails_the_call(
    tmp_path: Path, status: int, reason: str
) -> None:
    async with mcp_server("modern") as server, entered(tmp_path, {"url": server.url}) as up:
        error = await failure(up, "status", status=status)
        assert error.reason == reason
        assert str(status) in error.message
        assert server.calls("status") == 1


@ERAS
async def test_a_cancelled_call_is_called_off(tmp_path: Path, era: str) -> None:
    async with mcp_server(era) as server, entered(tmp_path, {"url": server.url}) as up:
        ctx = context(up, "hang")
        task = asyncio.ensure_future(up.execute(ctx))
        await until(lambda: server.calls("hang"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ctx.still_running
        await until(lambda: server.gone)
        if era == "handshake":
            await until(lambda: "notifications/cancelled" in server.told)
        else:
            assert "notifications/cancelled" not in server.told


@ERAS
async def test_questions_are_put_to_the_call_on_whose_stream_they_came(
    tmp_path: Path, era: str
) -> None:
    async with (
        mcp_server(era) as server,
        entered(tmp_path, {"url": server.url, "grants": ["elicitation"]}) as up,
    ):
        other, link = Link(ACCEPTED, elicitation={}), Link(ACCEPTED, elicitation={})
        token = LINK.set(other)
        waiting = asyncio.ensure_future(call(up, "hang"))
        await until(lambda: server.calls("hang"))
        LINK.set(link)
        result = await call(up, "ask")
        LINK.reset(token)
        assert '"accept"' in result.output
        assert len(link.asked) == 1
        assert other.asked == []
        assert link.told[-1] == ("notifications/progress", {"progress": 1, "total": 2})
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_questions_on_a_calls_own_stream_need_a_grant_as_well(tmp_path: Path) -> None:
    async with mcp_server("handshake") as server, entered(tmp_path, {"url": server.url}) as up:
        link = Link(ACCEPTED, elicitation={})
        token = LINK.set(link)
        result = await call(up, "ask")
        LINK.reset(token)
        assert result.output == "null"
        assert link.asked == []


@ERAS
async def test_what_the_server_tells_by_itself_is_heard(tmp_path: Path, era: str) -> None:
    changed: list[None] = []
    heard: list[tuple[str, Any]] = []
    async with mcp_server(era) as server:
        settings = {"url": server.url}
        async with entered(tmp_path, settings, lambda: changed.append(None)) as up:
            up.relay.watch(lambda method, params: heard.append((method, dict(params))))
            if era == "modern":
                assert await up.relay.request("resources/subscribe", {"uri": "a:b"}) == {}
                wanted = {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}
                asked = [p for m, p, _ in server.seen if m == "subscriptions/listen"]
                assert wanted in [params["notifications"] for params in asked]
                assert server.listening is not None
                stream, meta = server.listening
                more = {"_meta": meta}
            else:
                await until(lambda: server.standing)
                assert server.standing is not None
                stream, more = server.standing, {}
            told = {"method": "notifications/resources/updated", "params": {"uri": "a:b", **more}}
            await event(stream, told)
            await event(stream, {"method": "notifications/tools/list_changed", "params": more})
            await until(lambda: changed)
            assert heard[0] == ("notifications/resources/updated", {"uri": "a:b"})


async def test_credentials_of_the_configuration_are_sent_and_missing_ones_named(
    tmp_path: Path,
) -> None:
    async with mcp_server("modern") as server:
        server.needs_token = "s3cret-token"
        settings = {"url": server.url, "headers": {"Authorization": "Bearer s3cret-token"}}
        async with entered(tmp_path, settings) as up:
            assert (await call(up, "echo")).output == "good"
        with pytest.raises(ToolcribError, match="wants credentials"):
            async with provider(tmp_path, {"url": server.url}, name="other"):
                pass


async def test_a_session_is_ended_and_nothing_is_left_behind(tmp_path: Path) -> None:
    async with mcp_server("handshake") as server:
        before = asyncio.all_tasks()
        fds = descriptors()
        for _ in range(5):
            async with entered(tmp_path, {"url": server.url}) as up:
                await call(up, "stream")
                await until(lambda: server.standing)
        assert len(server.deleted) == 5
        ours = {task for task in asyncio.all_tasks() - before if "mcp_http_server" not in str(task)}
        assert not {task for task in ours if "providers/mcp" in str(task)}
        await until(lambda: descriptors() <= fds + 1)


async def test_private_addresses_need_permission(tmp_path: Path) -> None:
    with pytest.raises(ToolcribError, match="not public"):
        async with provider(tmp_path, {"url": "http://10.255.255.1:9/mcp"}):
            pass


async def test_the_first_revision_is_spoken_where_nothing_else_is(tmp_path: Path) -> None:
    async with mcp_server(old=True) as server, entered(tmp_path, {"url": server.url}) as up:
        assert up.relay.era == "handshake"
        assert (await call(up, "echo")).output == "good"
        assert server.told == ["notifications/initialized"]
        assert (await failure(up, "cut")).reason == "outcome_unknown"
        with pytest.raises(ToolcribError):
            await up.health()


@pytest.mark.parametrize("forced", [{"transport": "http"}, {"era": "modern"}], ids=str)
async def test_the_first_revision_is_not_tried_when_another_is_named(
    tmp_path: Path, forced: dict[str, str]
) -> None:
    async with mcp_server(old=True) as server:
        with pytest.raises(ToolcribError, match="405"):
            async with provider(tmp_path, {"url": server.url, **forced}):
                pass


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("http://127.0.0.2:9/messages", "elsewhere"),
        ("//10.0.0.1/", "elsewhere"),
        ("ftp://x", "neither https nor http"),
    ],
)
async def test_a_server_cannot_have_messages_sent_elsewhere(
    tmp_path: Path, endpoint: str, words: str
) -> None:
    async with mcp_server(old=True) as server:
        server.endpoint = endpoint
        with pytest.raises(ToolcribError, match=words):
            async with provider(tmp_path, {"url": server.url, "transport": "sse"}):
                pass
        assert server.told == []


@pytest.mark.parametrize("status", [404, 405, 500])
async def test_a_server_without_a_stream_of_its_own_is_as_good(tmp_path: Path, status: int) -> None:
    async with (
        mcp_server("handshake", listen=status, sessions=False) as server,
        entered(tmp_path, {"url": server.url}) as up,
    ):
        await until(lambda: server.gets)
        assert (await call(up, "stream")).output == "good"
        await up.health()


async def test_a_changed_definition_is_not_what_was_decided_on(tmp_path: Path) -> None:
    async with mcp_server("modern") as server, entered(tmp_path, {"url": server.url}) as up:
        ctx = context(up, "echo")
        server.tools[0] = {**server.tools[0], "description": "now it does something else"}
        await up.list_tools()
        with pytest.raises(Denial) as caught:
            await up.execute(ctx)
        assert caught.value.reason == "definition_changed"
        assert server.calls("echo") == 0


async def test_a_callers_own_subscription_is_told_to_that_caller(tmp_path: Path) -> None:
    heard: list[str] = []
    async with mcp_server("modern") as server, entered(tmp_path, {"url": server.url}) as up:
        up.relay.watch(lambda method, _: heard.append(method))
        await until(lambda: server.listening)
        server.listening = None
        link = Link(extensions={TASKS: {}})
        token = LINK.set(link)
        wanted = {"notifications": {"taskIds": ["t1"]}}
        request = asyncio.ensure_future(up.relay.request("subscriptions/listen", wanted))
        LINK.reset(token)
        await until(lambda: server.listening)
        stream, meta = server.listening  # type: ignore[misc]
        told = {"taskId": "t1", "status": "completed", "_meta": meta}
        await event(stream, {"method": "notifications/tasks", "params": told})
        await until(lambda: len(link.told) == 2)
        assert [method.rpartition("/")[2] for method, _ in link.told] == ["acknowledged", "tasks"]
        assert link.told[1][1]["taskId"] == "t1"
        assert heard == []
        said = server.last("subscriptions/listen")[0]["_meta"]
        assert said["io.modelcontextprotocol/clientCapabilities"] == {"extensions": {TASKS: {}}}
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        assert (await call(up, "echo")).output == "good"
