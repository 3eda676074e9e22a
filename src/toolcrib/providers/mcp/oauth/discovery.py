"""Which authorization server speaks for an upstream, and what it can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolcrib.core.jsontext import shown
from toolcrib.net.url import Url
from toolcrib.providers.mcp.oauth.asking import Asker, object_in
from toolcrib.providers.mcp.oauth.challenge import Challenge, scopes_from
from toolcrib.providers.mcp.oauth.faults import OAuthFailed

_RESOURCE = "/.well-known/oauth-protected-resource"
_SERVER = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """What an upstream says about itself (RFC 9728)."""

    resource: str
    """What tokens for it are bound to: the `resource` of RFC 8707."""
    issuers: tuple[str, ...] = ()
    """Its authorization servers; empty where it says nothing, as servers of 2025-03-26 do."""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorizationServer:
    """What an authorization server says about itself (RFC 8414, OpenID Connect Discovery)."""

    issuer: str
    authorization_endpoint: Url | None
    token_endpoint: Url
    registration_endpoint: Url | None
    methods: tuple[str, ...] | None = None
    """How clients may show who they are at the token endpoint; None where it does not say."""
    scopes: tuple[str, ...] = ()
    takes_documents: bool = False
    """Whether a client may be named by the URL of a document about it."""
    names_itself: bool = False
    """Whether its answers to authorization requests carry `iss` (RFC 9207)."""
    proves_codes: bool = True
    """Whether it says that it checks PKCE by S256."""


async def find_resource(asker: Asker, upstream: Url, challenge: Challenge) -> Resource:
    """What the upstream says about itself, if what it says is about itself."""
    for url in _resource_urls(asker, upstream, challenge):
        response = await asker.get(url)
        if response.status >= 500:
            # What is broken for a moment is not what says nothing.
            raise OAuthFailed(
                f"{url.without_query} answered with the status {response.status}", retryable=True
            )
        said = object_in(response) if response.status == 200 else None
        if said is None:
            if challenge.resource_metadata is not None:
                raise OAuthFailed(
                    f"{url.without_query} holds no protected resource metadata "
                    f"(status {response.status})"
                )
            continue
        return _resource(said, upstream, url)
    return Resource(resource=identifier(upstream))


async def find_server(asker: Asker, issuer: str) -> AuthorizationServer:
    """The metadata of an issuer. A document that names another one is not used."""
    base = asker.url(issuer, "the authorization server")
    other = None
    for url in _server_urls(base):
        response = await asker.get(url)
        said = object_in(response) if response.status == 200 else None
        if said is None:
            continue
        # Character by character: what only looks alike may belong to somebody else.
        if said.get("issuer") != issuer:
            other = said.get("issuer")
            continue
        return _server(asker, said, issuer)
    if other is not None:
        raise OAuthFailed(f"the metadata of {issuer} is about another issuer, {shown(other)}")
    raise OAuthFailed(f"the authorization server {issuer} publishes no metadata")


async def find_old_server(asker: Asker, upstream: Url) -> AuthorizationServer:
    """The authorization server of an upstream that is its own, as in 2025-03-26: by metadata at its
    root, else at the usual paths."""
    root = upstream.origin
    base = asker.url(root, "the upstream")
    response = await asker.get(base._replace(target=_SERVER))
    said = object_in(response) if response.status == 200 else None
    if said is not None:
        issuer = said.get("issuer")
        # It may have a path of its own, as long as it is the upstream's.
        if not isinstance(issuer, str) or not (issuer + "/").startswith(root + "/"):
            raise OAuthFailed(f"the metadata at {root} is about another issuer, {shown(issuer)}")
        return _server(asker, said, issuer)
    return AuthorizationServer(
        issuer=root,
        authorization_endpoint=base._replace(target="/authorize"),
        token_endpoint=base._replace(target="/token"),
        registration_endpoint=base._replace(target="/register"),
    )


def identifier(upstream: Url) -> str:
    """The canonical URI of an upstream: without a query, and without a slash that says nothing."""
    return upstream.without_query if upstream.target != "/" else upstream.origin


def _resource_urls(asker: Asker, upstream: Url, challenge: Challenge) -> Sequence[Url]:
    if challenge.resource_metadata is not None:
        return [asker.url(challenge.resource_metadata, "the upstream's resource_metadata")]
    path = upstream.target.partition("?")[0].rstrip("/")
    root = upstream._replace(target=_RESOURCE)
    return [root._replace(target=_RESOURCE + path), root] if path else [root]


def _resource(said: dict[str, Any], upstream: Url, place: Url) -> Resource:
    resource, issuers = said.get("resource"), said.get("authorization_servers")
    if not isinstance(resource, str) or not _covers(resource, upstream):
        # A token for another place would be handed to whoever runs this one.
        raise OAuthFailed(
            f"{place.without_query} is about {shown(resource)}, not about "
            f"{identifier(upstream)}: it is not used"
        )
    names = cast("list[Any]", issuers) if isinstance(issuers, list) else []
    scopes = said.get("scopes_supported")
    return Resource(
        resource=resource,
        issuers=tuple(name for name in names[:20] if isinstance(name, str)),
        scopes=scopes_from(" ".join(_texts(scopes) or ())),
    )


def _covers(resource: str, upstream: Url) -> bool:
    """Whether a resource is the upstream, or a part of its origin above it."""
    if "#" in resource or "?" in resource:
        return False
    scheme, _, rest = resource.partition("://")
    place, slash, path = rest.partition("/")
    if f"{scheme}://{place}".lower() not in (upstream.origin, _with_port(upstream)):
        return False
    here = upstream.target.partition("?")[0].rstrip("/") + "/"
    return here.startswith((slash + path).rstrip("/") + "/")


def _with_port(url: Url) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}:{url.port}"


def _server_urls(issuer: Url) -> Sequence[Url]:
    path = issuer.target.partition("?")[0].rstrip("/")
    targets = [_SERVER + path, _OPENID + path]
    if path:
        targets.append(path + _OPENID)
    return [issuer._replace(target=target) for target in targets]


def _server(asker: Asker, said: dict[str, Any], issuer: str) -> AuthorizationServer:
    authorize, register = said.get("authorization_endpoint"), said.get("registration_endpoint")
    return AuthorizationServer(
        issuer=issuer,
        authorization_endpoint=None
        if authorize is None
        else asker.url(authorize, "the authorization_endpoint"),
        token_endpoint=asker.url(said.get("token_endpoint"), "the token_endpoint"),
        registration_endpoint=None
        if register is None
        else asker.url(register, "the registration_endpoint"),
        methods=_texts(said.get("token_endpoint_auth_methods_supported")),
        scopes=scopes_from(" ".join(_texts(said.get("scopes_supported")) or ())),
        takes_documents=said.get("client_id_metadata_document_supported") is True,
        names_itself=said.get("authorization_response_iss_parameter_supported") is True,
        proves_codes="S256" in (_texts(said.get("code_challenge_methods_supported")) or ()),
    )


def _texts(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(item for item in cast("list[Any]", value) if isinstance(item, str))
