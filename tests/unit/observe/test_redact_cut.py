"""A secret that was cut through before it came here is hidden too, as far as it is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.observe.redact import HIDDEN, MARK, PIECE, Redactor

SECRET = "s3cr3t-Zebra-4711-0815-Yak"
redactor = Redactor(secrets=[SECRET])


def hidden(text: str) -> tuple[str, str]:
    """The text as events show it and as results do."""
    return redactor.text(text), redactor.secrets_in([text])[0]


@pytest.mark.parametrize("gap", ["", " "])
@given(cut=st.integers(1, len(SECRET) - PIECE), rest=st.text("xyz ", max_size=20))
def test_what_follows_a_mark(gap: str, cut: int, rest: str) -> None:
    shown = f"{MARK}{gap}{HIDDEN}{rest}"
    assert hidden(f"{MARK}{gap}{SECRET[cut:]}{rest}") == (shown, shown)
    shown = f"failed: {shown}"
    assert hidden(f"failed: {MARK}{gap}{SECRET[cut:]}{rest}") == (shown, shown)


@pytest.mark.parametrize("gap", ["", " "])
@given(cut=st.integers(PIECE, len(SECRET) - 1), begin=st.text("xyz ", max_size=20))
def test_what_stands_before_a_mark(gap: str, cut: int, begin: str) -> None:
    shown = f"{begin}{HIDDEN}{gap}{MARK}"
    assert hidden(f"{begin}{SECRET[:cut]}{gap}{MARK}") == (shown, shown)


def test_the_ends_of_a_text() -> None:
    half = len(SECRET) // 2
    assert hidden(f"{SECRET[3:]} said") == (f"{HIDDEN} said",) * 2
    assert hidden(f"it said {SECRET[:-3]}") == (f"it said {HIDDEN}",) * 2
    # Less than half of it, with nothing to show that it was cut, may be a word like any other.
    for text in (f"{SECRET[half + 2 :]} said", f"it said {SECRET[: half - 2]}"):
        assert hidden(text) == (text, text)


@given(st.text("abcdefg-…. ", max_size=60))
def test_other_text_stays(text: str) -> None:
    assert hidden(text) == (text, text)


PIECES = [SECRET[at : at + PIECE] for at in range(len(SECRET) - PIECE + 1)]


@given(st.integers(0, 60))
def test_wherever_it_is_cut_little_is_left(place: int) -> None:
    text = f"a word before {SECRET} and one after"
    for cut in (f"{MARK} {text[place:]}", f"{text[:place]}{MARK}"):
        for shown in hidden(cut):
            assert not any(piece in shown for piece in PIECES), (cut, shown)
