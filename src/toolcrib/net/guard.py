"""Who may be asked: rules on hosts and on the addresses they lead to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, NoReturn

from toolcrib.core.jsontext import shown
from toolcrib.errors import ConfigError, Denial
from toolcrib.net.addresses import PUBLIC_ONLY, Address, Private, address_from
from toolcrib.net.url import Url, parse_host

Origin = tuple[str, str, int]
"""Scheme, host and port."""

_REMEMBERED = 1000
_CURE = 'Write names such as api.example.com, "*.example.com", 10.0.0.5 or api.example.com:8443'


class HostRule(NamedTuple):
    """One entry of a list of hosts."""

    host: str
    """A name or an address; with `below`, the domain whose names are meant; empty for any host."""
    below: bool = False
    port: int | None = None

    def matches(self, host: str, port: int) -> bool:
        """Whether the rule is about this host and port."""
        if self.port is not None and self.port != port:
            return False
        if self.below:
            return not self.host or host.endswith("." + self.host)
        return host == self.host


def host_rule(text: object, key: str = "hosts") -> HostRule:
    """The rule that an entry of a list of hosts means."""
    if not isinstance(text, str):
        raise ConfigError(f"{key}: {shown(text)} is not a host", key=key, cure=_CURE)
    host, port = text, None
    before, colon, number = text.rpartition(":")
    if colon and number.isascii() and number.isdigit() and (":" not in before or "]" in before):
        host, port = before, int(number)
        if not 0 < port < 65536:
            raise ConfigError(f"{key}: {shown(text)} has no such port", key=key, cure=_CURE)
    if host == "*":
        return HostRule("", True, port)
    below = host.startswith("*.")
    host = host.removeprefix("*.")
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    try:
        name = parse_host(host)
        if below and address_from(name) is not None:
            raise ValueError
    except ValueError:
        raise ConfigError(f"{key}: {shown(text)} is not a host", key=key, cure=_CURE) from None
    return HostRule(name, below, port)


@lru_cache(1024)
def _rules(texts: tuple[str, ...], key: str) -> tuple[HostRule, ...]:
    return tuple(host_rule(text, key) for text in texts)


def host_rules(texts: Iterable[str], key: str = "hosts") -> tuple[HostRule, ...]:
    """The rules of a list of hosts."""
    return _rules(tuple(texts), key)


@dataclass(frozen=True, slots=True)
class Guard:
    """Which URLs may be asked for. Deny beats allow; what is not http(s) is no URL at all."""

    hosts: tuple[HostRule, ...] | None = None
    """The hosts that are allowed; None allows any."""
    denied: tuple[HostRule, ...] = ()
    private: Private = PUBLIC_ONLY
    schemes: frozenset[str] = frozenset({"http", "https"})
    _passed: set[Origin] = field(default_factory=set[Origin], init=False, repr=False, compare=False)

    def check(self, url: Url) -> None:
        """Refuse a URL by what is written in it. Where its name leads is checked on connecting."""
        origin = url[:3]
        if origin not in self._passed:
            self._check(url)
            if len(self._passed) < _REMEMBERED:
                self._passed.add(origin)

    def _check(self, url: Url) -> None:
        if url.scheme not in self.schemes:
            allowed = " or ".join(sorted(self.schemes))
            raise Denial("url_not_allowed", f"{url.origin} is refused: only {allowed} is allowed")
        if any(rule.matches(url.host, url.port) for rule in self.denied):
            raise Denial("host_not_allowed", f"{url.authority} is on the list of denied hosts")
        if self.hosts is not None and not any(
            rule.matches(url.host, url.port) for rule in self.hosts
        ):
            raise Denial("host_not_allowed", f"{url.authority} is not on the list of allowed hosts")
        address = address_from(url.host)
        if address is not None and not self.private.permits(address):
            refuse_address(url.host)


def guard_for(url: Url, private: Private) -> Guard:
    """A guard that lets one origin through, and its secure form."""
    rules: Sequence[HostRule] = [HostRule(url.host, port=url.port)]
    if url.scheme == "http" and url.port == 80:
        rules = [*rules, HostRule(url.host, port=443)]
    return Guard(tuple(rules), private=private, schemes=schemes_for(url))


def schemes_for(url: Url) -> frozenset[str]:
    """What may be spoken where this URL is trusted: what is secure is never asked in the clear."""
    return frozenset({"https"}) if url.scheme == "https" else frozenset({"http", "https"})


def checked(host: str, addresses: Sequence[Address], private: Private) -> None:
    """Refuse a name unless every address it leads to may be connected to: one bad answer among
    good ones is an attempt."""
    for address in addresses:
        if not private.permits(address):
            refuse_address(host)


def refuse_address(host: str) -> NoReturn:
    """Refuse a host for where it leads. The address is not told: it says what is in the network."""
    raise Denial(
        "address_not_public",
        f"{host} leads to an address that is not public; the operator can permit it with `private`",
    )
