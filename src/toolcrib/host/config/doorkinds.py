"""What single values of `serve:` can be: addresses, secrets, hashes, dates, places of keys."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

import msgspec

from toolcrib.core import units
from toolcrib.core.serving import Listen
from toolcrib.errors import Denial
from toolcrib.host.config.environment import VARIABLE
from toolcrib.host.config.kinds import BAD, PATH, SIZE, TEXT, Unfit, Value
from toolcrib.host.config.node import Node
from toolcrib.host.config.reading import Reading

SHORTEST_SECRET: Final = 16
"""Characters of a token's secret."""
HASH = r"sha256:[0-9a-f]{64}"
ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Signatures of a key pair only: whoever can check a shared secret can also forge with it."""

_ADDRESS = 'Write 8700, "127.0.0.1:8700" or "[::1]:8700"'
_KNOWN = frozenset(("127.0.0.1", "0.0.0.0", "localhost"))  # noqa: S104 - nothing listens here
"""Hosts in their one spelling, which need no closer look."""


def hash_of(secret: bytes) -> str:
    """`sha256:` and the hash of a secret, as configurations and token files hold it."""
    return f"sha256:{sha256(secret).hexdigest()}"


def _may_be_sent(text: str) -> bool:
    """Whether a header can carry it: visible characters of ASCII and nothing else."""
    return text.isascii() and text.isprintable() and bool(text) and " " not in text


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535


def listen_from(text: str | int) -> Listen:
    """The address in `8700`, `127.0.0.1:8700`, `[::1]:8700` or `localhost:8700`. Raises
    `ValueError`, which says what to write."""
    host, number = "127.0.0.1", str(text)
    if not _is_port(number):
        host, _, number = number.rpartition(":")
    if not _is_port(number):
        raise ValueError(f"has no port from 0 to 65535. {_ADDRESS}")
    if host in ("", "*"):
        raise ValueError('names no address. Write "0.0.0.0:8700" for every one of the machine')
    if ":" in host and not host.startswith("["):
        raise ValueError(f"has an IPv6 address without brackets. {_ADDRESS}")
    if host in _KNOWN:
        return Listen(host=host, port=int(number))
    from toolcrib.net.url import parse_host

    try:
        return Listen(host=parse_host(host), port=int(number))
    except ValueError:
        raise ValueError(f"names no host. {_ADDRESS}") from None


def _listen(node: Node) -> Listen:
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise Unfit(_ADDRESS)
    try:
        return listen_from(value)
    except ValueError as error:
        what, _, cure = str(error).partition(". ")
        raise Unfit(cure, message=what) from None


def _expires(node: Node) -> float:
    text = node.value
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise Unfit("Write 2027-01-31, or 2027-01-31T18:00:00Z")
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _hash(node: Node) -> str:
    if not isinstance(node.value, str) or not re.fullmatch(HASH, node.value):
        raise Unfit("`toolcrib tokens new` makes a token and keeps its hash")
    return node.value


def _issuer(node: Node) -> str:
    text = str(TEXT.convert(node))
    _url(text)
    return text


def _jwks(node: Node) -> str:
    text = str(TEXT.convert(node))
    if "://" not in text:
        return PATH.convert(node)
    _url(text)
    return text


def _url(text: str) -> None:
    from toolcrib.net.url import parse_url

    try:
        parse_url(text)
    except Denial:
        raise Unfit("Write https://host/path, without user and password") from None


def _bytes(node: Node) -> int:
    found: int = SIZE.convert(node)
    if found < 1024:
        raise Unfit("Write at least 1KiB")
    return found


class Secret(msgspec.Struct, frozen=True):
    """Text that stands nowhere in the file: it comes from the environment."""

    name: str
    least: int = 1
    otherwise: str = ""
    """What else can be done about a secret in the file."""
    sent: bool = False
    """Whether callers send it in a header."""

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        """The secret."""
        value = TEXT.read(node, key, reading)
        if value is BAD:
            return BAD
        cure = f"Write ${{VARIABLE}} and set it in the environment{self.otherwise}"
        if node.variable is None:
            if node.line is not None or node.origin.file != "config":
                reading.secrets.add(value)  # no message quotes it
                reading.wrong(node, key, f"{key} stands in the file for anybody to read", cure)
                return BAD
            reading.secrets.add(value)  # a program gave it
        elif node.variable not in reading.env:
            message = f"{key} is the default of ${{{node.variable}}}, which stands in the file"
            reading.secrets.add(value)
            reading.wrong(node, key, message, f"Set {node.variable}, and write no default")
            return BAD
        if len(value) < self.least:
            message = f"{key} is shorter than {self.least} characters, so it can be guessed"
            reading.wrong(node, key, message, "`toolcrib tokens new` makes a good one")
            return BAD
        if self.sent and not _may_be_sent(value):
            message = f"{key} has characters that no header can carry"
            reading.wrong(node, key, message, "Use ASCII letters, digits and signs, no spaces")
            return BAD
        return value

    def schema(self) -> dict[str, Any]:
        """Text with a variable in it."""
        return {"type": "string", "pattern": VARIABLE}


LISTEN = Value(
    "an address such as 127.0.0.1:8700",
    _listen,
    {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 65535},
            {"type": "string", "pattern": "^(.*:)?[0-9]{1,5}$"},
        ]
    },
)
MOMENT = Value("a date such as 2027-01-31", _expires, {"type": "string", "pattern": "^[0-9]{4}-?"})
TOKEN_HASH = Value(
    "sha256: and 64 hexadecimal digits",
    _hash,
    {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
)
ISSUER = Value("a URL", _issuer, {"type": "string", "pattern": "^https?://"})
JWKS = Value("a URL or a file", _jwks, {"type": "string"})
BYTES = Value("a size such as 2MiB", _bytes, SIZE.json)
TOKEN_SECRET = Secret(
    f"${{VARIABLE}}, of at least {SHORTEST_SECRET} characters",
    SHORTEST_SECRET,
    ", or write its hash",
    sent=True,
)
PASSWORD = Secret("${VARIABLE}")


def moment_from(text: str, now: float) -> float:
    """When something expires that is said to last `30d`, or until `2027-01-31`. Raises
    `ValueError`, which says what to write."""
    if text[:4].isdigit() and len(text) >= 8:
        try:
            moment = datetime.fromisoformat(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except ValueError:
            raise ValueError("Write a time such as 30d, or a date such as 2027-01-31") from None
    try:
        return now + units.duration(text)
    except ValueError as error:
        raise ValueError(f"{error}; or a date such as 2027-01-31") from None
