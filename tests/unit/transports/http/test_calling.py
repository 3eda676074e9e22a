"""Calls over HTTP: answered as in process, waited for, and stopped when nobody waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from http_gateway import Gateway, gateway
from toolcrib.transports.faults import Fault
from toolcrib.transports.http.body import strict


async def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def in_flight(served: Gateway) -> int:
    return served.serving.service.parts.pipeline.in_flight


class TestAnswers:
    async def test_the_answer_is_the_result_as_it_is_in_process(self) -> None:
        async with gateway() as served:
            value = {"ü": [1, 2.5, None, True], "n": {"deep": ["x"]}}
            reply = await served.call("echo", {"value": value})
            inside = await served.host.call("echo", {"value": value}, profile="work")
        outside = reply.json()
        assert outside.pop("call_id") == reply.headers["toolcrib-call-id"]
        expected = inside.to_dict()
        expected.pop("call_id")
        assert (reply.status, outside) == (200, expected)

    @pytest.mark.parametrize(
        ("name", "arguments", "status", "reason"),
        [
            ("add", {"a": "x", "b": 2}, 422, "invalid_arguments"),
            ("nothing", {}, 404, "unknown_tool"),
            ("forbidden", {}, 403, "denied_by_rule"),
            ("fail", {}, 200, "tool_error"),
            ("slow", {"seconds": 5}, 504, "timeout"),
        ],
        ids=["arguments", "unknown", "denied", "failed", "timeout"],
    )
    async def test_every_ending_has_its_status(self, name, arguments, status, reason) -> None:
        async with gateway() as served:
            body = {"arguments": arguments, "timeout": 0.05}
            reply = await served.ask("POST", f"/v1/tools/{name}/call", body)
        assert (reply.status, reply.reason) == (status, reason)
        assert reply.json()["call_id"] == reply.headers["toolcrib-call-id"]

    async def test_the_trail_names_the_door_and_the_caller(self) -> None:
        async with gateway() as served:
            reply = await served.call("add", {"a": 1, "b": 2}, who="ci")
            events = await served.host.trail(call_id=reply.json()["call_id"])
        first = events[0].data
        assert (first["door"], first["principal"]) == ("http", "ci")

    async def test_a_name_may_be_escaped(self) -> None:
        async with gateway() as served:
            reply = await served.call("%61dd", {"a": 1, "b": 2})
        assert reply.json()["output"] == 3

    async def test_an_empty_body_is_no_arguments(self) -> None:
        async with gateway() as served:
            reply = await served.ask("POST", "/v1/tools/echo/call")
        assert (reply.status, reply.json()["output"]) == (200, None)

    async def test_profile_and_session_are_chosen_in_the_body(self) -> None:
        async with gateway() as served:
            opened = (await served.ask("POST", "/v1/sessions", {})).json()
            reply = await served.ask(
                "POST",
                "/v1/tools/add/call",
                {"arguments": {"a": 1, "b": 2}, "session": opened["id"]},
            )
            events = await served.host.trail(call_id=reply.json()["call_id"])
            assert events[0].data["session"] == opened["id"]
            other = {"arguments": {}, "profile": "other"}
            refused = await served.ask("POST", "/v1/tools/echo/call", other)
            assert refused.reason == "not_in_profile"
            stranger = await served.ask("POST", "/v1/tools/add/call", other, who="ci")
        assert (stranger.status, stranger.reason) == (403, "not_in_profile")

    async def test_calls_run_at_the_same_time(self) -> None:
        async with gateway() as served:
            slow = asyncio.ensure_future(served.call("slow", {"seconds": 30}))
            await until(lambda: in_flight(served) == 1)
            assert (await served.call("add", {"a": 1, "b": 2})).status == 200
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)


class TestRequests:
    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b"{", "not_json"),
            (b'{"arguments": {"a": 1, "a": 2, "b": 3}}', "not_json"),
            (b'{"arguments": {"a": NaN, "b": 3}}', "not_json"),
            (b'{"arguments": ' + b"[" * 100 + b"]" * 100 + b"}", "not_json"),
            (b"[]", "invalid_request"),
            (b'{"arguments": []}', "invalid_request"),
            (b'{"arguments": {}, "extra": 1}', "invalid_request"),
            (b'{"arguments": {}, "name": "add"}', "invalid_request"),
            (b'{"arguments": {}, "wait": 1}', "invalid_request"),
            (b'{"arguments": {}, "key": "k"}', "invalid_request"),
            (b'{"arguments": {}, "timeout": "soon"}', "invalid_request"),
            (b'{"arguments": {}, "timeout": 0}', "invalid_request"),
            (b'{"arguments": {}, "session": 5}', "invalid_request"),
        ],
        ids=[
            "cut", "twice", "nan", "deep", "list", "arguments", "extra", "name", "wait", "key",
            "timeout-text", "timeout-zero", "session",
        ],
    )  # fmt: skip
    async def test_a_wrong_body_runs_nothing(self, body, reason) -> None:
        async with gateway() as served:
            reply = await served.ask("POST", "/v1/tools/echo/call", body)
            assert reply.reason == reason
            assert reply.status == (400 if reason == "not_json" else 422)
            assert not served.recorder.only("call.received")

    @pytest.mark.parametrize(
        "kind",
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"],
        ids=["plain", "form", "multipart", "empty", "short"],
    )
    async def test_a_body_has_to_say_that_it_is_json(self, kind) -> None:
        async with gateway() as served:
            given = {"Content-Type": kind}
            reply = await served.call("add", {"a": 1, "b": 2}, headers=given)
            assert (reply.status, reply.reason) == (415, "unsupported_media")
            packed = {"Content-Encoding": "gzip"}
            assert (await served.call("add", {"a": 1, "b": 2}, headers=packed)).status == 415
            assert not served.recorder.only("call.received")
            named = {"Content-Type": "Application/JSON; charset=utf-8"}
            assert (await served.call("add", {"a": 1, "b": 2}, headers=named)).status == 200

    @pytest.mark.parametrize(
        "query",
        ["?wait=-1", "?wait=301", "?wait=soon", "?wait=nan", "?wait=1&wait=2", "?what=1", "?wait="],
    )
    async def test_a_wrong_query_runs_nothing(self, query) -> None:
        async with gateway() as served:
            reply = await served.call("add", {"a": 1, "b": 2}, query=query)
            assert (reply.status, reply.reason) == (422, "invalid_request")
            assert not served.recorder.only("call.received")

    @pytest.mark.parametrize("who", [None, "tcr_unknown_0123456789", "boss x"])
    async def test_nobody_calls_without_credentials(self, who) -> None:
        async with gateway() as served:
            reply = await served.call("add", {"a": 1, "b": 2}, who=who)
            assert (reply.status, reply.reason) == (401, "unauthenticated")
            assert reply.headers["www-authenticate"].startswith("Bearer")
            assert not served.recorder.only("call.received")


class TestWaiting:
    async def test_a_long_call_is_answered_by_202_and_goes_on(self) -> None:
        async with gateway(wait=0.05) as served:
            reply = await served.call("slow", {"seconds": 0.4})
            state = reply.json()
            assert (reply.status, state["state"], state["tool"]) == (202, "running", "slow")
            assert reply.headers["location"] == f"/v1/calls/{state['call_id']}"
            assert reply.headers["retry-after"] == "1"
            again = await served.ask("GET", reply.headers["location"])
            assert (again.status, again.json()["call_id"]) == (202, state["call_id"])
            ended = await served.ask("GET", f"{reply.headers['location']}?wait=5")
            assert (ended.status, ended.json()["output"]) == (200, "done")
            assert (ended.json()["call_id"], ended.json()["metadata"]) == (state["call_id"], {})
            await until(lambda: len(served.recorder.only("call.finished")) == 1)

    async def test_the_ending_that_is_asked_for_later_has_its_own_status(self) -> None:
        async with gateway(wait=0.01) as served:
            body = {"arguments": {"seconds": 5}, "timeout": 0.2}
            reply = await served.ask("POST", "/v1/tools/slow/call", body)
            assert reply.status == 202
            ended = await served.ask("GET", f"{reply.headers['location']}?wait=5")
        assert (ended.status, ended.reason) == (504, "timeout")

    async def test_the_client_says_how_long_it_waits(self) -> None:
        async with gateway(wait=30) as served:
            assert (await served.call("slow", {"seconds": 1}, query="?wait=0")).status == 202
            wish = {"Prefer": "respond-async, wait=0"}
            reply = await served.call("slow", {"seconds": 1}, headers=wish)
            assert (reply.status, reply.headers["preference-applied"]) == (202, "wait=0")
            quick = await served.call("add", {"a": 1, "b": 2}, query="?wait=0")
            assert (quick.status, quick.json()["output"]) == (200, 3)

    async def test_a_wish_beyond_the_limit_is_cut(self) -> None:
        async with gateway(max_wait=2.0) as served:
            wish = {"Prefer": "wait=100"}
            reply = await served.call("add", {"a": 1, "b": 2}, headers=wish)
            assert reply.headers["preference-applied"] == "wait=2"
            assert (await served.call("add", {"a": 1, "b": 2}, query="?wait=3")).status == 422

    async def test_many_deferred_calls_keep_their_results_apart(self) -> None:
        async with gateway(wait=0.02) as served:
            replies = await asyncio.gather(
                *(served.call("slow", {"seconds": 0.2 + n / 100}) for n in range(10)),
                *(served.call("echo", {"value": n}) for n in range(10)),
            )
            deferred = [reply for reply in replies if reply.status == 202]
            assert len(deferred) == 10
            for reply in deferred:
                ended = await served.ask("GET", f"{reply.headers['location']}?wait=5")
                assert ended.json()["call_id"] == reply.json()["call_id"]
                assert ended.json()["output"] == "done"
            assert [reply.json()["output"] for reply in replies[10:]] == list(range(10))

    async def test_a_call_that_waits_for_a_person_says_so(self) -> None:
        async with gateway(wait=0.05) as served:
            reply = await served.call("risky", {"what": "x"}, who="ci")
            state = reply.json()
            assert (reply.status, state["state"]) == (202, "awaiting_approval")
            path = f"/v1/approvals/{state['approval']}"
            assert (await served.ask("GET", path, who="ci")).json()["state"] == "pending"
            decided = await served.ask("POST", path, {"allow": True, "note": "fine"})
            assert (decided.status, decided.json()["state"]) == (200, "allowed")
            ended = await served.ask("GET", f"{reply.headers['location']}?wait=5", who="ci")
        assert (ended.status, ended.json()["output"]) == (200, "did x")

    async def test_others_do_not_learn_of_a_call(self) -> None:
        async with gateway(wait=0.02) as served:
            reply = await served.call("slow", {"seconds": 1})
            found = await served.ask("GET", reply.headers["location"], who="ci")
            assert (found.status, found.reason) == (404, "not_found")


class TestLeaving:
    async def test_a_client_that_leaves_stops_its_call(self) -> None:
        async with gateway() as served:
            wire = await served.connect()
            body = {"arguments": {"seconds": 60}}
            await wire.send(served.request("POST", "/v1/tools/slow/call", body))
            await until(lambda: in_flight(served) == 1)
            await wire.close()
            await until(lambda: in_flight(served) == 0)
            await until(lambda: served.recorder.only("call.finished"))
            assert served.recorder.only("call.finished")[0].data["reason"] == "cancelled"

    async def test_pipelined_requests_of_a_client_that_leaves_do_not_run(self) -> None:
        async with gateway() as served:
            wire = await served.connect()
            slow = served.request("POST", "/v1/tools/slow/call", {"arguments": {"seconds": 60}})
            quick = served.request("POST", "/v1/tools/add/call", {"arguments": {"a": 1, "b": 2}})
            await wire.send(slow + quick)
            await until(lambda: in_flight(served) == 1)
            await wire.close()
            await until(lambda: served.recorder.only("call.finished"))
            await asyncio.sleep(0.05)
            assert len(served.recorder.only("call.received")) == 1

    async def test_who_was_answered_by_202_may_leave(self) -> None:
        async with gateway(wait=0.02) as served:
            async with await served.connect() as wire:
                body = {"arguments": {"seconds": 0.3}}
                await wire.send(served.request("POST", "/v1/tools/slow/call", body))
                reply = await wire.reply()
            ended = await served.ask("GET", f"{reply.headers['location']}?wait=5")
        assert (reply.status, ended.json()["output"]) == (202, "done")

    async def test_a_connection_is_of_use_again_after_202(self) -> None:
        async with gateway(wait=0.02) as served, await served.connect() as wire:
            await wire.send(
                served.request("POST", "/v1/tools/slow/call", {"arguments": {"seconds": 0.3}})
            )
            assert (await wire.reply()).status == 202
            await wire.send(
                served.request("POST", "/v1/tools/add/call", {"arguments": {"a": 1, "b": 2}})
            )
            assert (await wire.reply()).json()["output"] == 3

    async def test_a_pending_question_outlives_its_client(self) -> None:
        async with gateway() as served:
            wire = await served.connect()
            body = {"arguments": {"what": "x"}}
            await wire.send(served.request("POST", "/v1/tools/risky/call", body, who="ci"))
            await until(lambda: served.recorder.only("approval.requested"))
            await wire.close()
            await until(lambda: in_flight(served) == 0)
            pending = (await served.ask("GET", "/v1/approvals")).json()["approvals"]
            assert [(each["tool"], each["state"]) for each in pending] == [("risky", "pending")]
            path = f"/v1/approvals/{pending[0]['id']}"
            assert (await served.ask("POST", path, {"allow": True})).status == 200
            again = await served.call("risky", {"what": "x"}, who="ci")
        assert (again.status, again.json()["output"]) == (200, "did x")

    async def test_a_keyed_call_goes_on_without_its_client(self) -> None:
        async with gateway() as served:
            wire = await served.connect()
            body = {"arguments": {"seconds": 0.2}}
            key = {"Idempotency-Key": "one"}
            await wire.send(served.request("POST", "/v1/tools/slow/call", body, headers=key))
            await until(lambda: in_flight(served) == 1)
            await wire.close()
            again = await served.call("slow", {"seconds": 0.2}, headers=key)
            assert (again.status, again.json()["output"]) == (200, "done")
            assert len(served.recorder.only("call.received")) == 1


class TestKeys:
    async def test_the_same_key_runs_once(self) -> None:
        async with gateway() as served:
            key = {"Idempotency-Key": "k1"}
            first = await served.call("add", {"a": 1, "b": 2}, headers=key)
            second = await served.call("add", {"a": 1, "b": 2}, headers=key)
            assert first.json() == second.json()
            assert len(served.recorder.only("call.received")) == 1
            other = await served.call("add", {"a": 5, "b": 2}, headers=key)
            assert (other.status, other.reason) == (409, "key_reused")
            mine = await served.call("add", {"a": 5, "b": 2}, headers=key, who="ci")
        assert mine.json()["output"] == 7

    async def test_a_keyed_call_is_answered_by_202_too(self) -> None:
        async with gateway() as served:
            key = {"Idempotency-Key": "k2"}
            reply = await served.call("slow", {"seconds": 0.3}, headers=key, query="?wait=0.02")
            assert reply.status == 202
            ended = await served.ask("GET", f"{reply.headers['location']}?wait=5")
        assert ended.json()["output"] == "done"

    @pytest.mark.parametrize("key", ["", "x" * 257, "ü"], ids=["empty", "long", "not-ascii"])
    async def test_a_key_has_limits(self, key) -> None:
        async with gateway() as served:
            reply = await served.call("add", {"a": 1, "b": 2}, headers={"Idempotency-Key": key})
        assert (reply.status, reply.reason) == (422, "invalid_request")


def test_the_quick_parser_refuses_what_the_careful_one_refuses() -> None:
    hidden = b'{"a":1,"a":2,"b":"\\u0022\\u0022"}'  # as many quotation marks as without one a
    for text in (b'{"a":1,"a":2}', b'{"a":{"b":1,"b":1}}', hidden, b'"\\ud800"', b"[NaN]", b"\xff"):
        with pytest.raises(Fault):
            strict(text, 1000)
    value = {"a": 'quote " backslash \\ ü', "b": [1, -5, 2.5, 10**30], "c\n": {"": None}}
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert strict(text.encode(), 1000) == value
