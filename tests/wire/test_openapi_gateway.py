"""The description that a running gateway gives of itself, held against what it does."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
import pytest_asyncio

from hostile import Running, no_traces, running, write_project
from toolcrib.transports.http.routes import STREAMS
from toolcrib.transports.wire import METHODS

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOKEN = "a-token-with-every-right"
HEAD = {"Authorization": f"Bearer {TOKEN}"}
CONFIG = """
    version: 1
    host: {store: "sqlite:state/trail.db", profile: all, drain: 1s}
    tools: [{python: tools.py}]
    providers:
      scratch: {type: storage, backend: memory}
    profiles:
      all:
        default: allow
        rules: [{ask: deploy}]
        approval: {timeout: 2s, remember: [once], via: [cli, client]}
    principals:
      boss:
        permissions: [toolcrib.approve, toolcrib.audit, toolcrib.admin]
        profiles: [all]
    serve:
      http: {listen: "127.0.0.1:0", profile: all, wait: 200ms, max_wait: 1s}
      tokens: {boss: {secret: "${TOKEN}", principal: boss}}
"""
TOOLS = '''
    """Tools to be called with anything."""

    from __future__ import annotations

    from typing import Any

    from toolcrib import tool


    @tool(effects=["read"])
    def add(a: int = 1, b: int = 2) -> int:
        """Add."""
        return a + b


    @tool(effects=["write"])
    def deploy(env: str = "prod") -> str:
        """A person is asked first."""
        return env
'''
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance,unsupported_method"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("project")
    write_project(folder, CONFIG, TOOLS)
    async with running(folder, variables={"TOKEN": TOKEN}) as found:
        yield found
        assert await found.stop() == 0
        no_traces(found.log)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def document(gateway: Running) -> dict[str, Any]:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{gateway.url}/v1/openapi.json") as answer,
    ):
        return await answer.json()


async def test_every_address_is_described(document: dict[str, Any]) -> None:
    described = {
        (verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs
    }
    assert {row.http for row in METHODS.values() if row.http is not None} <= described


async def test_whatever_is_sent_the_answer_is_one_that_is_described(
    gateway: Running, document: dict[str, Any]
) -> None:
    """Every operation but the streams, which never end and have a test of their own."""
    streams = [f"--exclude-path={path}" for path in STREAMS if path in document["paths"]]
    await _filled(gateway)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "--no-color", "run"),
        f"{gateway.url}/v1/openapi.json",
        *("--header", f"Authorization: {HEAD['Authorization']}"),
        *("--checks", CHECKS, "--phases", "examples,coverage,fuzzing"),
        *("--max-examples", "3", "--seed", "7", "--no-shrink", "--continue-on-failure"),
        *("--generation-database", "none", "--request-timeout", "20", "--workers", "1"),
        *("--suppress-health-check", "all", "--warnings", "off"),
        *streams,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=gateway.folder,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()[-6000:]
    operations = sum(len(verbs) for verbs in document["paths"].values())
    assert f"Tested: {operations - len(streams)}\n".encode() in said, said.decode()


async def _filled(gateway: Running) -> None:
    """Something to be found under every kind of address."""
    async with aiohttp.ClientSession(gateway.url, headers=HEAD) as http:
        for name in ("add", "deploy", "scratch-list"):
            async with http.post(f"/v1/tools/{name}/call", json={}) as answer:
                assert answer.status in (200, 202), await answer.text()
        async with http.post("/v1/sessions", json={}) as answer:
            assert answer.status == 200


QUERIES = (
    "",
    "types=call.*",
    "types=",
    "types=%00",
    "call_id=x",
    "after=x",
    "after=1:2",
    "types=[",
)


async def test_streams_answer_as_described(gateway: Running, document: dict[str, Any]) -> None:
    async with aiohttp.ClientSession(gateway.url, headers=HEAD) as http:
        async with http.get("/v1/calls") as answer:
            call = (await answer.json())["calls"][0]["id"]
        for path, kind in STREAMS.items():
            if kind != "events":
                continue
            known = document["paths"][path]["get"]["responses"]
            for query in QUERIES:
                at = f"{path.replace('{id}', quote(call))}?{query}"
                async with http.get(at) as answer:
                    assert str(answer.status) in known, (at, answer.status)
                    if answer.status == 200:
                        assert answer.content_type in known["200"]["content"]
                    elif answer.status >= 400:
                        assert json.loads(await answer.read())["error"]["reason"]


async def test_the_description_is_the_same_without_credentials(
    gateway: Running, document: dict[str, Any]
) -> None:
    async with aiohttp.ClientSession(gateway.url, headers=HEAD) as http:
        async with http.get("/v1/openapi.json") as answer:
            assert await answer.json() == document
        async with http.get("/v1/tools", headers={"Authorization": "Bearer wrong"}) as answer:
            assert answer.status == 401
            assert "401" in document["paths"]["/v1/tools"]["get"]["responses"]
