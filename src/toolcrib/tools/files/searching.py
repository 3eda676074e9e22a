"""Searching the text of files."""

from __future__ import annotations

from typing import Any

from toolcrib.tools.files.patterns import Test, glob, regex
from toolcrib.tools.files.reading import files_below
from toolcrib.tools.files.request import Request

_SHOWN = 300


def search(request: Request) -> dict[str, Any]:
    """The lines that contain a text, or match a regular expression."""
    policy, test = request.policy, _test(request)
    fits = glob(request.glob) if request.glob else None
    matches: list[dict[str, Any]] = []
    skipped = passed = 0
    for place, file, size in files_below(request):
        if fits is not None and not fits(place):
            continue
        if size > policy.max_read_bytes:
            skipped += 1
            continue
        passed += size
        if passed > policy.max_search_bytes:
            return _answer(matches, skipped, cut=True)
        data = file.read(policy.max_read_bytes)
        if b"\0" in data:
            skipped += 1
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            if not test(line):
                continue
            if len(matches) >= policy.max_entries:
                return _answer(matches, skipped, cut=True)
            matches.append({"path": place, "line": number, "text": line.rstrip("\r")[:_SHOWN]})
    return _answer(matches, skipped, cut=False)


def _test(request: Request) -> Test:
    pattern = request.pattern
    if request.regex:
        return regex(f"(?i:{pattern})" if request.ignore_case else pattern)
    if request.ignore_case:
        folded = pattern.casefold()
        return lambda line: folded in line.casefold()
    return lambda line: pattern in line


def _answer(matches: list[dict[str, Any]], skipped: int, *, cut: bool) -> dict[str, Any]:
    return {"matches": matches, "skipped_files": skipped, "truncated": cut}
