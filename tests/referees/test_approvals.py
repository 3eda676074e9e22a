"""Approvals and denials as clients of others show them, in either era."""

from __future__ import annotations

import programs
import pytest
from processes import gateway, passing
from programs import text

CLIENTS = ("sdk1", "sdk2")
CALL = ["call_tool", "test_structured", {"a": 2, "b": 3}]


def asking(url, via):
    config = passing(url)
    approval = {"via": via, "timeout": "60s"}
    config["profiles"]["open"] = {"trust": 3, "rules": [{"ask": "*"}], "approval": approval}
    return {**config, "serve": {"mcp": {"hold": "200ms"}}}


@pytest.fixture(scope="module")
def at_the_client(fixture_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("client")
    with gateway(folder, asking(fixture_server.url, ["client"])) as running:
        yield running


@pytest.mark.parametrize("client", CLIENTS)
def test_a_person_at_the_client_says_yes(at_the_client, client):
    (result,) = programs.steps(client, at_the_client.mcp, CALL, decision="allow")
    assert result["structuredContent"] == {"sum": 5}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_person_at_the_client_says_no(at_the_client, client):
    (result,) = programs.steps(client, at_the_client.mcp, CALL, decision="deny", note="not today")
    assert result["isError"]
    assert text(result) == "local said no: not today"
    failure = result["_meta"]["toolcrib/failure"]
    assert (failure["status"], failure["reason"]) == ("denied", "approval_rejected")
    assert failure["rule"] == "ask *"
    assert result["structuredContent"]["reason"] == "approval_rejected"


@pytest.mark.parametrize("client", CLIENTS)
def test_without_a_person_at_the_client_the_call_waits_and_says_so(
    fixture_server, tmp_path, client
):
    with gateway(tmp_path, asking(fixture_server.url, ["cli"])) as running:
        (result,) = programs.steps(client, running.mcp, CALL, decision="allow")
    assert "sum" not in result.get("structuredContent", {})
    assert "approval" in text(result)
