"""The quick look over a JSON text spares the walk, and never lets through what the walk hides."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from toolcrib.core.jsontext import is_shallow
from toolcrib.observe import finder
from toolcrib.observe.redact import HIDDEN, MARK, MAX_DEPTH, Redactor
from toolcrib.observe.sensitive import forms_of, names_secret

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
        found = redactor.clear(data)
        clear[found] += 1
        if found and is_shallow(data, MAX_DEPTH):
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
        if redactor.clear(data) and is_shallow(data, MAX_DEPTH):
            assert redactor.secrets_in(value) == value


@pytest.mark.parametrize("group", SECRETS)
def test_depth_hides_no_secret_from_the_look(group: str) -> None:
    redactor = Redactor(secrets=SECRETS[group])
    for secret in SECRETS[group]:
        if "\ud800" in secret:
            continue  # no text can hold it
        deep: Any = secret
        for _ in range(2 * MAX_DEPTH):
            deep = [deep] if _ % 2 else {"in": deep}
        assert not redactor.clear(msgspec.json.encode(deep))
    harmless: Any = "nothing"
    for _ in range(2 * MAX_DEPTH):
        harmless = [harmless]
    assert redactor.clear(msgspec.json.encode(harmless))


def test_a_slash_that_others_escape() -> None:
    redactor = Redactor(secrets=["k9/Pq7/zzz"])
    assert not redactor.clear(b'["k9\\/Pq7\\/zzz"]')
    assert redactor.clear(b'["k9/Pq8/zzz"]')


def test_an_ordinary_result_needs_no_walk() -> None:
    redactor = Redactor(secrets=[s for group in SECRETS.values() for s in group if s != "000000"])
    rows = [{"id": n, "name": f"row {n}", "path": "a/b", "said": 'a "word"\n'} for n in range(300)]
    assert redactor.clear(msgspec.json.encode(rows))
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
        assert redactor.clear(data)
        shown = redactor.value(value, clear=data)
        assert shown == redactor.value(value)
        assert HIDDEN in str(shown)


def test_without_a_search_nothing_counts_as_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder, "LARGEST", 100)
    redactor = Redactor(secrets=[f"{n}-some-secret-value-{n}" for n in range(200)])
    assert not redactor.clear(b'"nothing"')


NAMES = (
    "password passwd pwd passphrase secret token tokens apikey cookie creds jwt otp totp",
    "key keys string connection api private access signing ssh account id auth session",
    "count policy next max my the rootpassword usersecret privatekey x",
)
WORDS = [word for names in NAMES for word in names.split()]
JOINTS = ("", "_", "-", ".", " ", "2", "é", "\n", "\t", '"', "\\", "\x01", "/", "[", "::")


def test_a_key_that_names_a_secret_is_never_missed() -> None:
    some = random.Random(13)
    named = 0
    for _ in range(20_000):
        words = [some.choice(WORDS) for _ in range(some.randrange(1, 4))]
        spelled = [some.choice((str.lower, str.upper, str.title))(word) for word in words]
        name = "".join(word + some.choice(JOINTS) for word in spelled)
        if names_secret(name):
            named += 1
            assert finder.find_names()(msgspec.json.encode({"rows": [{name: 1}]}).decode()), name
    assert named > 2_000


def test_rows_without_telling_names_are_left_alone() -> None:
    """Whatever stands in them: also JSON in a text, with the escapes that Python writes."""
    redactor = Redactor(secrets=["tok_9f8e7d6c5b4a39281706"])
    rows = [{"id": n, "name": f"réc {n}", "keyboard": "x", "string": "y"} for n in range(100)]
    value = {"content": [{"type": "text", "text": json.dumps(rows)}], "rows": rows}
    data = msgspec.json.encode(value)
    assert b"\\\\u00e9" in data
    assert redactor.clear(data)
    assert redactor.value(value, clear=data) is value
    assert not finder.find_names()(data.decode())
    value["rows"][70]["Api-Key"] = "some words"
    shown = redactor.value(value, clear=msgspec.json.encode(value))
    assert shown["rows"][70]["Api-Key"] == HIDDEN
    assert shown["rows"][69] is rows[69]


def test_names_that_only_the_user_knows_are_looked_for_in_every_row() -> None:
    redactor = Redactor(["shoe_size"], ["tok_9f8e7d6c5b4a39281706"])
    value = [{"id": n, "shoe_size": 40 + n} for n in range(20)]
    shown = redactor.value(value, clear=msgspec.json.encode(value))
    assert [row["shoe_size"] for row in shown] == [HIDDEN] * 20


@pytest.mark.parametrize("group", SECRETS)
def test_keys_are_found_in_clear_text_as_the_walk_finds_them(group: str) -> None:
    redactor = Redactor(secrets=SECRETS[group])
    make = Maker(SECRETS[group], seed=14)
    some = random.Random(15)
    names = ("a", "password", "x-api-key", "note", "Connection String", "token_count", "é\ntoken")
    for _ in range(2000):
        value = {some.choice(names): make.value() for _ in range(some.randrange(1, 4))}
        value["long"] = "x" * 50
        data = msgspec.json.encode(value)
        if redactor.clear(data) and is_shallow(data, MAX_DEPTH):
            assert redactor.value(value, clear=data) == redactor.value(value)
