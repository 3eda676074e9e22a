"""What `serve.tokens` and `serve.jwt` can say: whose credentials are believed."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from toolcrib.core.serving import JwtSettings, TokenSettings
from toolcrib.core.units import format_duration
from toolcrib.host.config.doorkinds import (
    ALGORITHMS,
    ISSUER,
    JWKS,
    MOMENT,
    TOKEN_HASH,
    TOKEN_SECRET,
    hash_of,
)
from toolcrib.host.config.kinds import ANY_TEXT, BAD, DURATION, FLAG, PAUSE, TEXT, choice
from toolcrib.host.config.node import Node
from toolcrib.host.config.reading import Reading
from toolcrib.host.config.shapes import ListOf, MapOf, Section, Setting

_JWT = JwtSettings(name="", issuer="", audience=())


def _build_token(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    if ("secret" in values) == ("hash" in values):
        what = "has neither secret nor hash" if "hash" not in values else "has secret and hash"
        cure = "Give it one of them: secret: ${VARIABLE}, or hash: sha256:…"
        reading.wrong(node, key, f"{key} {what}", cure)
        return BAD
    if "principal" not in values:
        reading.wrong(node, key, f"{key} has no principal", "Say who holds it: principal: NAME")
        return BAD
    secret = values.pop("secret", None)
    if secret is not None:
        values["hash"] = hash_of(secret.encode())
    return TokenSettings(name="", **values, source=node.source)


TOKEN = Section(
    "a mapping such as {secret: '${CI_TOKEN}', principal: ci}",
    (
        Setting(name="secret", kind=TOKEN_SECRET, doc="what the caller sends as a bearer token"),
        Setting(name="hash", kind=TOKEN_HASH, doc="the hash of the secret, in its stead"),
        Setting(name="principal", kind=TEXT, doc="who holds it: a name under principals"),
        Setting(
            name="profile",
            kind=TEXT,
            doc="what its holder is held to",
            default="serve.http.profile",
        ),
        Setting(name="expires", kind=MOMENT, doc="the day on which it ends", default="never"),
    ),
    _build_token,
    least=2,
    schema_more={
        "required": ["principal"],
        "oneOf": [{"required": ["secret"]}, {"required": ["hash"]}],
    },
)


def _build_jwt(values: dict[str, Any], node: Node, key: str, reading: Reading) -> Any:
    missing = [name for name in ("issuer", "audience") if name not in values]
    for name in missing:
        cure = "Say whose tokens are believed, and which of them are meant for this host"
        reading.wrong(node, key, f"{key} has no {name}", cure)
    if missing:
        return BAD
    places = [values["issuer"], values.get("jwks", "")]
    if any(place.startswith("http://") for place in places) and not values.get("private"):
        message = f"{key} asks for keys over http, where anybody on the way can change them"
        reading.wrong(node, key, message, "Use https, or set private: true on a network of yours")
        return BAD
    if "role_names" in values:
        values["role_names"] = tuple(values["role_names"].items())
    return JwtSettings(name="", **values)


JWT = Section(
    "a mapping such as {issuer: https://login.example.com, audience: toolcrib}",
    (
        Setting(name="issuer", kind=ISSUER, doc="whose tokens are believed: their claim iss"),
        Setting(
            name="audience",
            kind=ListOf(TEXT, one=True, least=1),
            doc="whom the tokens are for: their claim aud has one of these",
        ),
        Setting(
            name="jwks",
            kind=JWKS,
            doc="the URL or file of the issuer's keys",
            default="found by OpenID discovery",
        ),
        Setting(
            name="algorithms",
            kind=ListOf(choice(*ALGORITHMS), one=True, least=1),
            doc="the signatures that count",
            default=", ".join(_JWT.algorithms),
        ),
        Setting(
            name="leeway",
            kind=PAUSE,
            doc="how far clocks may differ",
            default=format_duration(_JWT.leeway),
        ),
        Setting(
            name="cache",
            kind=DURATION,
            doc="how long fetched keys are used without looking again",
            default=format_duration(_JWT.cache),
        ),
        Setting(
            name="principal",
            kind=TEXT,
            doc="the claim that names the principal; dots reach into objects",
            default=_JWT.principal,
        ),
        Setting(
            name="prefix",
            kind=ANY_TEXT,
            doc="what stands before the name, so that two issuers never name the same principal",
            default="nothing; where issuers have names, the name and a colon",
        ),
        Setting(
            name="principals",
            kind=FLAG,
            doc="whether a claim may name a principal of the configuration, which it then is",
            default="false",
        ),
        Setting(
            name="roles", kind=TEXT, doc="the claim with its roles: a list, or words in one text"
        ),
        Setting(name="permissions", kind=TEXT, doc="the claim with its permissions"),
        Setting(
            name="profiles",
            kind=TEXT,
            doc="the claim with the profiles it may choose from; it is held to the first",
        ),
        Setting(
            name="role_names",
            kind=MapOf(TEXT, "claimed role"),
            doc="values of the roles claim, and the role that each means; others count nothing",
        ),
        Setting(
            name="profile",
            kind=TEXT,
            doc="what its principals are held to when no claim says so",
            default="serve.http.profile",
        ),
        Setting(
            name="private",
            kind=FLAG,
            doc="whether the issuer may be at a private address",
            default="false",
        ),
    ),
    _build_jwt,
    least=2,
    schema_more={"required": ["issuer", "audience"]},
)


_NAMED_ISSUERS = MapOf(JWT, "issuer")


class Issuers(msgspec.Struct, frozen=True):
    """One issuer, or several by name."""

    name: str = "one issuer, or several by name"
    one: Section = JWT

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        """The settings of each issuer."""
        if not issuers_by_name(node):
            found = JWT.read(node, key, reading)
            return BAD if found is BAD else (found,)
        found = _NAMED_ISSUERS.read(node, key, reading)
        return BAD if found is BAD else tuple(_named(n, made, node) for n, made in found.items())

    def schema(self) -> dict[str, Any]:
        """One or the other."""
        return {"anyOf": [JWT.schema(), _NAMED_ISSUERS.schema()]}


def issuers_by_name(node: Node) -> bool:
    """Whether `serve.jwt` holds issuers by name: then every value is a mapping."""
    return all(entry.node.entries is not None for entry in (node.entries or {}).values())


def _named(name: str, made: JwtSettings, node: Node) -> JwtSettings:
    """An issuer with its name, which stands before the names of its principals."""
    inner = node.get(name)
    given = inner is not None and inner.get("prefix") is not None
    return replace(made, name=name, prefix=made.prefix if given else f"{name}:")
