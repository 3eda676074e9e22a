"""The public keys of an issuer: fetched, kept, and looked for again when one is missing."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolcrib.core.clock import Clock
from toolcrib.core.jsontext import parse
from toolcrib.core.serving import JwtSettings
from toolcrib.errors import Denial, JsonError, ToolFailure
from toolcrib.net.addresses import private_from
from toolcrib.net.client import Client
from toolcrib.net.exchange import Limits, Request
from toolcrib.net.guard import guard_for
from toolcrib.net.url import Url, parse_url

if TYPE_CHECKING:
    from jwt import PyJWK

LIMITS = Limits(max_bytes=512 * 1024, total=5.0)
"""What one answer of an issuer may take."""
PAUSE = 10.0
"""Seconds between two looks, whatever tokens arrive: junk must not make us a nuisance."""
LONGEST_KEPT = 86_400.0
"""Seconds that keys count without having been seen again."""
_MOST_KEYS = 200
_LONGEST_MODULUS = 3000
"""Characters of an RSA modulus; checking takes longer the longer it is."""

_log = logging.getLogger("toolcrib")


class NoKeys(Exception):
    """What an issuer gave holds no key that can be used."""


class Keys:
    """One issuer's keys."""

    def __init__(self, settings: JwtSettings, client: Client, clock: Clock) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._keys: list[PyJWK] = []
        self._fetched = 0.0
        self._next = 0.0
        """No look before this moment."""
        self._looking: asyncio.Task[None] | None = None

    async def find(self, algorithm: str, kid: str | None) -> list[PyJWK]:
        """The keys that a signature can be of. An unknown key id makes us look again, now and
        then; keys that are only old are used while we look."""
        age = self._clock.monotonic() - self._fetched
        if self._keys and age > LONGEST_KEPT:
            _log.error("the keys of %s were not seen for a day; they count no more", self._where)
            self._keys = []
        found = self._fitting(algorithm, kid)
        if not found:
            looking = self._look()
            if looking is not None:
                await asyncio.shield(looking)
                found = self._fitting(algorithm, kid)
        elif age > self._settings.cache:
            self._look()
        return found

    async def close(self) -> None:
        """Stop looking."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    @property
    def _where(self) -> str:
        return self._settings.issuer

    def _fitting(self, algorithm: str, kid: str | None) -> list[PyJWK]:
        return [
            key
            for key in self._keys
            if key.algorithm_name == algorithm and (kid is None or key.key_id == kid)
        ]

    def _look(self) -> asyncio.Task[None] | None:
        """The look that goes on, or a new one if it is time."""
        if self._looking is not None and not self._looking.done():
            return self._looking
        now = self._clock.monotonic()
        if now < self._next:
            return None
        self._next = now + PAUSE
        self._looking = asyncio.ensure_future(self._renew())
        return self._looking

    async def _renew(self) -> None:
        try:
            text = await self._fetch()
            self._keys = usable(parse(text, max_bytes=LIMITS.max_bytes), self._settings.algorithms)
            self._fetched = self._clock.monotonic()
        except (Denial, ToolFailure, JsonError, OSError, NoKeys) as error:
            kept = "; those known before are kept" if self._keys else ""
            _log.warning("the keys of %s cannot be had: %s%s", self._where, error, kept)
        except Exception:
            # Whoever waits for keys gets none; why is ours to find out.
            _log.exception("looking for the keys of %s failed", self._where)

    async def _fetch(self) -> bytes:
        place = self._settings.jwks
        if place is not None and "://" not in place:
            return await asyncio.to_thread(_read, Path(place))
        return await self._get(parse_url(await self._discovered() if place is None else place))

    async def _discovered(self) -> str:
        """Where OpenID discovery says that the keys are."""
        issuer = self._settings.issuer
        text = await self._get(parse_url(f"{issuer.rstrip('/')}/.well-known/openid-configuration"))
        found = parse(text, max_bytes=LIMITS.max_bytes)
        said = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        # A document of another issuer would make us believe its keys.
        if said.get("issuer") != issuer or not isinstance(said.get("jwks_uri"), str):
            raise NoKeys("its discovery document is not of this issuer, or names no keys")
        place = parse_url(said["jwks_uri"])
        if issuer.startswith("https:") and place.scheme != "https":
            raise NoKeys("its discovery document leads from https to http")
        return str(place)

    async def _get(self, url: Url) -> bytes:
        request = Request(
            method="GET", url=url, headers={"accept": "application/json"}, repeatable=True
        )
        guard = guard_for(url, private_from(self._settings.private))
        response = await self._client.send(request, guard, LIMITS)
        if response.status != 200:
            raise NoKeys(f"{request.words} answered with status {response.status}")
        return response.body


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LIMITS.max_bytes + 1)


def usable(document: Any, algorithms: tuple[str, ...]) -> list[PyJWK]:
    """The keys of a set that can check signatures of these algorithms. Raises `NoKeys`."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    said = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    listed: Any = said.get("keys")
    found: list[PyJWK] = []
    items = cast("list[Any]", listed)[:_MOST_KEYS] if isinstance(listed, list) else []
    for item in (cast("dict[str, Any]", item) for item in items if isinstance(item, dict)):
        for algorithm in algorithms:
            if _fits(item, algorithm):
                try:
                    found.append(PyJWK(item, algorithm))
                except (PyJWTError, ValueError, TypeError, KeyError) as error:
                    # The message would quote the key.
                    _log.warning("a key of a set cannot be used: %s", type(error).__name__)
    if not found:
        raise NoKeys("there is no key that can be used among what it gave")
    return found


_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


def _fits(key: dict[str, Any], algorithm: str) -> bool:
    """Whether a key is a public one, meant for signatures of this algorithm."""
    uses: Any = key.get("key_ops", ["verify"])
    if (
        key.get("alg", algorithm) != algorithm
        or key.get("use", "sig") != "sig"
        or not (isinstance(uses, list) and "verify" in uses)
        or "d" in key
        or "k" in key
    ):
        return False
    if algorithm in _CURVES:
        return key.get("kty") == "EC" and key.get("crv") == _CURVES[algorithm]
    if algorithm == "EdDSA":
        return key.get("kty") == "OKP" and key.get("crv") == "Ed25519"
    modulus = key.get("n")
    return key.get("kty") == "RSA" and isinstance(modulus, str) and len(modulus) < _LONGEST_MODULUS
