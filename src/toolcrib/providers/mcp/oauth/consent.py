"""The question that is put to a person in the browser, and whether the answer is to be believed."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from toolcrib.core.jsontext import shown
from toolcrib.net.encoding import query_text
from toolcrib.providers.mcp.oauth.discovery import AuthorizationServer
from toolcrib.providers.mcp.oauth.faults import OAuthFailed


@dataclass(frozen=True, slots=True)
class Question:
    """What only we and the browser know, made anew for each login."""

    state: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48), repr=False)

    @property
    def challenge(self) -> str:
        """What the server can check the verifier by (PKCE, S256)."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def url(
        self,
        server: AuthorizationServer,
        *,
        client_id: str,
        redirect_uri: str,
        resource: str,
        scopes: tuple[str, ...],
    ) -> str:
        """Where the person goes."""
        endpoint = server.authorization_endpoint
        if endpoint is None:
            raise OAuthFailed(f"{server.issuer} has no authorization_endpoint: nobody can log in")
        if not server.proves_codes:
            raise OAuthFailed(
                f"{server.issuer} does not say that it supports PKCE by S256: "
                "whoever saw the code could use it"
            )
        pairs = [
            ("response_type", "code"),
            ("client_id", client_id),
            ("redirect_uri", redirect_uri),
            ("state", self.state),
            ("code_challenge", self.challenge),
            ("code_challenge_method", "S256"),
            ("resource", resource),
        ]
        if scopes:
            pairs.append(("scope", " ".join(scopes)))
        text = str(endpoint)
        given = dict(parse_qsl(text.partition("?")[2], keep_blank_values=True))
        if given.keys() & {*dict(pairs), "scope", "request", "request_uri", "response_mode"}:
            # Of two values, nobody knows which one counts.
            raise OAuthFailed(f"the authorization_endpoint of {server.issuer} holds parameters")
        return text + ("&" if "?" in text else "?") + query_text(pairs)


def code_in(answer: Mapping[str, str], server: AuthorizationServer) -> str:
    """The code in an answer, if it comes from the server that was asked (RFC 9207)."""
    issuer = answer.get("iss")
    if issuer is None and server.names_itself:
        raise OAuthFailed(f"the answer does not say that it comes from {server.issuer}")
    if issuer is not None and issuer != server.issuer:
        # Not even its error is read: it may be another server's.
        raise OAuthFailed(f"the answer does not come from {server.issuer}")
    if "error" in answer:
        raise OAuthFailed(f"{server.issuer} answered {shown(answer['error'])}")
    if not answer.get("code"):
        raise OAuthFailed(f"the answer of {server.issuer} holds no code")
    return answer["code"]
