"""Calls over HTTP: once, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from served import Gateway, Ledger, gateway, until, way
from toolcrib import ApprovalDecision, ApprovalRequest
from toolcrib.client import CannotConnect, Client
from toolcrib.client import http_calls as calls


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is asked again so soon that a test sees it."""
    monkeypatch.setattr(calls, "WAIT", 0.05)


async def test_results_are_what_the_host_gives(served: Gateway) -> None:
    async with Client(served.url) as host:
        for name, arguments in (
            ("add", {"a": 1}), ("add", {"a": "x"}), ("nothing", {}), ("wipe", {}), ("failing", {}),
            ("large", None), ("a/b?c#d", {}), ("..", {}), ("ä b", {}),
        ):  # fmt: skip
            there = await host.call(name, arguments)
            here = await served.host.call(name, arguments, profile="worker")
            assert there.call_id != here.call_id
            assert msgspec.json.encode(there).replace(
                there.call_id.encode(), here.call_id.encode()
            ) == msgspec.json.encode(here)


async def test_arguments_that_are_no_json_end_as_in_an_embedded_host(served: Gateway) -> None:
    async with Client(served.url) as host:
        for arguments in ({"a": float("nan")}, {"a": object()}, [1], {"a": {1, 2}}):
            there = await host.call("same", arguments)  # pyright: ignore[reportArgumentType]
            here = await served.host.call("same", arguments)  # pyright: ignore[reportArgumentType]
            assert (there.status, there.reason) == (here.status, here.reason)
            assert there.reason == "invalid_arguments"


async def test_over_a_unix_socket(tmp_path: Path) -> None:
    async with (
        gateway(unix=str(tmp_path / "x.sock")) as served,
        Client(f"unix:{served.unix}") as host,
    ):
        assert (await host.call("add", {"a": 1})).output == 3
        assert (await host.info()).door == "unix"


async def test_a_call_that_takes_longer_than_a_request_may(
    served: Gateway, short_waits: None
) -> None:
    async with Client(served.url) as host:
        result = await host.call("work", {"label": "long", "seconds": 0.4})
    assert result.output == "did long"
    assert served.ledger.begun == ["long"]


async def test_an_answer_that_is_lost_is_asked_for_again_and_nothing_runs_twice(
    served: Gateway,
) -> None:
    async with way(served.port) as between, Client(between.url) as host:
        between.answers = False
        calling = asyncio.ensure_future(host.call("work", {"label": "x", "seconds": 0.1}))
        await until(lambda: served.ledger.ended)
        between.cut()
        await until(lambda: between.connections > 1)
        between.answers = True
        between.cut()
        result = await calling
    assert result.output == "did x"
    assert served.ledger.begun == ["x"]
    assert between.heard.count(b"POST /v1/tools/work/call") >= 2


async def test_a_call_that_cannot_leave_is_raised(served: Gateway) -> None:
    async with way(served.port) as between, Client(between.url) as host:
        await between.close()
        with pytest.raises(CannotConnect):
            await host.call("work", {"label": "never"})
    assert served.ledger.begun == []


async def test_a_call_waits_for_a_host_that_is_just_starting(served: Gateway) -> None:
    async with way(served.port) as between, Client(between.url) as host:
        await between.close()
        calling = asyncio.ensure_future(host.call("add", {"a": 1}))
        await asyncio.sleep(0.1)
        await between.open()
        assert (await calling).output == 3


async def test_a_host_that_was_restarted_and_forgot_does_not_run_it_again(
    unused_tcp_port: int,
) -> None:
    ledger = Ledger()
    async with way(unused_tcp_port) as between:
        async with gateway(port=unused_tcp_port, ledger=ledger):
            host = Client(between.url)
            await host.start()
            calling = asyncio.ensure_future(host.call("work", {"label": "x", "seconds": 30}))
            await until(lambda: ledger.begun)
            await between.close()
        async with gateway(port=unused_tcp_port, ledger=ledger):
            await between.open()
            result = await calling
            await host.stop()
    assert result.reason == "outcome_unknown"
    assert ledger.begun == ["x"]


async def test_a_host_that_was_restarted_and_remembers_tells_the_ending(
    unused_tcp_port: int, tmp_path: Path
) -> None:
    ledger, store = Ledger(), f"sqlite:{tmp_path / 'trail.db'}"
    async with way(unused_tcp_port) as between:
        async with gateway(port=unused_tcp_port, ledger=ledger, store=store):
            host = Client(between.url)
            await host.start()
            between.answers = False
            calling = asyncio.ensure_future(host.call("work", {"label": "x"}))
            await until(lambda: ledger.ended)
            await between.close()
        async with gateway(port=unused_tcp_port, ledger=ledger, store=store):
            between.answers = True
            await between.open()
            result = await calling
            await host.stop()
    assert result.output == "did x"
    assert ledger.begun == ["x"]


async def test_a_host_that_is_gone_for_good_leaves_the_outcome_unknown(served: Gateway) -> None:
    async with way(served.port) as between, Client(between.url, timeout=0.5) as host:
        calling = asyncio.ensure_future(host.call("work", {"label": "x", "seconds": 30}))
        await until(lambda: served.ledger.begun)
        await between.close()
        assert (await calling).reason == "outcome_unknown"


async def test_cancelling_the_task_cancels_the_call(served: Gateway) -> None:
    async with Client(served.url) as host:
        calling = asyncio.ensure_future(host.call("work", {"label": "x", "seconds": 30}))
        await until(lambda: served.ledger.begun)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await until(lambda: served.ledger.cancelled)


async def test_closing_the_client_lets_the_cancelling_arrive(served: Gateway) -> None:
    async with Client(served.url) as host:
        calling = asyncio.ensure_future(host.call("work", {"label": "x", "seconds": 30}))
        await until(lambda: served.ledger.begun)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    await until(lambda: served.ledger.cancelled)


async def test_patience_ends_in_cancelling(served: Gateway) -> None:
    async with Client(served.url) as host:
        result = await host.call("work", {"label": "x", "seconds": 30}, patience=0.2)
    assert result.reason == "cancelled"
    assert served.ledger.cancelled == ["x"]


async def test_the_timeout_is_the_tool_s(served: Gateway) -> None:
    async with Client(served.url) as host:
        result = await host.call("work", {"label": "x", "seconds": 30}, timeout=0.1)
    assert result.reason == "timeout"


async def test_a_call_is_cancelled_by_its_id(served: Gateway) -> None:
    async with Client(served.url) as host:
        calling = asyncio.ensure_future(host.call("work", {"label": "x", "seconds": 30}))
        await until(lambda: served.ledger.begun)
        [going] = (await host.request("calls.list"))["calls"]
        assert await host.cancel(going["id"])
        assert (await calling).reason == "cancelled"
        assert not await host.cancel("c-none")


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_progress_is_told_in_order(served: Gateway, scheme: str) -> None:
    heard: list[Any] = []

    async def slowly(fraction: float | None, message: str | None) -> None:
        await asyncio.sleep(0.01)
        heard.append((fraction, message))

    async with Client(served.url.replace("http", scheme, 1)) as host:
        result = await host.call("steps", {"count": 4}, on_progress=slowly)
    assert result.output == 4
    assert heard == [(0.25, "step 1"), (0.5, "step 2"), (0.75, "step 3"), (1.0, "step 4")]


@pytest.mark.parametrize("scheme", ["http", "ws"])
@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (True, "ok"),
        (False, "approval_rejected"),
        (ApprovalDecision(answer="deny", note="not now"), "approval_rejected"),
    ],
    ids=["yes", "no", "no with a note"],
)
async def test_an_approval_is_answered_by_the_caller(
    served: Gateway, scheme: str, answer: Any, ending: str
) -> None:
    asked: list[ApprovalRequest] = []

    def decide(request: ApprovalRequest) -> Any:
        asked.append(request)
        return answer

    async with Client(served.url.replace("http", scheme, 1)) as host:
        result = await host.call("deploy", {"env": "x"}, on_approval=decide)
    assert (result.reason or result.status) == ending
    assert [request.arguments for request in asked] == [{"env": "x"}]
    assert asked[0].call_id == result.call_id


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_an_approval_that_the_caller_leaves_to_others(served: Gateway, scheme: str) -> None:
    asked: list[ApprovalRequest] = []
    async with Client(served.url.replace("http", scheme, 1)) as host:
        calling = asyncio.ensure_future(host.call("deploy", {"env": "x"}, on_approval=asked.append))
        await until(lambda: asked)
        await host.approvals.decide(asked[0].id, note="fine")
        assert (await calling).output == "on x"


async def test_a_callback_that_fails_changes_nothing(
    served: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("oh")

    async with Client(served.url) as host:
        assert (await host.call("steps", on_progress=broken)).output == 3
    assert "on_progress failed" in caplog.text
