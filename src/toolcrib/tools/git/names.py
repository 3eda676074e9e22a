"""What may stand for a ref, a branch, a remote, a time or a path. Words only, no repository."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

_LONGEST = 250
_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+@=,#-]*").fullmatch
_REMOTE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*").fullmatch
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:?\d\d)?)?", re.ASCII
).fullmatch
_AGO = re.compile(
    r"(\d{1,6})(?:([hdw])| ?(second|minute|hour|day|week|month|year)s?(?: ago)?)", re.ASCII
).fullmatch
_SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3_600,
    "day": 86_400,
    "week": 604_800,
    "month": 2_592_000,
    "year": 31_536_000,
}
_SHORT = {"h": "hour", "d": "day", "w": "week"}


@functools.lru_cache(maxsize=256)
def ref_test(pattern: str) -> Callable[[str], bool]:
    """Whether a whole text matches `pattern`, in linear time; `ValueError` for a broken one."""
    import jsonschema_rs  # not at the top: it costs more than the rest of this package

    return jsonschema_rs.validator_for(
        {"type": "string", "pattern": f"^(?:{pattern})$"},
        pattern_options=jsonschema_rs.RegexOptions(),
    ).is_valid


def is_ref(text: str, pattern: str) -> bool:
    """Whether `text` can be handed to git as a revision and as nothing else."""
    if not 0 < len(text) <= _LONGEST or text.startswith("-") or not text.isascii():
        return False
    return text.isprintable() and ref_test(pattern)(text)


def is_branch(name: str) -> bool:
    """Whether `name` is the short name of a branch, by git's rules and a little stricter."""
    if len(name) > _LONGEST or not _BRANCH(name) or name == "HEAD":
        return False
    if ".." in name or "@{" in name or name.startswith("refs/"):
        return False
    parts = name.split("/")
    return all(p and not p.startswith(".") and not p.endswith((".", ".lock")) for p in parts)


def is_remote(name: str) -> bool:
    """Whether `name` is the name of a remote, not an address."""
    return len(name) <= 100 and bool(_REMOTE(name))


def moment(since: str) -> int | None:
    """The time that `since` names, in seconds since 1970; None when it is in no known form.

    Git is not asked: it takes times that it cannot read, or that are before 1970, for now.
    """
    text = since.strip()
    if _DATE(text):
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            return None
        return max(1, int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()))
    found = _AGO("1d" if text == "yesterday" else text)
    if found is None:
        return None
    count, short, unit = found.groups()
    return max(1, int(time.time()) - int(count) * _SECONDS[unit or _SHORT[short]])


def path_problem(path: str) -> str | None:
    """The reason why `path` is no path below the repository; None when it is one."""
    if not path or any(ord(c) < 32 or ord(c) == 127 for c in path) or len(path) > 4_000:
        return "invalid_path"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "invalid_path"
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        return "path_outside_root"
    if any(part.lower() == ".git" for part in parts):
        return "path_not_allowed"
    return None
