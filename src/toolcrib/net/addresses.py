"""Which network addresses may be connected to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import cast

from toolcrib.errors import ConfigError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ip_network(word) for word in text.split())


# Written out, because what `is_global` answers differs from one Python to the next: 3.11 calls
# the NAT64 form of 127.0.0.1 and the metadata service 192.0.0.192 public.
_NOT_PUBLIC_4 = _networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
    "192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 "
    "224.0.0.0/4 240.0.0.0/4 "
    # A public number that leads to the machine below a virtual one.
    "168.63.129.16/32"
)
# Everything else in IPv6 is special: loopback, mapped, NAT64, unique local, link-local, multicast.
_PUBLIC_6 = IPv6Network("2000::/3")
# Protocol assignments with Teredo and ORCHID, documentation, 6to4.
_NOT_PUBLIC_6 = _networks("2001::/23 2001:db8::/32 2002::/16 3fff::/20")

_PRIVATE = _networks(
    "10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.168.0.0/16 198.18.0.0/15 "
    "::1/128 fc00::/7"
)
# They hand out a machine's credentials to whoever asks: permitted by name only.
_METADATA = _networks("100.100.100.200/32 fd00:ec2::254/128 fd20:ce::254/128")


def is_public(address: Address) -> bool:
    """Whether anybody on the internet could be meant by it."""
    if isinstance(address, IPv4Address):
        return not _within(address, _NOT_PUBLIC_4)
    return address in _PUBLIC_6 and not _within(address, _NOT_PUBLIC_6)


@dataclass(frozen=True, slots=True)
class Private:
    """Which addresses that are not public may be connected to all the same."""

    ordinary: bool = False
    """Loopback and private networks. Link-local addresses, and other places where machines get
    their credentials, are left out: they have to be listed."""
    networks: tuple[Network, ...] = ()

    def permits(self, address: Address) -> bool:
        """Whether `address` may be connected to."""
        if isinstance(address, IPv6Address):
            if address.scope_id is not None:
                return False
            address = address.ipv4_mapped or address
        if is_public(address) or _within(address, self.networks):
            return True
        return self.ordinary and _within(address, _PRIVATE) and not _within(address, _METADATA)


PUBLIC_ONLY = Private()


def private_from(value: object, key: str = "private") -> Private:
    """What a setting `private` says: `true`, `false`, or a list of networks."""
    if isinstance(value, bool) or value is None:
        return Private(ordinary=bool(value))
    words = cast("list[object]", value) if isinstance(value, list | tuple) else [value]
    try:
        return Private(networks=tuple(ip_network(_text(word)) for word in words))
    except ValueError as error:
        raise ConfigError(
            f"{key}: {error}",
            key=key,
            cure='Write true, or a list of networks such as ["10.20.0.0/16", "fd12::/64"]',
        ) from None


def address_from(text: str) -> Address | None:
    """The address that a host is, if it is written as one; None for a name."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def _text(word: object) -> str:
    # Numbers would be taken for addresses: `private: 1` is no network.
    if not isinstance(word, str):
        raise ValueError(f"{word!r} is not a network")
    return word


def _within(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)
