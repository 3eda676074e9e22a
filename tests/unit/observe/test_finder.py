"""The quick look over a JSON text spares the walk, and never lets through what the walk hides."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from toolcrib.observe import finder
from toolcrib.observe.redact import HIDDEN, MARK, MAX_DEPTH, Redactor
from toolcrib.observe.sensitive import forms_of

SECRETS = {
    "token": ["tok_9f8e7d6c5b4a39281706"],
    "quotes and escapes": ['pa"ss\\wo\nrd/x', "tab\there\x01and\x7fthere"],
    "no ASCII": ["naïve-§§-ключ-пароль", "smile😀and😀smile"],
    "like escapes": ["\\u0041\\u00e9\\ud83d zz", "half\ud800of-a-pair", "a/b\\/c\\\\d"],
    "numbers": ["48151623421337", "000000", "9" * 500],
    "long": [f"-----BEGIN KEY-----\n{'abcdefghijklmnopqrstuvwx' * 9}\nZ\n-----END KEY-----\n"],
    "short": ["secret", "é-9/é\\", "12345678"],
    "like JSON": ['{"a":1},"b"', "null,true,", "[1,2,3]"],
}
HARMLESS = (
    *("", "type", "text", "é", MARK, "C:\\users", 'a "word"', "line\nline", "x" * 60),
    *("KEY=value1", "?pwd=abcd", "Bearer abcdefgh12345678", "https://u:pw@host/", "see://that"),
)


class Maker:
    """Makes JSON values that have secrets in them: whole, cut, nested, as keys, as numbers."""

    def __init__(self, secrets: list[str], seed: int) -> None:
        self.any = random.Random(seed)
        self.forms = sorted({form for secret in secrets for form in forms_of(secret)})

    def text(self) -> str:
        """A text with or without some of a secret; one that can be encoded."""
        some = self.any.choice
        if self.any.random() < 0.6:
            return some(HARMLESS)
        form = some(self.forms)
        half = max(8, len(form) // 2)
        at = self.any.randrange(len(form))
        cuts = [form, form, form[:at], form[at:], form[:half], form[-half:], form[1:], form[:-1]]
        cuts += [form[:8], form[-8:], form[: half - 1], form[1 - half :]]
        said = some(["", "", "x ", MARK, MARK + " ", '"', "\\"]) + some(cuts)
        said += some(["", "", " y", MARK, " " + MARK, "\n", "\\"])
        return said.encode(errors="ignore").decode()

    def value(self, depth: int = 0) -> Any:
        """A JSON value."""
        kind = self.any.random()
        if depth > 3 or kind < 0.5:
            return self.text()
        if kind < 0.6:
            numbers = (0, 1, -1, 2.5, True, None, 48151623421337, 12345678, int("9" * 500), 2**70)
            return self.any.choice(numbers)
        if kind < 0.62:
            inner = self.value(depth + 1)
            for _ in range(MAX_DEPTH + self.any.randrange(-6, 3)):
                inner = [inner] if self.any.random() < 0.5 else {"in": inner}
            return inner
        if kind < 0.8:
            return [self.value(depth + 1) for _ in range(self.any.randrange(4))]
        return {self.text(): self.value(depth + 1) for _ in range(self.any.randrange(4))}


def escaped(data: bytes, chance: random.Random) -> bytes:
    """The same JSON as another program may write it: with escapes where none are needed."""
    text = data.decode()
    if "\\" in text:
        return data
    said: list[str] = []
    for char in text:
        if char == "/" and chance.random() < 0.5:
            said.append("\\/")
        elif char.isalpha() and ord(char) < 0x10000 and chance.random() < 0.2:
            said.append(f"\\u{ord(char):04x}")
        else:
            said.append(char)
    return "".join(said).encode()


@pytest.mark.parametrize("group", SECRETS)
def test_what_is_found_clear_is_what_the_walk_leaves_alone(group: str) -> None:
    redactor = Redactor(["*_pin"], SECRETS[group])
    make = Maker(SECRETS[group], seed=11)
    clear = {True: 0, False: 0}
    for _ in range(5000):
        value = make.value()
        data = msgspec.json.encode(value)
        found = redactor.clear(data, value)
        clear[found] += 1
        if found:
            assert redactor.secrets_in(value) == value
            shown, walked = redactor.value(value, clear=data), redactor.value(value)
            assert shown == walked
            assert (shown is value) is (walked is value)
    assert min(clear.values()) > 200, clear


@pytest.mark.parametrize("group", SECRETS)
def test_the_escapes_of_others_hide_nothing(group: str) -> None:
    redactor = Redactor(secrets=SECRETS[group])
    make = Maker(SECRETS[group], seed=12)
    for _ in range(2000):
        try:
            data = escaped(msgspec.json.encode(make.value()), make.any)
            value = msgspec.json.decode(data)
        except msgspec.DecodeError:
            continue  # what stood for a literal got an escape
        if redactor.clear(data, value):
            assert redactor.secrets_in(value) == value


def test_a_slash_that_others_escape() -> None:
    redactor = Redactor(secrets=["k9/Pq7/zzz"])
    assert not redactor.clear(b'["k9\\/Pq7\\/zzz"]')
    assert redactor.clear(b'["k9/Pq8/zzz"]')


def test_an_ordinary_result_needs_no_walk() -> None:
    redactor = Redactor(secrets=[s for group in SECRETS.values() for s in group if s != "000000"])
    rows = [{"id": n, "name": f"row {n}", "path": "a/b", "said": 'a "word"\n'} for n in range(300)]
    assert redactor.clear(msgspec.json.encode(rows), rows)
    assert not redactor.clear(msgspec.json.encode([*rows, "tok_9f8e7d6c5b4a39281706"]))


def test_what_is_added_later_is_found() -> None:
    redactor = Redactor()
    data = b'["first-secret","other-secret",123456789]'
    assert redactor.clear(data)
    redactor.add_secret("first-secret")
    assert not redactor.clear(data)
    redactor.drop_secret("first-secret")
    assert redactor.clear(data)
    redactor.add_secret("no-such-secret")
    assert redactor.clear(data)
    redactor.add_secret("123456789")
    assert not redactor.clear(data)


def test_keys_and_credentials_are_hidden_in_clear_text_too() -> None:
    redactor = Redactor(["*_pin"], ["some-secret-value"])
    for value in (
        {"my_pin": "1234", "password": "hunter2-and-more-of-it", "a": ["x" * 50, 1]},
        {"said": "Bearer abcdefgh12345678abcdefgh12345678", "and": {"deep": "x" * 50}},
        {"at": "https://ann:hunter2@example.org/and/so/on/and/so/on"},
        ["PASSWORD=hunter2-and-more-of-it", "?token=hunter2", "x" * 50],
        {"Bearer abcdefgh12345678abcdefgh12345678": "x" * 50},
    ):
        data = msgspec.json.encode(value)
        assert redactor.clear(data, value)
        shown = redactor.value(value, clear=data)
        assert shown == redactor.value(value)
        assert HIDDEN in str(shown)


def test_without_a_search_nothing_counts_as_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder, "LARGEST", 100)
    redactor = Redactor(secrets=[f"{n}-some-secret-value-{n}" for n in range(200)])
    assert not redactor.clear(b'"nothing"')
