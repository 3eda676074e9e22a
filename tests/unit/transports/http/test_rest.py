"""Methods over HTTP: parameters, verbs, tags, and everything that is beside the methods."""

from __future__ import annotations

import json
import re

import pytest

from http_gateway import CONFIG, gateway
from toolcrib.reasons import REASONS
from toolcrib.transports.http.routes import Routes
from toolcrib.transports.wire import METHODS


class TestRequests:
    async def test_text_becomes_what_the_method_takes(self) -> None:
        async with gateway() as served:
            page = (await served.ask("GET", "/v1/tools?limit=2&prefix=f")).json()
            assert [tool["name"] for tool in page["tools"]] == ["fail", "forbidden"][:1]
            page = (await served.ask("GET", "/v1/tools?limit=2")).json()
            assert len(page["tools"]) == 2
            more = (await served.ask("GET", f"/v1/tools?limit=2&cursor={page['next']}")).json()
            assert page["tools"][0] != more["tools"][0]
            live = await served.ask("GET", "/v1/grants?live=false")
            assert live.json() == {"grants": []}
            found = await served.ask("GET", "/v1/search?query=two%20numbers&limit=1")
            assert found.json()["tools"][0]["tool"]["name"] == "add"

    @pytest.mark.parametrize(
        "path",
        [
            "/v1/tools?limit=ten", "/v1/tools?limit=1.5", "/v1/tools?limit=", "/v1/tools?limits=5",
            "/v1/tools?limit=1&limit=2", "/v1/grants?live=perhaps", "/v1/calls?since=nan",
            "/v1/calls?since=inf", "/v1/search", "/v1/tools/add?name=slow", "/v1/tools?%FF=1",
            "/v1/calls/c1?wait=-1", "/v1/calls/c1?wait=301", "/v1/calls/c1?wait=null",
        ],
    )  # fmt: skip
    async def test_wrong_parameters_are_refused(self, path) -> None:
        async with gateway() as served:
            reply = await served.ask("GET", path)
        assert (reply.status, reply.reason) == (422, "invalid_request")

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/v1/explain", {"name": 5}),
            ("/v1/explain", {}),
            ("/v1/explain", {"name": "add", "what": 1}),
            ("/v1/approvals/a1", {"id": "a2", "allow": True}),
            ("/v1/approvals/a1", {"allow": "yes"}),
            ("/v1/sessions?profile=work", {}),
            ("/v1/reload", {"now": True}),
        ],
        ids=["type", "missing", "unknown", "id", "text", "query", "empty"],
    )
    async def test_wrong_bodies_are_refused(self, path, body) -> None:
        async with gateway() as served:
            reply = await served.ask("POST", path, body)
        assert (reply.status, reply.reason) == (422, "invalid_request")

    async def test_a_body_is_json_and_says_so(self) -> None:
        async with gateway() as served:
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            assert (await served.ask("POST", "/v1/sessions", {}, headers=form)).status == 415
            twice = b'{"name": "add", "name": "risky"}'
            reply = await served.ask("POST", "/v1/explain", twice)
            assert (reply.status, reply.reason) == (400, "not_json")

    async def test_a_hint_is_given_for_a_misspelt_parameter(self) -> None:
        async with gateway() as served:
            reply = await served.ask("GET", "/v1/tools?limti=5")
        assert "Did you mean limit?" in reply.json()["error"]["message"]


class TestAddresses:
    async def test_every_method_stands_at_its_address(self, tmp_path) -> None:
        file = tmp_path / "toolcrib.yaml"
        principals = {name: {} for name in CONFIG["principals"]} | {
            "boss": {"permissions": CONFIG["principals"]["boss"]["permissions"]}
        }
        given = {"version": 1, "profiles": {"work": {}}, "principals": principals}
        file.write_text(json.dumps(given))
        async with gateway(config=file) as served:
            for method in METHODS.values():
                if method.http is None:
                    continue
                verb, path = method.http
                path = re.sub(r"\{\w+\}", "nothing", path)
                reply = await served.ask(verb, path, {} if verb == "POST" else None)
                assert reply.reason != "unknown_method", (verb, path)
                assert reply.status < 500, (verb, path, reply.body)

    @pytest.mark.parametrize(
        "path",
        [
            "/v1", "/v1/", "/v2/tools", "/v1/tools/", "/v1/tools/a/b", "/v1//tools",
            "/V1/tools", "/v1/../metrics", "/v1/tools/add/call/", "/v1/tools//call", "/..",
            "/docs/", "/v1/tools/%FF", "/v1/tools/a%2Fb/call",
        ],
    )  # fmt: skip
    async def test_other_addresses_lead_nowhere(self, path) -> None:
        async with gateway() as served:
            reply = await served.ask("GET", path)
        assert reply.status in (404, 405)
        assert reply.reason in ("unknown_method", "unknown_tool", "method_not_allowed")

    async def test_a_verb_that_is_not_taken_is_told_which_are(self) -> None:
        async with gateway() as served:
            for verb, path, allow in (
                ("PUT", "/v1/tools", "GET, HEAD, OPTIONS"),
                ("GET", "/v1/tools/add/call", "OPTIONS, POST"),
                ("POST", "/v1/calls/c1", "DELETE, GET, HEAD, OPTIONS"),
                ("POST", "/healthz", "GET, HEAD, OPTIONS"),
                ("HEAD", "/v1/events", "GET, OPTIONS"),
            ):
                reply = await served.ask(verb, path, who=None)
                assert (reply.status, reply.headers["allow"]) == (405, allow)
                if verb != "HEAD":
                    assert reply.reason == "method_not_allowed"
                told = await served.ask("OPTIONS", path, who=None)
                assert (told.status, told.headers["allow"]) == (204, allow)

    async def test_head_is_get_without_the_body(self) -> None:
        async with gateway() as served:
            for path in ("/v1/tools", "/healthz", "/docs", "/metrics"):
                got = await served.ask("GET", path)
                head = await served.ask("HEAD", path)
                assert (head.status, head.body) == (200, b"")
                if path != "/metrics":
                    assert head.headers["content-length"] == got.headers["content-length"]

    def test_what_is_written_out_comes_before_what_is_filled_in(self) -> None:
        found = Routes().find(b"/v1/audit/verify")
        assert found.places["GET"].method is METHODS["audit.verify"]
        assert Routes().find(b"/v1/tools/a%2Fb").values == {"name": "a/b"}


class TestTags:
    async def test_a_list_that_did_not_change_is_not_sent_again(self) -> None:
        async with gateway() as served:
            first = await served.ask("GET", "/v1/tools")
            tag = first.headers["etag"]
            assert first.headers["cache-control"] == "private, no-cache"
            assert first.headers["vary"] == "Authorization"
            for given in (tag, f"W/{tag}", f'"x", {tag}', "*"):
                again = await served.ask("GET", "/v1/tools", headers={"If-None-Match": given})
                assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
            served.host.unregister("add")
            changed = await served.ask("GET", "/v1/tools", headers={"If-None-Match": tag})
            assert changed.status == 200
            assert changed.headers["etag"] != tag

    async def test_what_another_caller_sees_has_another_tag(self) -> None:
        async with gateway() as served:
            mine = await served.ask("GET", "/v1/info")
            given = {"If-None-Match": mine.headers["etag"]}
            other = await served.ask("GET", "/v1/info", who="ci", headers=given)
        assert (other.status, other.json()["principal"]) == (200, "ci")

    async def test_answers_about_calls_are_not_kept(self) -> None:
        async with gateway() as served:
            reply = await served.call("add", {"a": 1, "b": 2})
            assert reply.headers["cache-control"] == "no-store"
            again = await served.ask("GET", f"/v1/calls/{reply.json()['call_id']}")
            assert again.headers["cache-control"] == "no-store"
            refused = await served.ask("GET", "/v1/tools", who=None)
            assert refused.headers["cache-control"] == "no-store"


class TestRights:
    @pytest.mark.parametrize(
        "method", [m for m in METHODS.values() if m.right and m.http], ids=lambda m: m.name
    )
    async def test_a_method_that_needs_a_right_is_refused_without_it(self, method) -> None:
        async with gateway() as served:
            verb, path = method.http
            path = re.sub(r"\{\w+\}", "x", path)
            reply = await served.ask(verb, path, {} if verb == "POST" else None, who="ci")
        assert (reply.status, reply.reason) == (403, "not_permitted")


class TestBeside:
    async def test_signs_of_life_need_no_credentials(self) -> None:
        async with gateway() as served:
            for path, status in (("/healthz", "ok"), ("/readyz", "ready")):
                reply = await served.ask("GET", path, who=None)
                assert (reply.status, reply.json()) == (200, {"status": status})

    async def test_a_host_whose_trail_is_broken_is_not_ready(self, tmp_path) -> None:
        async with gateway(store=f"sqlite:{tmp_path}/trail.db") as served:
            await served.serving.service.parts.store.flush()  # what is written mends it
            trail = served.serving.service.parts.trail
            trail.broken = OSError("no space left")
            reply = await served.ask("GET", "/readyz", who=None)
            assert (reply.status, reply.json()) == (503, {"status": "trail_unavailable"})
            assert (await served.ask("GET", "/healthz", who=None)).status == 200
            trail.broken = None

    async def test_numbers_are_for_those_who_may_see_what_others_did(self) -> None:
        async with gateway() as served:
            await served.call("add", {"a": 1, "b": 2})
            reply = await served.ask("GET", "/metrics")
            assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert b'toolcrib_calls_total{status="ok",tool="add"} 1.0' in reply.body
            assert (await served.ask("GET", "/metrics", who="ci")).status == 403
            assert (await served.ask("GET", "/metrics", who=None)).status == 401

    async def test_pages_need_nothing_from_elsewhere(self) -> None:
        async with gateway() as served:
            for path in ("/", "/docs"):
                page = await served.ask("GET", path, who=None, headers={"Accept": "text/html"})
                text = page.body.decode()
                assert page.headers["content-type"] == "text/html; charset=utf-8"
                assert "<script" not in text
                assert not re.search(r"(?:src|href)=\"(?:https?:)?//", text)
                policy = page.headers["content-security-policy"]
                assert policy.startswith("default-src 'none'; style-src 'sha256-")
                assert "frame-ancestors 'none'" in policy
                assert page.names.count("content-security-policy") == 1

    async def test_the_reference_names_every_address(self) -> None:
        async with gateway() as served:
            text = (await served.ask("GET", "/docs", who=None)).body.decode()
            for method in METHODS.values():
                if method.http is not None:
                    assert f"{method.http[0]} {method.http[1]}" in text

    async def test_the_pages_can_be_switched_off(self) -> None:
        async with gateway(docs=False) as served:
            assert (await served.ask("GET", "/docs", who=None)).status == 404
            assert (await served.ask("GET", "/", who=None)).json()["docs"] is None

    @pytest.mark.parametrize(
        "path", ["/", "/docs", "/healthz", "/v1/tools", "/v1/openapi.json", "/nowhere", "/metrics"]
    )
    async def test_every_answer_keeps_browsers_from_guessing(self, path) -> None:
        async with gateway() as served:
            reply = await served.ask("GET", path)
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
        assert "server" not in reply.headers


async def test_an_unexpected_failure_says_nothing_of_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway() as served:

        async def broken(*_: object) -> None:
            raise RuntimeError("a secret detail")

        monkeypatch.setattr(served.serving.service, "handle", broken)
        reply = await served.ask("GET", "/v1/tools")
    assert (reply.status, reply.reason) == (500, "unexpected_failure")
    assert b"secret" not in reply.body
    assert reply.json()["error"]["message"] == REASONS["unexpected_failure"].meaning
    assert any(record.exc_info for record in caplog.records)


async def test_the_description_is_valid_and_true() -> None:
    from openapi_spec_validator import validate

    async with gateway() as served:
        reply = await served.ask("GET", "/v1/openapi.json", who=None)
        document = json.loads(reply.body)
        validate(document)
        for method in METHODS.values():
            if method.http is not None:
                verb, path = method.http
                assert document["paths"][path][verb.lower()]["operationId"] == method.name
        tag = {"If-None-Match": reply.headers["etag"]}
        assert (await served.ask("GET", "/v1/openapi.json", headers=tag)).status == 304
    statuses = document["paths"]["/v1/tools/{name}/call"]["post"]["responses"]
    assert {row.http for row in REASONS.values()} <= {int(status) for status in statuses}
