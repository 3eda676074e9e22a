"""What a refusal says."""

from __future__ import annotations

import pytest

from toolcrib.providers.mcp.oauth.challenge import Challenge, challenge_in, scopes_from


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Challenge()),
        ("Bearer", Challenge()),
        ("Basic realm=x", Challenge()),
        (
            'Bearer resource_metadata="https://a/b", scope="x y"',
            Challenge(resource_metadata="https://a/b", scopes=("x", "y")),
        ),
        ("bearer scope=x,error=invalid_token", Challenge(scopes=("x",), error="invalid_token")),
        ('Basic realm="a, Bearer scope=evil", Bearer scope="x"', Challenge(scopes=("x",))),
        ('Bearer scope="x", Basic scope="evil"', Challenge(scopes=("x",))),
        ('Bearer scope="a", scope="b"', Challenge(scopes=("a",))),
        (r'Bearer error="a\"b"', Challenge(error='a"b')),
        ('Bearer scope="x" , resource_metadata = "https://a"', Challenge(
            resource_metadata="https://a", scopes=("x",)
        )),
        ('Bearer scope="unterminated', Challenge()),
        ('Bearer realm="é\x7f", scope="x"', Challenge(scopes=("x",))),
        ("DPoP scope=x", Challenge()),
    ],
)  # fmt: skip
def test_the_bearer_challenge_is_found(text: str, expected: Challenge) -> None:
    assert challenge_in({"www-authenticate": text}) == expected


def test_no_header_is_an_empty_challenge() -> None:
    assert challenge_in({}) == Challenge()


@pytest.mark.parametrize("text", ['"\\' * 4000, "Bearer " + "a=" * 4000, "Bearer " + "," * 8000])
def test_nonsense_takes_no_time(text: str) -> None:
    assert challenge_in({"www-authenticate": text}).scopes == ()


def test_scopes_are_words_each_of_them_once() -> None:
    assert scopes_from('a b  a c\x07 d"e f\\g é') == ("a", "b")
    assert scopes_from(None) == ()
    assert len(scopes_from(" ".join(map(str, range(1000))))) == 100
