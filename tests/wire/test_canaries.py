"""Fifty secrets on every way in, and every way out looked at for them."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hostile import HANDSHAKE, Running, request, running, throw, write_project
from issuer import public, signed
from served import until
from toolcrib.transports.wire import METHODS

ISSUER = "https://login.example"
CONFIG = """
    version: 1
    host: {store: "sqlite:state/trail.db", profile: all, drain: 1s}
    tools:
      - python: tools.py
      - name: remote
        kind: http
        description: Ask elsewhere.
        effects: [read]
        input_schema: {type: object, properties: {q: {type: string}}, additionalProperties: false}
        config:
          url: "http://127.0.0.1:9/${IN_URL}/x"
          private: true
          headers: {X-Api-Key: "${IN_HEADER}", Authorization: "Bearer ${IN_BEARER}"}
      - name: command
        kind: shell
        description: Run something.
        effects: [read]
        input_schema: {type: object, properties: {}, additionalProperties: false}
        config: {argv: [env], env: {KEY: "${IN_SHELL}"}}
    profiles:
      all:
        default: allow
        rules: [{ask: deploy}]
        approval: {timeout: 60s, remember: [once, 1h], via: [cli, client]}
    principals:
      ann: {}
      bob: {}
      boss: {permissions: [toolcrib.approve, toolcrib.audit, toolcrib.admin]}
    serve:
      http: {listen: "127.0.0.1:0", profile: all}
      tokens:
        ann: {secret: "${TOKEN_ANN}", principal: ann}
        bob: {secret: "${TOKEN_BOB}", principal: bob}
        boss: {secret: "${TOKEN_BOSS}", principal: boss}
        old: {secret: "${TOKEN_OLD}", principal: bob, expires: 2020-01-01}
      jwt: {issuer: "https://login.example", audience: toolcrib, jwks: keys.json, prefix: signed/}
"""
TOOLS = '''
    """Tools that are careless with what they are given."""

    from __future__ import annotations

    import logging
    import os
    from typing import Any

    from toolcrib import ToolContext, ToolFailure, tool


    @tool(effects=["read"])
    def login(user: str, password: str = "", api_key: str = "", more: dict[str, Any] = {}) -> str:
        """Take secrets."""
        return f"hello {user}"


    @tool(effects=["write"])
    def deploy(env: str, access_token: str = "", more: dict[str, Any] = {}) -> str:
        """Take secrets, after a person was asked."""
        return f"deployed to {env}"


    @tool(effects=["read"])
    def account(start: str) -> dict[str, Any]:
        """Give secrets."""
        return {
            "user": "ann",
            "password": f"{start}-out-password",
            "keys": [{"api_key": f"{start}-out-api-key"}, {"clientSecret": f"{start}-out-client"}],
            "Authorization": f"Bearer {start}-out-authorization",
            "session": {"cookie": f"{start}-out-cookie", "refresh_token": f"{start}-out-refresh"},
        }


    @tool(effects=["read"])
    async def talk(ctx: ToolContext) -> str:
        """Tell the host's secrets on every channel there is."""
        for name in ("IN_HEADER", "IN_BEARER", "TOKEN_BOSS"):
            secret = os.environ[name]
            ctx.progress(0.5, f"half of {secret}")
            ctx.log(f"with {secret}")
            ctx.emit({"said": f"the key is {secret}", "secret": secret})
            logging.getLogger("toolcrib").warning("have %s", secret)
        return f"done with {os.environ['IN_SHELL']}"


    @tool(effects=["read"])
    def broken(password: str = "") -> str:
        """Fail with a secret in its words."""
        raise RuntimeError(f"cannot open {password} {os.environ['IN_HEADER']}")


    @tool(effects=["read"])
    def failing() -> str:
        """Fail with a secret in words for the model."""
        raise ToolFailure(f"refused: {os.environ['IN_BEARER']}", details={"token": "none"})
'''
START = "canary-4f1d"


def new(name: str) -> str:
    """A secret that is found wherever it shows."""
    return f"{START}-{name}-9a7c3e"


VARIABLES = {
    name: new(name.lower().replace("_", "-"))
    for name in ("IN_URL", "IN_HEADER", "IN_BEARER", "IN_SHELL", "TOKEN_ANN", "TOKEN_BOB",
                 "TOKEN_BOSS", "TOKEN_OLD", "AWS_SECRET_ACCESS_KEY", "DATABASE_PASSWORD", "UNUSED")
}  # fmt: skip
ARGUMENTS: dict[str, Any] = {
    "user": "ann",
    "password": new("arg-password"),
    "api_key": new("arg-api-key"),
    "more": {
        "client_secret": new("arg-client"),
        "X-Api-Key": new("arg-header"),
        "accessToken": new("arg-access"),
        "deep": [{"passphrase": new("arg-deep")}],
        "credentials": {"a": new("arg-inside")},
        "url": f"https://ann:{new('arg-userinfo')}@host.example/x",
        "text": f"Authorization: Bearer {new('arg-text-bearer')}",
        "query": f"https://host.example/?access_token={new('arg-query')}",
    },
}
DEPLOYED: dict[str, Any] = {
    "env": "prod",
    "access_token": new("ask-access"),
    "more": {"password": new("ask-password"), "private_key": new("ask-private")},
}
OUTPUTS = [
    f"{START}-out-{name}" for name in
    ("password", "api-key", "client", "authorization", "cookie", "refresh")
]  # fmt: skip
HEADERS = {
    "Authorization": f"Bearer {new('head-bearer')}",
    "Cookie": f"session={new('head-cookie')}",
    "X-Api-Key": new("head-key"),
    "Proxy-Authorization": f"Basic {new('head-proxy')}",
}
BODIES = {
    "not json": f'{{"arguments": {{"password": "{new("body-broken")}"'.encode(),
    "twice": f'{{"password": "{new("body-twice")}", "password": "x"}}'.encode(),
    "unknown": json.dumps({"token": new("body-unknown")}).encode(),
    "wrong type": json.dumps({"arguments": {"user": 1, "password": new("body-type")}}).encode(),
    "extra": json.dumps({"arguments": {"user": "a", "secret": new("body-extra")}}).encode(),
    "too long": json.dumps({"arguments": {"user": "a", "api_key": [new("body-list")]}}).encode(),
}
ADDRESSES = (
    f"/v1/tools?token={new('url-token')}",
    f"/v1/events?access_token={new('url-access')}",
    f"/v1/ws?token={new('url-ws')}",
    f"/v1/nowhere/{new('url-path')}",
)


def found_in(value: Any) -> list[str]:
    """The secrets in a value."""
    return re.findall(rf"{START}-[a-z0-9-]+", json.dumps(value, default=lambda b: b.decode()))


class Sinks(dict[str, bytes]):
    """What came out, by where."""

    def add(self, name: str, data: bytes) -> None:
        self[name] = self.get(name, b"") + data


@asynccontextmanager
async def listening(
    gateway: Running, http: aiohttp.ClientSession, sinks: Sinks
) -> AsyncIterator[None]:
    """The boss and bob follow every event, over both doors that push."""

    async def stream(who: str) -> None:
        async with http.get(f"{gateway.url}/v1/events", headers=bearer(who)) as answer:
            async for data in answer.content.iter_any():
                sinks.add(f"event stream of {who}", data)

    async def pushes(who: str) -> None:
        async with http.ws_connect(f"{gateway.url}/v1/ws", headers=bearer(who)) as socket:
            await socket.send_str('{"jsonrpc":"2.0","id":1,"method":"events.subscribe"}')
            async for message in socket:
                sinks.add(f"pushes to {who}", message.data.encode())

    tasks = [
        asyncio.ensure_future(work(who)) for work in (stream, pushes) for who in ("boss", "bob")
    ]
    wanted = {"event stream of boss", "pushes to boss", "pushes to bob"}
    await until(lambda: wanted <= set(sinks))
    try:
        yield
        await asyncio.sleep(0.3)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def bearer(who: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {VARIABLES[f'TOKEN_{who.upper()}']}"}


async def post(
    gateway: Running, http: aiohttp.ClientSession, path: str, body: Any, head: dict[str, str]
) -> bytes:
    given = {"data": body} if isinstance(body, bytes) else {"json": body}
    kind = {"Content-Type": "application/json"}
    async with http.post(f"{gateway.url}{path}", headers={**kind, **head}, **given) as answer:
        return await answer.read()


async def work(
    gateway: Running, http: aiohttp.ClientSession, sinks: Sinks, jwts: list[str]
) -> None:
    """Send every secret in. Answers that are nobody's own output are looked at."""
    ann = bearer("ann")

    async def call(name: str, arguments: Any, head: dict[str, str] = ann) -> bytes:
        return await post(gateway, http, f"/v1/tools/{name}/call", {"arguments": arguments}, head)

    assert b"hello ann" in await call("login", ARGUMENTS)
    assert START.encode() in await call("account", {"start": START})
    for name, arguments in (
        ("talk", {}), ("broken", {"password": new("arg-broken")}), ("failing", {}), ("remote", {}),
        ("command", {}), ("remote", {"q": 1}),
    ):  # fmt: skip
        sinks.add("answers that tell of the host", await call(name, arguments))
    for good, token in zip((True, False), jwts, strict=True):
        said = await call("login", {"user": "eve"}, {"Authorization": f"Bearer {token}"})
        assert (b"hello eve" in said) == good, said
        sinks.add("answers to signed tokens", said)
    sinks.add("errors", await call("login", {"user": "x"}, HEADERS))
    sinks.add("errors", await call("login", {"user": "x"}, bearer("old")))
    for body in BODIES.values():
        sinks.add("errors", await post(gateway, http, "/v1/tools/login/call", body, ann))
    head = f"Authorization: Bearer {VARIABLES['TOKEN_ANN']}"
    for path in ADDRESSES:
        sinks.add(
            "errors", await throw(gateway.port, request(gateway.port, f"GET {path}", b"", head))
        )
    offered = f"Sec-WebSocket-Protocol: toolcrib.v1, toolcrib.bearer.{new('head-subprotocol')}"
    shake = request(gateway.port, "GET /v1/ws", b"", *HANDSHAKE, offered, close=False)
    sinks.add("errors", await throw(gateway.port, shake))
    asking = asyncio.ensure_future(call("deploy", DEPLOYED))
    asked: list[Any] = []
    async with asyncio.timeout(10):
        while not asked:
            async with http.get(f"{gateway.url}/v1/approvals", headers=bearer("boss")) as answer:
                text = await answer.read()
            asked = json.loads(text)["approvals"]
    sinks.add("approvals", text)
    path = f"/v1/approvals/{asked[0]['id']}"
    decided = await post(gateway, http, path, {"allow": True, "reach": "1h"}, bearer("boss"))
    sinks.add("approvals", decided)
    assert b"deployed" in await asking


async def look(gateway: Running, http: aiohttp.ClientSession, sinks: Sinks) -> None:
    """Everything that can be read, as the boss and as bob."""
    async with http.get(f"{gateway.url}/v1/calls?limit=100", headers=bearer("boss")) as answer:
        calls = [call["id"] for call in (await answer.json())["calls"]]
    assert len(calls) > 8
    paths = ["/", "/docs", "/v1/openapi.json", "/healthz", "/readyz", "/metrics"]
    for row in METHODS.values():
        if row.http is not None and row.http[0] == "GET":
            path = row.http[1]
            if "/calls/{id}" in path:
                paths += [path.replace("{id}", call) for call in calls]
            elif path.startswith("/v1/tools/{name}"):
                names = ("remote", "command", "login")
                paths += [path.replace("{name}", name) for name in names]
            elif path == "/v1/search":
                paths.append("/v1/search?query=ask")
            elif path == "/v1/approvals":
                paths.append("/v1/approvals?state=any")
            elif "{" not in path:
                paths.append(path)
    for who in ("boss", "bob"):
        for path in paths:
            async with http.get(f"{gateway.url}{path}", headers=bearer(who)) as answer:
                sinks.add(f"{path.partition('?')[0]} to {who}", await answer.read())
                if who == "boss":
                    assert answer.status != 403, path


async def test_no_secret_is_found_where_it_must_not_be(tmp_path: Path) -> None:
    write_project(tmp_path, CONFIG, TOOLS)
    key = Ed25519PrivateKey.generate()
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [public("one", key)]}))
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": "toolcrib", "sub": "eve", "iat": now, "exp": now + 300}
    jwts = [
        signed({**claims, "note": new("claim-good")}, key, "one"),
        signed({**claims, "note": new("claim-late"), "exp": now - 3600}, key, "one"),
    ]
    sinks = Sinks()
    async with aiohttp.ClientSession() as http, running(tmp_path, variables=VARIABLES) as gateway:
        async with listening(gateway, http, sinks):
            await work(gateway, http, sinks, jwts)
            await look(gateway, http, sinks)
        assert await gateway.stop() == 0
        sinks["log"] = gateway.log
    for file in (tmp_path / "state").rglob("*"):
        if file.is_file():
            sinks[f"file {file.name}"] = file.read_bytes()
    # What was looked at is what there was to see.
    for name in (
        "log",
        "event stream of boss",
        "pushes to boss",
        "/v1/audit to boss",
        "file trail.db",
    ):
        assert b"login" in sinks[name], name
    assert b"remote" in sinks["/v1/config to boss"]
    assert b"deploy" in sinks["approvals"]
    assert b"toolcrib_" in sinks["/metrics to boss"]
    secrets = {
        *VARIABLES.values(), *OUTPUTS, *jwts, *(token.rpartition(".")[2] for token in jwts),
        *found_in([ARGUMENTS, DEPLOYED, HEADERS, list(BODIES.values()), ADDRESSES]),
        *map(new, ("arg-broken", "head-subprotocol", "claim-good", "claim-late")),
    }  # fmt: skip
    assert len(secrets) >= 50
    # What a function says in an exception is in the operator's log, and there alone; an argument's
    # value is known as a secret by its key only.
    sinks["log"] = sinks["log"].replace(new("arg-broken").encode(), b"")
    leaks = {
        (secret, name)
        for secret in secrets
        for name, data in sinks.items()
        if secret.encode() in data
    }
    assert not leaks, "\n".join(f"{secret} in {name}" for secret, name in sorted(leaks))


async def test_who_may_not_look_sees_nothing(tmp_path: Path) -> None:
    write_project(tmp_path, CONFIG, TOOLS)
    (tmp_path / "keys.json").write_text('{"keys": []}')
    async with running(tmp_path, variables=VARIABLES) as gateway:
        head = f"Authorization: Bearer {VARIABLES['TOKEN_BOB']}"
        for path in ("/v1/config", "/v1/audit", "/metrics", "/v1/tools/remote/details"):
            answer = await throw(
                gateway.port, request(gateway.port, f"GET {path}", b"", head), patience=5
            )
            assert answer.startswith(b"HTTP/1.1 403 "), path
            said = json.loads(answer.partition(b"\r\n\r\n")[2])
            assert said["error"]["reason"] == "not_permitted"
