"""Secrets are hidden, and nothing else is."""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ConfigError
from toolcrib.observe.redact import HIDDEN, Redactor
from toolcrib.observe.sensitive import forms_of

SECRET = 'p"ä/ss+w?rd&7'


SECRET_KEYS = """
    password Password user_password PASSWD dbPassword userpassword passphrase secret
    client_secret clientSecret clientsecret aws_secret_access_key secretKey token access_token
    accessToken refreshtoken session_token csrf_token X-Auth-Token api_key apiKey APIKEY
    API_KEY X-Api-Key x-api-key openai_api_keys authorization Authorization
    Proxy-Authorization cookie Set-Cookie cookies private_key privateKey ssh_key credential
    credentials aws_credentials access_key AccessKeyId signing_key connectionString
    refresh_tokens password2 token_value jwt otp password_hash secrets
"""


@pytest.mark.parametrize("name", SECRET_KEYS.split())
def test_keys_of_secrets(name: str) -> None:
    redactor = Redactor()
    assert redactor.value({name: "x"}) == {name: HIDDEN}
    assert not redactor.clean_keys(["path", name])


INNOCENT_KEYS = """
    tokens_used max_tokens maxTokens token_count tokenCount tokens total_tokens tokenizer
    token_type token_limit token_bucket stop_token next_page_token nextPageToken nexttoken
    continuation_token author authority authored_by keyboard key keys primary_key public_key
    foreign_key keyword monkey session session_id secretary password_policy password_length
    token_url authorization_endpoint requires_secrets cookie_policy cookiecutter passenger
    compass bypass path user accessibility apikeyboard
"""


@pytest.mark.parametrize("name", INNOCENT_KEYS.split())
def test_innocent_keys(name: str) -> None:
    redactor = Redactor()
    value = {name: "x"}
    assert redactor.value(value) is value
    assert redactor.clean_keys([name])


@pytest.mark.parametrize("kept", [None, True, False, ""])
def test_whether_there_is_a_secret_is_none(kept: Any) -> None:
    value = {"password": kept}
    assert Redactor().value(value) is value


@pytest.mark.parametrize("hidden", ["x", 1234, 0, ["a"], {"user": "u"}, 1.5])
def test_everything_under_the_key_is_hidden(hidden: Any) -> None:
    assert Redactor().value({"password": hidden}) == {"password": HIDDEN}


def test_only_the_way_to_a_secret_is_copied() -> None:
    value = {"a": {"b": [1, {"token": "t"}]}, "c": {"d": [1, 2]}, "e": "text"}
    shown = Redactor().value(value)
    assert shown == {"a": {"b": [1, {"token": HIDDEN}]}, "c": {"d": [1, 2]}, "e": "text"}
    assert list(shown) == ["a", "c", "e"]
    assert shown["c"] is value["c"]
    assert value["a"]["b"][1] == {"token": "t"}


def test_own_patterns() -> None:
    redactor = Redactor(["employee_number", "*_pin", "Größe"])
    shown = redactor.value(
        {"employeeNumber": 7, "their_employee_number_2": 7, "card_PIN": 1, "spin": 2, "größe": 3}
    )
    assert shown == {
        "employeeNumber": HIDDEN,
        "their_employee_number_2": HIDDEN,
        "card_PIN": HIDDEN,
        "spin": 2,
        "größe": HIDDEN,
    }


def test_an_empty_pattern_is_an_error() -> None:
    with pytest.raises(ConfigError, match="pattern is empty"):
        Redactor([" "])


def encodings(secret: str) -> dict[str, str]:
    data = secret.encode()
    basic = [b"", b"u", b"us"]
    return {
        "raw": secret,
        "json": json.dumps(secret)[1:-1],
        "json utf-8": json.dumps(secret, ensure_ascii=False)[1:-1],
        "json in json": json.dumps(json.dumps(secret))[1:-1],
        "json, slashes": json.dumps(secret).replace("/", "\\/")[1:-1],
        "repr": repr(secret)[1:-1],
        "ascii": ascii(secret)[1:-1],
        "url": urllib.parse.quote(secret, safe=""),
        "url, slashes": urllib.parse.quote(secret),
        "url, plus": urllib.parse.quote_plus(secret),
        "url, lower": re.sub("%..", lambda m: m[0].lower(), urllib.parse.quote(secret, safe="")),
        "hex": data.hex(),
        "HEX": data.hex().upper(),
        "percent": "".join(f"%{b:02x}" for b in data),
        **{
            f"base64 at {len(head)}": base64.b64encode(head + data + b"tail").decode()
            for head in basic
        },
        **{
            f"urlsafe at {len(head)}": base64.urlsafe_b64encode(head + data).decode()
            for head in basic
        },
    }


@pytest.mark.parametrize("how", list(encodings(SECRET)))
def test_secret_values_in_every_spelling(how: str) -> None:
    redactor = Redactor(secrets=[SECRET])
    spelled = encodings(SECRET)[how]
    shown = redactor.text(f"before {spelled} after")
    assert HIDDEN in shown
    assert not any(form in shown for form in forms_of(SECRET))
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    assert HIDDEN in str(redactor.value({"x": [f"a {spelled} b"]}))


def test_secrets_in_keys_numbers_and_tuples() -> None:
    redactor = Redactor(secrets=["hunter-42", "12345678"])
    assert redactor.value({"at hunter-42": 1, "b": 2}) == {f"at {HIDDEN}": 1, "b": 2}
    assert redactor.value([12345678, 1234567, "n=12345678."]) == [HIDDEN, 1234567, f"n={HIDDEN}."]
    assert redactor.value(("hunter-42", 1)) == (HIDDEN, 1)
    assert not redactor.clean_keys(["hunter-42"])


def test_overlapping_secrets_leave_nothing() -> None:
    redactor = Redactor(secrets=["abcdefgh", "efghijkl", "abcdef"])
    assert redactor.text("xabcdefghijkly") == f"x{HIDDEN}y"
    assert redactor.text("abcdefabcdef") == HIDDEN
    assert redactor.text("abcdef-efghijkl") == f"{HIDDEN}-{HIDDEN}"


def test_short_secrets_are_not_looked_for() -> None:
    redactor = Redactor()
    assert not redactor.add_secret("admin")
    assert not redactor.has_secrets
    assert redactor.text("the admin of it all") == "the admin of it all"
    assert redactor.add_secret("admin1")
    assert redactor.has_secrets
    assert redactor.text("the admin1 of it all") == f"the {HIDDEN} of it all"


def test_a_secret_added_later_is_hidden_in_known_keys() -> None:
    redactor = Redactor()
    value = {"key-of-mine": "value"}
    assert redactor.value(value) is value
    redactor.add_secret("key-of-mine")
    assert redactor.value(value) == {HIDDEN: "value"}


def test_lines_of_a_key_file_and_the_newline_behind_a_secret() -> None:
    redactor = Redactor(secrets=["AAAAbbbbCCCCddddEEEE\nFFFFggggHHHHiiiiJJJJ\n", "file-secret\n"])
    assert redactor.text("read FFFFggggHHHHiiiiJJJJ") == f"read {HIDDEN}"
    assert redactor.text("read file-secret.") == f"read {HIDDEN}."


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLWhlcmU"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc123def456", f"Authorization: Bearer {HIDDEN}"),
        ("bearer abcdefghijklmnopqrstuv", f"bearer {HIDDEN}"),
        ("authorization: Basic dXNlcjpwYXNz", f"authorization: Basic {HIDDEN}"),
        (f"the token {JWT} leaked", f"the token {HIDDEN} leaked"),
        ("key sk-proj-abcdefghij0123456789xyz.", f"key {HIDDEN}."),
        ("k=sk_live_abcdefghij0123456789", f"k={HIDDEN}"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", HIDDEN),
        ("github_pat_11ABCDEFG0abcdefghijklmnop", HIDDEN),
        ("glpat-abcdefghij0123456789", HIDDEN),
        ("xoxb-123456789012-abcdef", HIDDEN),
        ("id AKIAIOSFODNN7EXAMPLE!", f"id {HIDDEN}!"),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", HIDDEN),
        ("postgres://user:s3cret@db/x", f"postgres://user:{HIDDEN}@db/x"),
        ("https://h/p?api_key=abcd1234&page=2", f"https://h/p?api_key={HIDDEN}&page=2"),
        ("DB_PASSWORD=hunter22 HOME=/root", f"DB_PASSWORD={HIDDEN} HOME=/root"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\nend",
            f"{HIDDEN}\nend",
        ),
        ("cut -----BEGIN PRIVATE KEY-----\nMIIBVgIBADAN", f"cut {HIDDEN}"),
    ],
)
def test_looks_of_credentials(text: str, shown: str) -> None:
    assert Redactor().text(text) == shown
    assert Redactor().value({"x": text}) == {"x": shown}


@pytest.mark.parametrize(
    "text",
    [
        "Bearer authentication is required here",
        "the bearer of bad news",
        "pip install scikit-learn sk-learn-contrib-things",
        "basic functionality of everything",
        "https://example.org/a/b?page_token=abcdef&max_tokens=1000",
        "https://example.org:8080/@user and mail me@example.org",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "f(token=other, key=value)",
        "eyJ is how it begins",
        "PATH=/usr/bin:/bin LANG=C.UTF-8",
        "a text of some length in which nothing at all is to be found",
    ],
)
def test_innocent_text_is_the_same_object(text: str) -> None:
    assert Redactor().text(text) is text


def test_encoded_json() -> None:
    redactor = Redactor(secrets=["hunter-42"])
    clean = b'{"a":1,"b":"nothing of interest"}'
    assert redactor.encoded(clean) is clean
    assert redactor.encoded(clean, clean=True) is clean
    assert json.loads(redactor.encoded(b'{"a":{"token":"x"}}')) == {"a": {"token": HIDDEN}}
    for data in (b'{"a":"x hunter-42"}', rb'{"a":"x \u0068unter-42"}'):
        assert json.loads(redactor.encoded(data, clean=True)) == {"a": f"x {HIDDEN}"}
    assert redactor.encoded(b"not json, hunter-42") == f"not json, {HIDDEN}".encode()


def test_encoded_json_with_a_secret_that_needs_escapes() -> None:
    redactor = Redactor(secrets=[SECRET])
    data = msgspec.json.encode({"a": f"-{SECRET}-"})
    assert json.loads(redactor.encoded(data, clean=True)) == {"a": f"-{HIDDEN}-"}


@dataclass
class Login:
    user: str
    password: str


class Loud:
    def __str__(self) -> str:
        return "hunter-42"


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("hunter-42")


def test_what_is_not_json_is_looked_at_as_it_would_be_written() -> None:
    redactor = Redactor(secrets=["hunter-42"])
    assert redactor.value(Login("u", "p")) == {"user": "u", "password": HIDDEN}
    assert redactor.value({"x": Loud()}) == {"x": HIDDEN}
    assert redactor.value(ValueError("no hunter-42")) == f"no {HIDDEN}"
    assert redactor.value([b"\xffhunter-42"]) == [HIDDEN]
    assert redactor.value(Broken()) == HIDDEN
    harmless = {"x": {1, 2}, "y": b"abc"}
    assert redactor.value(harmless) is harmless


def test_too_deep_is_hidden() -> None:
    deep: Any = "hunter-42"
    for _ in range(500):
        deep = [deep]
    loop: list[Any] = []
    loop.append(loop)
    redactor = Redactor(secrets=["hunter-42"])
    assert "hunter-42" not in json.dumps(redactor.value(deep))
    assert HIDDEN in json.dumps(redactor.value(loop), ensure_ascii=False)


def test_many_keys_of_callers_are_not_kept() -> None:
    redactor = Redactor()
    redactor.value({f"k{n}": n for n in range(20_000)})
    assert redactor.value({"k19999": 1, "password": "x"}) == {"k19999": 1, "password": HIDDEN}
    assert len(redactor._keys) <= 10_000


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just("a hunter-42 b"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | st.just("xhunter-42"), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(values)
def test_no_value_keeps_a_secret_and_the_rest_stays(value: Any) -> None:
    redactor = Redactor(secrets=["hunter-42"])
    before = json.dumps(value)
    shown = redactor.value(value)
    after = json.dumps(shown)
    assert "hunter-42" not in after
    assert json.dumps(value) == before
    if "hunter-42" not in before:
        assert shown is value
    assert redactor.value(shown) is shown
