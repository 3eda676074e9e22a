"""An authorization server and an MCP server that it guards, on 127.0.0.1; strict by default, and
able to misbehave in every way that a client has to notice."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import aiohttp
import jwt

from loopback import Answer, Seen, Server, reply, reply_json, serve
from toolcrib.providers.mcp.oauth.build import oauth_for
from toolcrib.providers.mcp.oauth.source import OAuth


class Authority:
    """Registers, authorizes and grants; keeps what it saw."""

    def __init__(self) -> None:
        self.server: Server
        self.metadata: dict[str, Any] = {}
        """What its metadata says otherwise; a member that is None is left out."""
        self.documents: dict[str, Answer] = {}
        """Answers to other paths, or in place of its own."""
        self.answer: dict[str, str | None] = {}
        """What its answers to the browser say otherwise."""
        self.grant: dict[str, Any] = {}
        """What its token answers say otherwise."""
        self.keys: dict[str, Any] = {}
        """Public keys of clients that sign."""
        self.clients: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.refreshes: dict[str, dict[str, Any]] = {}
        self.spent: set[str] = set()
        self.stolen = 0
        """How often a refresh token came a second time."""
        self.tokens: dict[str, dict[str, Any]] = {}
        self.withheld = ""
        """A scope that it never grants."""
        self.requests: list[dict[str, str]] = []
        """The forms that its token endpoint got."""
        self.came = asyncio.Event()
        """Set by every token request."""
        self.asked: list[dict[str, str]] = []
        """The queries that its authorization endpoint got."""

    @property
    def issuer(self) -> str:
        return self.server.url

    def count(self, grant: str) -> int:
        """How often a kind of grant was asked for."""
        return sum(form["grant_type"] == grant for form in self.requests)

    def handle(self, seen: Seen) -> Answer:
        if seen.path in self.documents:
            return self.documents[seen.path]
        if seen.path == "/.well-known/oauth-authorization-server":
            return reply_json(self.described())
        if seen.path == "/register":
            return self._register(seen)
        if seen.path == "/authorize":
            return self._authorize(dict(seen.query))
        if seen.path == "/token":
            return self._token(seen)
        return reply(status=404)

    def described(self) -> dict[str, Any]:
        usual: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }
        said = {**usual, **self.metadata}
        return {name: value for name, value in said.items() if value is not None}

    def _register(self, seen: Seen) -> bytes:
        asked = seen.json
        assert asked["application_type"] == "native"
        made = {**asked, "client_id": secrets.token_hex(8)}
        if asked["token_endpoint_auth_method"] != "none":
            made["client_secret"] = secrets.token_hex(8)
        self.clients[made["client_id"]] = made
        return reply_json(made, 201)

    def _authorize(self, asked: dict[str, str]) -> bytes:
        self.asked.append(asked)
        client = self.clients.get(asked["client_id"])
        known = asked["client_id"].startswith("https://") or (
            client is not None and asked["redirect_uri"] in client["redirect_uris"]
        )
        if not known or asked["code_challenge_method"] != "S256" or not asked["resource"]:
            return reply(status=400)
        code = secrets.token_hex(8)
        self.codes[code] = asked
        usual = {"code": code, "state": asked["state"], "iss": self.issuer}
        said = {name: value for name, value in {**usual, **self.answer}.items() if value}
        return reply(status=302, headers={"Location": f"{asked['redirect_uri']}?{urlencode(said)}"})

    def _token(self, seen: Seen) -> bytes:
        form = dict(parse_qsl(seen.body.decode()))
        self.requests.append(form)
        self.came.set()
        client = self._client(seen, form)
        if client is None:
            return reply_json({"error": "invalid_client"}, 401)
        given = getattr(self, f"_by_{form['grant_type']}")(client, form)
        if given is None:
            return reply_json({"error": "invalid_grant", "error_description": str(form)}, 400)
        return reply_json(self.granted(**given))

    def granted(self, *, resource: str, scope: str, client: str, refresh: bool) -> dict[str, Any]:
        """A token answer."""
        scope = " ".join(word for word in scope.split() if word != self.withheld)
        made: dict[str, Any] = {
            "access_token": secrets.token_hex(16),
            "token_type": "Bearer",
            "expires_in": 3600,
            "scope": scope,
        }
        kept = {"resource": resource, "scope": scope, "client": client}
        if refresh:
            made["refresh_token"] = secrets.token_hex(16)
            self.refreshes[made["refresh_token"]] = kept
        made = {name: value for name, value in {**made, **self.grant}.items() if value is not None}
        self.tokens[made["access_token"]] = kept
        return made

    def _client(self, seen: Seen, form: dict[str, str]) -> str | None:
        header = seen.headers.get("authorization", "")
        if header.startswith("Basic "):
            name, _, secret = base64.b64decode(header[6:]).decode().partition(":")
            name, secret, method = unquote(name), unquote(secret), "client_secret_basic"
        elif "client_assertion" in form:
            name = form["client_id"]
            claims = jwt.decode(
                form["client_assertion"], self.keys[name], ["ES256"], audience=self.issuer
            )
            return name if claims["sub"] == claims["iss"] == name else None
        elif "client_secret" in form:
            name, secret, method = form["client_id"], form["client_secret"], "client_secret_post"
        else:
            name, secret, method = form["client_id"], None, "none"
        client = self.clients.get(name, {"token_endpoint_auth_method": "none"})
        right = client["token_endpoint_auth_method"] == method
        return name if right and client.get("client_secret") == secret else None

    def _by_authorization_code(self, client: str, form: dict[str, str]) -> dict[str, Any] | None:
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != proof or asked["client_id"] != client:
            return None
        if (asked["redirect_uri"], asked["resource"]) != (form["redirect_uri"], form["resource"]):
            return None
        scope = asked.get("scope", "")
        return {"resource": form["resource"], "scope": scope, "client": client, "refresh": True}

    def _by_refresh_token(self, client: str, form: dict[str, str]) -> dict[str, Any] | None:
        token = form["refresh_token"]
        kept = self.refreshes.pop(token, None)
        self.stolen += token in self.spent
        self.spent.add(token)
        if kept is None or kept["client"] != client or kept["resource"] != form["resource"]:
            return None
        return {**kept, "refresh": True}

    def _by_client_credentials(self, client: str, form: dict[str, str]) -> dict[str, Any]:
        scope = form.get("scope", "")
        return {"resource": form["resource"], "scope": scope, "client": client, "refresh": False}


class Guarded:
    """An MCP server behind an authority: it takes tokens that were granted for it."""

    def __init__(self, authority: Authority) -> None:
        self.server: Server
        self.authority = authority
        self.metadata: dict[str, Any] = {}
        self.challenge: dict[str, str | None] = {}
        self.needs: str = ""
        """The scope that every request needs."""
        self.refused: set[str] = set()
        """Tokens that count no longer."""
        self.documents: dict[str, Answer] = {}

    @property
    def url(self) -> str:
        return f"{self.server.url}/mcp"

    @property
    def bearers(self) -> list[str]:
        """The tokens of the requests, in order; empty for those without."""
        calls = [seen for seen in self.server.seen if seen.path == "/mcp"]
        return [seen.headers.get("authorization", "").removeprefix("Bearer ") for seen in calls]

    def handle(self, seen: Seen) -> Answer:
        if seen.path in self.documents:
            return self.documents[seen.path]
        if seen.path == "/.well-known/oauth-protected-resource/mcp":
            return reply_json(self.described())
        if seen.path != "/mcp":
            return reply(status=404)
        token = seen.headers.get("authorization", "").removeprefix("Bearer ")
        kept = self.authority.tokens.get(token)
        if kept is None or kept["resource"] != self.url or token in self.refused:
            return self._refusal(401, {})
        if self.needs and self.needs not in kept["scope"].split():
            return self._refusal(403, {"error": "insufficient_scope", "scope": self.needs})
        return _spoken(seen.json if seen.body else {})

    def described(self) -> dict[str, Any]:
        usual = {"resource": self.url, "authorization_servers": [self.authority.issuer]}
        said = {**usual, **self.metadata}
        return {name: value for name, value in said.items() if value is not None}

    def _refusal(self, status: int, more: Mapping[str, str]) -> bytes:
        place = f"{self.server.url}/.well-known/oauth-protected-resource/mcp"
        said = {"resource_metadata": place, **more, **self.challenge}
        words = ", ".join(f'{name}="{value}"' for name, value in said.items() if value is not None)
        return reply(b"{}", status, {"WWW-Authenticate": f"Bearer {words}"})


def _spoken(asked: dict[str, Any]) -> bytes:
    """The least that a server of the handshake era says."""
    if "id" not in asked:
        return reply(status=202)
    tool = {"name": "hello", "inputSchema": {"type": "object"}}
    results: dict[Any, Any] = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "guarded", "version": "1"},
        },
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": "hello"}]},
        "ping": {},
    }
    head = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] not in results:
        error = {"code": -32601, "message": "Method not found"}
        return reply_json({**head, "error": error}, 404)
    return reply_json({**head, "result": results[asked["method"]]})


@asynccontextmanager
async def guarded() -> AsyncIterator[Guarded]:
    """A server and its authority, running."""
    authority = Authority()
    made = Guarded(authority)
    async with serve(authority.handle) as authority.server, serve(made.handle) as made.server:
        yield made


class Lent:
    """As much of a workshop as logins need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hidden: tuple[Path, ...] = ()
        self.guarded: tuple[Path, ...] = ()
        self.secrets: list[str] = []

    def file(self, path: str) -> Path:
        return self.folder / path

    def keep_secret(self, text: str) -> None:
        self.secrets.append(text)


async def browse(url: str) -> None:
    """Do what a browser does: go there, and where it is sent."""
    async with aiohttp.ClientSession() as session:
        async with session.get(url, allow_redirects=False) as answer:
            assert answer.status == 302, await answer.text()
            place = answer.headers["Location"]
        async with session.get(place) as answer:
            await answer.read()


async def nobody(url: str) -> None:
    """A person who has gone."""


def oauth_of(
    folder: Path, url: str, show: Any = browse, patience: float = 5.0, **auth: Any
) -> OAuth:
    """What signs requests to a server, for a provider `up` with these settings."""
    settings = {"url": url, "auth": {"type": "oauth", **auth}}
    made = oauth_for("up", settings, Lent(folder), show=show, patience=patience)  # type: ignore[arg-type]
    assert made is not None
    return made


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def ask(oauth: OAuth, url: str) -> int:
    """One request as the provider makes it: sent again after a challenge, a few times."""
    async with aiohttp.ClientSession() as session:
        for _ in range(4):
            sent = await oauth.headers()
            async with session.post(url, json=PING, headers=sent) as answer:
                headers = {name.lower(): value for name, value in answer.headers.items()}
                status = answer.status
            if status not in (401, 403) or not await oauth.challenged(status, headers, sent):
                return status
    raise AssertionError("it goes on for ever")
