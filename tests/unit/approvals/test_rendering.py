"""What a person reads."""

from __future__ import annotations

import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.approvals.rendering import Size, more, question, remaining, visible
from toolcrib.observe.log import escape

NEVER_RAW = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Controls, formats (bidi, zero-width, tags), halves of pairs, private use, separators."""
EVERY_UNSEEN = [
    c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in NEVER_RAW
]


def test_the_question_reads_as_designed(make_request: Any) -> None:
    assert question(make_request()) == (
        "  claude-code asks to run  run_tests\n"
        "    path        tests/integration\n"
        "  Effects       unknown, treated as the worst case\n"
        "  Asked because effects other than read are asked     toolcrib.yaml:31\n"
        "\n"
        "  y  allow once     s  allow run_tests in this session     n  refuse     m  more\n"
    )


def test_only_offered_reaches_have_keys(make_request: Any) -> None:
    assert question(make_request(offered=("once",))).endswith(
        "\n  y  allow once     n  refuse     m  more\n"
    )
    every = question(make_request(offered=("once", "session", "1h", "always")))
    assert "h  allow run_tests for an hour" in every
    assert "a  allow run_tests from now on" in every


def test_the_reason_falls_back_to_the_rule_and_the_gate(make_request: Any) -> None:
    assert "because ask: {effects: [write]} " in question(make_request(message=None))
    bare = question(make_request(message=None, rule=None, source=None))
    assert "  Asked because profile asks\n" in bare


def test_known_effects_are_named(make_request: Any) -> None:
    shown = question(make_request(effects=("write", "egress")))
    assert "  Effects       write, egress\n" in shown
    assert "  Effects       none\n" in question(make_request(effects=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢字", "plain é 漢字"),
        ("a\x1b[2Jb", "a\\u001b[2Jb"),
        ("a\nb\rc\td", "a\\nb\\rc\\td"),
        ("safe\u202egnp.exe", "safe\\u202egnp.exe"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\u2066iso\u2069", "\\u2066iso\\u2069"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("fill\u3164er\u00a0nb", "fill\\u3164er\\u00a0nb"),
        ("sel\ufe0f", "sel\\ufe0f"),
        ("c1\x9b31m\x7f", "c1\\u009b31m\\u007f"),
        ("line\u2028sep", "line\\u2028sep"),
        ("\\u202e", "\\\\u202e"),
        ("lone\ud800", "lone\\ud800"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("write", [visible, escape], ids=["at the prompt", "in logs and lists"])
def test_every_unseen_character_of_unicode_is_written_out(write: Any) -> None:
    assert len(EVERY_UNSEEN) > 100_000
    raw = [c for c in EVERY_UNSEEN if write(f"a{c}b") == f"a{c}b"]
    assert raw == []
    shown = write("".join(EVERY_UNSEEN))
    assert all(unicodedata.category(c) not in NEVER_RAW for c in shown)


@given(st.text())
def test_nothing_unseen_is_left(text: str) -> None:
    shown = visible(text)
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in shown)
    assert "\n" not in shown


@given(st.text(), st.text())
def test_different_texts_look_different(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)


def test_long_values_are_cut_visibly(make_request: Any) -> None:
    shown = question(make_request(arguments={"text": "x" * 5000, "deep": {"a": ["y" * 5000]}}))
    assert "x" * 200 + " … (4800 more characters)" in shown
    assert "x" * 201 not in shown
    assert max(map(len, shown.splitlines())) < 300


def test_many_arguments_are_cut_visibly(make_request: Any) -> None:
    shown = question(make_request(arguments={f"a{n}": n for n in range(40)}))
    assert "    … and 28 more arguments; m shows them\n" in shown
    assert "a12" not in shown


def rows(text: str, columns: int) -> int:
    """What a screen of that width needs for a text, wide letters counted as two."""
    wide = [
        sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)
        for line in text.split("\n")
    ]
    return sum(max(1, -(-width // columns)) for width in wide)


PADDING = ("x", "\u200b", "\U000e0041", " ", "漢", "\n", "\x1b", "\\", "\u00a0")


@pytest.mark.parametrize("padding", PADDING, ids=ascii)
@pytest.mark.parametrize("size", [Size(80, 24), Size(100, 30), Size(60, 30)], ids=str)
def test_padding_cannot_push_the_question_off_the_screen(
    make_request: Any, padding: str, size: Size
) -> None:
    long = padding * 5000
    request = make_request(
        arguments={f"{n}{long}": [long] if n % 2 else long for n in range(50)},
        tool=long,
        principal=long,
        message=long,
        source=long,
        effects=(long,),
        offered=("once", "session", "1h", "always"),
        edit=True,
    )
    shown = question(request, size)
    # A blank line goes before it, and the line with the time behind it.
    assert rows(f"\n{shown}  Refused by itself in 4:58.  > ", size.columns) <= size.rows
    assert "asks to run" in shown.split("\n")[0]
    assert "e  edit     n  refuse     m  more" in shown
    assert "more arguments; m shows them" in shown


def test_one_argument_at_least_is_shown_however_small_the_screen(make_request: Any) -> None:
    shown = question(make_request(arguments={"a": "1", "b": "2"}), Size(20, 3))
    assert "    a           1\n    … and 1 more arguments; m shows them\n" in shown


def test_more_shows_everything(make_request: Any) -> None:
    arguments = {f"a{n}": {"deep": ["ü\u202e\n", n]} for n in range(40)}
    shown = more(make_request(arguments=arguments))
    for part in ("r1", "c1", "d1", "reviewer", "v1", "s1", "python", "ask: {effects: [write]}"):
        assert part in shown
    assert '"a39": {' in shown
    assert '"ü\\u202e\\n"' in shown
    assert "\u202e" not in shown


def test_even_more_is_cut_visibly(make_request: Any) -> None:
    shown = more(make_request(arguments={"text": "x" * 1_000_000}))
    assert len(shown) < 25_000
    assert "more characters)" in shown


def test_every_field_from_outside_is_escaped(make_request: Any) -> None:
    bad = "\x1b[2J\u202e"
    request = make_request(
        **dict.fromkeys(
            ("tool", "principal", "message", "rule", "source", "id", "call_id", "digest"), bad
        ),
        **dict.fromkeys(("profile", "revision", "session", "door", "gate"), bad),
        arguments={bad: bad, "nested": {bad: [bad]}},
        effects=(bad,),
    )
    for shown in (question(request), more(request)):
        assert "\x1b" not in shown
        assert "\u202e" not in shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(298.4, "4:58"), (0, "0:00"), (-3, "0:00"), (59.9, "0:59"), (3898, "1:04:58")],
)
def test_remaining_time(seconds: float, shown: str) -> None:
    assert remaining(seconds) == shown
