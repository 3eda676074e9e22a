from __future__ import annotations

import pytest

from toolcrib.client import Client, ClientError
from toolcrib.client.address import Address, read_address


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("http://127.0.0.1:8700", Address("http", "http://127.0.0.1:8700")),
        ("http://127.0.0.1:8700/", Address("http", "http://127.0.0.1:8700")),
        ("http://127.0.0.1:8700/v1", Address("http", "http://127.0.0.1:8700")),
        ("https://tools.example/crib/v1/", Address("http", "https://tools.example/crib")),
        ("HTTP://[::1]:80", Address("http", "http://[::1]:80")),
        ("ws://h:1", Address("websocket", "ws://h:1/v1/ws")),
        ("wss://h/crib/v1/ws", Address("websocket", "wss://h/crib/v1/ws")),
        ("unix:/run/x.sock", Address("http", "http://localhost", "/run/x.sock")),
        ("unix:///run/x.sock", Address("http", "http://localhost", "/run/x.sock")),
        ("unix:x.sock", Address("http", "http://localhost", "x.sock")),
        ("stdio:", Address("stdio", "stdio:")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_address_is_read(text: str, meant: Address) -> None:
    assert read_address(text) == meant


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no address"),
        ("127.0.0.1:8700", "Did you mean http://127.0.0.1:8700?"),
        ("s3cret:8700:x", "no address of a host"),
        ("htp://x", "Did you mean http"),
        ("http:", "no address of a host"),
        ("http://", "name of the host is missing"),
        ("http://h:99999", "cannot be read"),
        ("http://h?token=s3cret", "ends with its path"),
        ("http://u:s3cret@h", "token="),
        ("unix:", "path of the socket"),
        ("stdio:python", "command="),
    ],
)
def test_a_wrong_address_is_told_with_the_cure(text: str, words: str) -> None:
    with pytest.raises(ClientError) as wrong:
        Client(text)
    assert words in str(wrong.value)
    assert "s3cret" not in str(wrong.value)


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("stdio:", {"command": ["x"], "token": "t"}, "token means nothing"),
        ("stdio:", {}, "has to be given as a list"),
        ("stdio:", {"command": "toolcrib serve"}, "has to be given as a list"),
        ("http://h", {"command": ["x"]}, "command means nothing"),
        ("http://h", {"timeout": 0}, "timeout must be more than 0"),
        ("http://h", {"token": "two words"}, "Look for spaces"),
        ("http://h", {"token": "s3cret\n"}, "Look for spaces"),
        ("http://h", {"headers": {"Authorization": "Bearer s3cret"}}, "Use token="),
        ("http://h", {"headers": {"X-A": "a\r\nX-B: b"}}, "cannot be sent"),
        ("https://h", {"tls": "/nowhere/ca.pem"}, "cannot be read"),
    ],
)
def test_wrong_options_are_told(url: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(ClientError, match=words) as wrong:
        Client(url, **options)  # pyright: ignore[reportArgumentType]
    assert "s3cret" not in str(wrong.value)


def test_the_token_is_not_shown() -> None:
    client = Client("http://127.0.0.1:1", "t0ken-t0ken")
    assert "t0ken" not in repr(client)
    assert "127.0.0.1:1" in repr(client)
