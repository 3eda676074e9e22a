"""What `serve:` says of other parts of the configuration, held against them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from toolcrib.core.serving import JwtSettings, TokenSettings
from toolcrib.host.config.credentials import issuers_by_name
from toolcrib.host.config.node import Node
from toolcrib.host.config.reading import Reading, joined, nearest


def check_serving(
    roots: list[Node],
    serve: Mapping[str, Any],
    principals: Mapping[str, Mapping[str, Any]],
    reading: Reading,
) -> None:
    """Note what cannot be: principals that there are not, profiles that a token's principal may
    not use, secrets of two tokens, issuers whose principals could be taken for others'."""
    parts = {name: node for root in roots for name, node in _entries(root.get("serve"))}
    for key, node in _principals(parts):
        if isinstance(node.value, str) and node.value and node.value not in principals:
            cure = nearest(node.value, principals, "principal")
            if not principals:
                cure = f"Add it: principals: {{{node.shown.strip(chr(39))}: {{}}}}"
            message = f"{key} names {node.shown}, and there is no such principal"
            reading.wrong(node, key, message, cure)
    _check_tokens(parts.get("tokens"), serve.get("tokens", {}), principals, reading)
    _check_issuers(parts.get("jwt"), serve.get("jwt", ()), reading)


def profile_mentions(serve: Node | None) -> Iterator[tuple[str, Node]]:
    """Where `serve:` names profiles."""
    for name, part in _entries(serve):
        key = joined("serve", name)
        several = name == "tokens" or (name == "jwt" and issuers_by_name(part))
        for inner, node in _entries(part) if several else [("", part)]:
            if (profile := node.get("profile")) is not None:
                yield f"{joined(key, inner) if several else key}.profile", profile


def _principals(parts: Mapping[str, Node]) -> Iterator[tuple[str, Node]]:
    for part, name in (("http", "local"), ("stdio", "principal")):
        node = parts[part].get(name) if part in parts else None
        if node is not None:
            yield f"serve.{part}.{name}", node
    users = parts["http"].get("users") if "http" in parts else None
    for name, node in _entries(users):
        yield joined("serve.http.users", name), node
    for name, token in _entries(parts.get("tokens")):
        if (node := token.get("principal")) is not None:
            yield f"{joined('serve.tokens', name)}.principal", node


def _check_tokens(
    part: Node | None,
    tokens: Mapping[str, TokenSettings],
    principals: Mapping[str, Mapping[str, Any]],
    reading: Reading,
) -> None:
    seen: dict[str, str] = {}
    for name, token in tokens.items():
        node = part.get(name) if part is not None else None
        if node is None:
            continue
        key = joined("serve.tokens", name)
        first = seen.setdefault(token.hash, name)
        if first != name:
            message = (
                f"{key} has the secret of serve.tokens.{first}, so nobody could tell whose it is"
            )
            place = node.get("secret") or node.get("hash") or node
            reading.wrong(place, key, message, "Give each token a secret of its own")
        allowed: Collection[str] | None = principals.get(token.principal, {}).get("profiles")
        place = node.get("profile")
        if place is not None and allowed is not None and token.profile not in allowed:
            message = f"{key}.profile is {place.shown}, which {token.principal} may not use"
            cure = f"Add it to principals.{token.principal}.profiles, or name another"
            reading.wrong(place, f"{key}.profile", message, cure)


def _check_issuers(part: Node | None, issuers: tuple[JwtSettings, ...], reading: Reading) -> None:
    seen: dict[tuple[str, str], JwtSettings] = {}
    for made in issuers:
        for audience in made.audience:
            first = seen.setdefault((made.issuer, audience), made)
            if first is not made and part is not None:
                message = (
                    f"serve.jwt.{made.name} believes the same tokens as serve.jwt.{first.name}: "
                    "issuer and audience are equal"
                )
                reading.wrong(
                    part.get(made.name) or part,
                    f"serve.jwt.{made.name}",
                    message,
                    "Keep one of the two",
                )


def _entries(node: Node | None) -> Iterator[tuple[str, Node]]:
    for name, entry in ((node.entries if node else None) or {}).items():
        yield name, entry.node
