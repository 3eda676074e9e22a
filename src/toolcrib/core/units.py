"""Durations, sizes and rates as people write them, and the nearest of some words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import msgspec

from toolcrib.core.jsontext import shown

_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
    "w": 604_800.0,
}
_PER = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_BYTES = {
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
}
_LONGEST = 100 * 365.25 * 86_400.0
_LARGEST = 2**63 - 1
_MOST = 1_000_000_000

_TERM = r"([0-9]{1,30}(?:\.[0-9]{1,9})?)([A-Za-z]{1,3})"
_BARE = r"[0-9]{1,30}(?:\.[0-9]{1,9})?"
_RATE = r"([0-9]{1,18}) ?/ ?([0-9A-Za-z.]{1,40})"

_DURATIONS = 'Write a number with a unit, such as "250ms", "30s", "5m", "1h30m" or "2d"'
_SIZES = 'Write a number with a unit, such as "64kB", "10MB" or "1GiB"'
_RATES = 'Write calls per time, such as "5/s", "60/min", "1000/day" or "10/15m"'


class Rate(msgspec.Struct, frozen=True):
    """So many calls in so many seconds."""

    count: int
    seconds: float


def duration(value: str | float, *, zero: bool = False) -> float:
    """Seconds from `"1h30m"`, `"250ms"` or a number of seconds; `zero` says whether 0 is one."""
    if isinstance(value, str):
        seconds = _parse_duration(value)
    else:
        seconds = _number(value, "a duration", _DURATIONS)
    if seconds < 0:
        raise ValueError(f"a duration cannot be negative: {shown(value)}. {_DURATIONS}")
    if seconds == 0 and not zero:
        raise ValueError(f"a duration of zero has no meaning here: {shown(value)}. {_DURATIONS}")
    if seconds > _LONGEST:
        raise ValueError(f"the duration {shown(value)} is over a hundred years. {_DURATIONS}")
    return seconds


def size(value: str | float, *, zero: bool = False) -> int:
    """Bytes from `"64kB"`, `"1GiB"` or a number of bytes; `zero` says whether 0 is one."""
    count = _parse_size(value) if isinstance(value, str) else _number(value, "a size", _SIZES)
    if count < 0:
        raise ValueError(f"a size cannot be negative: {shown(value)}. {_SIZES}")
    if count == 0 and not zero:
        raise ValueError(f"a size of zero has no meaning here: {shown(value)}. {_SIZES}")
    if count != int(count):
        raise ValueError(f"the size {shown(value)} is not a whole number of bytes. {_SIZES}")
    if count > _LARGEST:
        raise ValueError(f"the size {shown(value)} is over 8 EiB. {_SIZES}")
    return int(count)


def rate(value: str) -> Rate:
    """A `Rate` from `"60/min"`, `"5/s"` or `"10/15m"`."""
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"a rate needs its time: {shown(value)}. {_RATES}")
    match = re.fullmatch(_RATE, value.strip())
    if match is None:
        raise ValueError(f"{shown(value)} is not a rate. {_RATES}")
    count, per = int(match[1]), match[2]
    if count == 0:
        raise ValueError(f"the rate {shown(value)} would allow nothing: deny it instead. {_RATES}")
    if count > _MOST:
        raise ValueError(f"the rate {shown(value)} is over {_MOST} calls. {_RATES}")
    unit = _PER.get(per, per)
    try:
        seconds = duration(f"1{unit}" if unit in _SECONDS else unit)
    except ValueError:
        near = did_you_mean(per, (*_PER, *_SECONDS))
        hint = f'; did you mean "{match[1]}/{near}"?' if near else "."
        message = f"the rate {shown(value)} has no time after the slash{hint} {_RATES}"
        raise ValueError(message) from None
    return Rate(count, seconds)


def format_duration(seconds: float) -> str:
    """The text that `duration` reads back: `format_duration(90)` is `"1m30s"`."""
    if not 0 <= seconds <= _LONGEST:
        raise ValueError(f"cannot write {seconds!r} as a duration: 0 s to a hundred years")
    left = round(seconds * 1e6)
    text = ""
    # Weeks are read but not written: people count long times in days.
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, left = divmod(left, round(_SECONDS[unit] * 1e6))
        if count:
            text += f"{count}{unit}"
    return text or "0s"


def format_size(count: int) -> str:
    """The shortest exact text that `size` reads back: `format_size(1 << 30)` is `"1GiB"`."""
    if not 0 <= count <= _LARGEST:
        raise ValueError(f"cannot write {count!r} as a size: 0 to {_LARGEST} bytes")
    exact = (f"{count // scale}{unit}" for unit, scale in _BYTES.items() if count % scale == 0)
    return min(exact, key=len) if count else "0B"


def did_you_mean(word: str, choices: Iterable[str]) -> str | None:
    """The choice nearest to a mistyped word, or None when nothing is near."""
    import difflib

    folded: dict[str, str] = {}
    for choice in choices:
        folded.setdefault(choice.casefold(), choice)
        if len(folded) == 2000:
            break  # comparing is slow; a longer list helps nobody
    close = difflib.get_close_matches(word[:64].casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def _parse_duration(text: str) -> float:
    trimmed = text.strip()
    if re.fullmatch(_BARE, trimmed):
        raise ValueError(f'{shown(text)} has no unit: did you mean "{trimmed}s"? {_DURATIONS}')
    total, end, last = 0.0, 0, math.inf
    for match in re.finditer(_TERM, trimmed):
        scale = _SECONDS.get(match[2])
        if match.start() != end or scale is None or scale >= last:
            break
        total, end, last = total + float(match[1]) * scale, match.end(), scale
    if not trimmed or end != len(trimmed):
        raise ValueError(f"{shown(text)} is not a duration. {_DURATIONS}")
    # "0.1s" plus "200ms" in binary is a hair off; microseconds are the finest unit there is.
    return round(total, 6)


def _parse_size(text: str) -> float:
    trimmed = text.strip().replace(" ", "", 1)
    if re.fullmatch(_BARE, trimmed):
        raise ValueError(f'{shown(text)} has no unit: did you mean "{trimmed}B"? {_SIZES}')
    match = re.fullmatch(_TERM, trimmed)
    if match is None:
        raise ValueError(f"{shown(text)} is not a size. {_SIZES}")
    scale = _BYTES.get(match[2])
    if scale is None:
        near = did_you_mean(match[2], _BYTES)
        hint = f'; did you mean "{match[1]}{near}"?' if near else "."
        raise ValueError(f"{shown(text)} has no unit of size{hint} {_SIZES}")
    if "." not in match[1]:
        return int(match[1]) * scale
    return round(float(match[1]) * scale)


def _number(value: object, what: str, cure: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{what} cannot be {shown(value)}. {cure}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{what} cannot be {value!r}. {cure}")
    return value
