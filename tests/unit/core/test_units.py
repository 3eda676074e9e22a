from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.units import (
    Rate,
    did_you_mean,
    duration,
    format_duration,
    format_size,
    rate,
    size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
        ("2d", 172_800.0),
        ("1w", 604_800.0),
        ("1.5s", 1.5),
        ("0.1s200ms", 0.3),
        (" 30s\n", 30.0),
        (30, 30),
        (0.5, 0.5),
    ],
)
def test_durations_are_read(text: Any, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("30", 'has no unit: did you mean "30s"?'),
        ("", "is not a duration"),
        ("s", "is not a duration"),
        ("5 minutes", "is not a duration"),
        ("1m1h", "is not a duration"),
        ("1m1m", "is not a duration"),
        ("1e5s", "is not a duration"),
        ("-5m", "is not a duration"),
        ("٣s", "is not a duration"),
        ("9" * 500 + "s", "is not a duration"),
        ("0s", "zero"),
        (0, "zero"),
        (-1, "negative"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (1e300, "hundred years"),
        (10**400, "hundred years"),
        ("999999999999999999w", "hundred years"),
        (True, "true"),
        (None, "null"),
        ([], "a list"),
    ],
)
def test_bad_durations_say_what_is_wrong_and_give_examples(value: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        duration(value)
    assert words in str(caught.value)
    assert '"1h30m"' in str(caught.value)
    assert len(str(caught.value)) < 250


def test_zero_is_accepted_where_it_has_a_meaning() -> None:
    assert duration("0s", zero=True) == 0
    assert size(0, zero=True) == 0


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1GiB", 1 << 30),
        ("64kB", 64_000),
        ("64KB", 64_000),
        ("10MB", 10_000_000),
        ("10 MB", 10_000_000),
        ("1.5KiB", 1536),
        ("7B", 7),
        (1024, 1024),
        (1e6, 1_000_000),
    ],
)
def test_sizes_are_read(text: Any, count: int) -> None:
    found = size(text)
    assert found == count
    assert type(found) is int


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("10", 'did you mean "10B"?'),
        ("1G", 'did you mean "1GB"?'),
        ("1gib", 'did you mean "1GiB"?'),
        ("1parsec", "is not a size"),
        ("", "is not a size"),
        ("-1B", "is not a size"),
        ("0B", "zero"),
        (-5, "negative"),
        (1.5, "whole number"),
        (math.nan, "nan"),
        ("99999999999999999TiB", "8 EiB"),
        (10**300, "8 EiB"),
        (False, "false"),
    ],
)
def test_bad_sizes_say_what_is_wrong_and_give_examples(value: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        size(value)
    assert words in str(caught.value)
    assert '"1GiB"' in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60/min", Rate(60, 60.0)),
        ("5/s", Rate(5, 1.0)),
        ("1000/day", Rate(1000, 86_400.0)),
        ("10/15m", Rate(10, 900.0)),
        ("1 / hour", Rate(1, 3600.0)),
        ("3/500ms", Rate(3, 0.5)),
    ],
)
def test_rates_are_read(text: str, expected: Rate) -> None:
    assert rate(text) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("0/s", "would allow nothing"),
        ("5/mn", 'did you mean "5/min"?'),
        ("5", "is not a rate"),
        ("5/", "is not a rate"),
        ("-1/s", "is not a rate"),
        ("1/0s", "no time after the slash"),
        ("1.5/s", "is not a rate"),
        ("9999999999999/s", "over 1000000000 calls"),
        (60, "needs its time"),
    ],
)
def test_bad_rates_say_what_is_wrong_and_give_examples(value: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        rate(value)
    assert words in str(caught.value)
    assert '"60/min"' in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(90, "1m30s"), (0, "0s"), (0.0015, "1ms500us"), (90_061, "1d1h1m1s"), (604_800, "7d")],
)
def test_durations_are_written(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(1 << 30, "1GiB"), (64_000, "64kB"), (1536, "1536B"), (0, "0B"), (1_234_567, "1234567B")],
)
def test_sizes_are_written(count: int, text: str) -> None:
    assert format_size(count) == text


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf])
def test_what_is_no_duration_is_not_written(seconds: float) -> None:
    with pytest.raises(ValueError):
        format_duration(seconds)


def test_a_negative_size_is_not_written() -> None:
    with pytest.raises(ValueError):
        format_size(-1)


@given(st.integers(min_value=1, max_value=10**15))
def test_a_written_duration_reads_back(microseconds: int) -> None:
    seconds = microseconds / 1e6
    assert duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-12, abs=1e-6)


@given(st.integers(min_value=1, max_value=2**63 - 1))
def test_a_written_size_reads_back(count: int) -> None:
    assert size(format_size(count)) == count


@given(st.text(max_size=30))
def test_no_text_breaks_the_readers(text: str) -> None:
    for read in (duration, size, rate):
        try:
            read(text)
        except ValueError as error:
            refused = str(error)
        else:
            refused = "Write "
        assert "Write " in refused


@pytest.mark.parametrize(
    ("word", "near"),
    [("ad", "add"), ("ADD", "add"), ("subtrakt", "subtract"), ("zzz", None), ("", None)],
)
def test_the_nearest_word_is_found(word: str, near: str | None) -> None:
    assert did_you_mean(word, ["add", "subtract", "multiply"]) == near


def test_the_nearest_word_keeps_its_spelling() -> None:
    assert did_you_mean("basepath", iter(["basePath", "other"])) == "basePath"
