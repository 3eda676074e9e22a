"""URLs, read so strictly that no other reader can find another host in them."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple, NoReturn
from urllib.parse import quote, urljoin

from toolcrib.core.jsontext import shown
from toolcrib.errors import Denial

LONGEST = 8192
_PORTS = {"http": 80, "https": 443}
_URL = r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<place>[^/?#]*)(?P<rest>.*)"
# Spaces, control characters, and what readers disagree about: a backslash is a slash to some.
_NEVER = r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ud800-\udfff\ufeff]"
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NUMBER = r"[0-9]+|0[xX][0-9A-Fa-f]*"
_PORT = r"[0-9]{1,5}"
_KEPT = "!$&'()*+,;=:@/%~-._"


class Url(NamedTuple):
    """An http or https address in parts. The host is lower-case ASCII, a name or an address."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query, encoded; begins with a slash."""

    @property
    def authority(self) -> str:
        """Host and port as they stand in a URL; the scheme's usual port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if _PORTS[self.scheme] == self.port else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port: the party that is asked."""
        return f"{self.scheme}://{self.authority}"

    @property
    def without_query(self) -> str:
        """What may stand in a message: a query can hold credentials."""
        return self.origin + self.target.partition("?")[0]

    def __str__(self) -> str:
        return self.origin + self.target


def parse_url(text: str) -> Url:
    """The parts of a URL, or a `Denial` with the reason `url_not_allowed`."""
    if len(text) > LONGEST:
        _refuse(text, f"it is longer than {LONGEST} characters")
    if re.search(_NEVER, text):
        _refuse(text, "it contains a space, a control character or a backslash")
    match = re.fullmatch(_URL, text)
    if match is None:
        _refuse(text, "it is not written as https://host/path")
    scheme = match["scheme"].lower()
    if scheme not in _PORTS:
        _refuse(text, f"the scheme {scheme} is neither https nor http")
    host, port = _place(text, match["place"], scheme)
    return Url(scheme, host, port, _target(match["rest"]))


def join_url(base: Url, reference: str) -> Url:
    """Where a reference (a redirect, a link) found at `base` leads."""
    if re.search(_NEVER, reference):
        _refuse(reference, "it contains a space, a control character or a backslash")
    return parse_url(urljoin(str(base), reference))


def parse_host(text: str) -> str:
    """A host in its one spelling: a lower-case name, or an address without brackets.

    Raises `ValueError`. Numbers that some readers take for addresses (2130706433, 0x7f.1, 127.1,
    0177.0.0.1) are no hosts.
    """
    if text.startswith("["):
        if not text.endswith("]"):
            raise ValueError("the bracket around its address is not closed")
        return _address_6(text[1:-1])
    if not text.isascii():
        text = _ascii(text)
    text = text.lower()
    labels = text.removesuffix(".").split(".")
    if re.fullmatch(_NUMBER, labels[-1]):
        # A trailing dot makes no address, and leading zeros are octal to some.
        try:
            return str(IPv4Address(text))
        except AddressValueError:
            raise ValueError(
                "its host is a number that readers understand differently; "
                "write a name, or an address such as 192.0.2.7"
            ) from None
    if len(text) > 254 or not all(re.fullmatch(_LABEL, label) for label in labels):
        raise ValueError("its host is not a name")
    return ".".join(labels)


def _place(text: str, place: str, scheme: str) -> tuple[str, int]:
    if "@" in place:
        _refuse(text, "it holds a user or password; credentials belong to the configuration")
    host, colon, number = place, "", ""
    if not place.endswith("]"):
        before, colon, number = place.rpartition(":")
        host = before if colon else number
    if colon and (not re.fullmatch(_PORT, number) or not 0 < int(number) < 65536):
        _refuse(text, "its port is not a number from 1 to 65535")
    if not host:
        _refuse(text, "it names no host")
    try:
        return parse_host(host), int(number) if colon else _PORTS[scheme]
    except ValueError as error:
        _refuse(text, str(error))


def _address_6(text: str) -> str:
    try:
        if "%" in text:
            raise AddressValueError
        return IPv6Address(text).compressed
    except AddressValueError:
        raise ValueError("its address in brackets is not IPv6") from None


def _ascii(text: str) -> str:
    try:
        import idna
    except ImportError:
        raise ValueError(
            "its host is not ASCII, which needs: pip install 'toolcrib[http]'"
        ) from None
    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode("ascii")
    except idna.IDNAError:
        raise ValueError("its host is not a name") from None


def _target(rest: str) -> str:
    path, question, query = rest.partition("#")[0].partition("?")
    target = quote(path if path.startswith("/") else "/" + path, safe=_KEPT)
    return target + question + quote(query, safe=_KEPT + "?[]")


def _refuse(text: str, why: str) -> NoReturn:
    # A query or a user part may hold a secret.
    visible = re.sub(r".*@", "…@", re.split(r"[?#]", text, maxsplit=1)[0], flags=re.DOTALL)
    raise Denial("url_not_allowed", f"the URL {shown(visible)} is refused: {why}")
