"""Ids as people type them: whole, or as much of the beginning as is needed."""

from __future__ import annotations

from collections.abc import Iterable

from toolcrib.cli.output import Mistake, many

_LISTED = 10


def meant(given: str, known: Iterable[str], what: str, cure: str) -> str:
    """The one id that is `given` or begins with it; a `Mistake` when there is none or several."""
    found = sorted({each for each in known if given and each.startswith(given)})
    if given in found:
        return given
    if not found:
        raise Mistake(f"there is no {what} {given!r}{cure}")
    if len(found) > 1:
        listed = "".join(f"\n  {each}" for each in found[:_LISTED])
        more = f"\n  … and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise Mistake(f"{given!r} is the beginning of {many(len(found), what)}:{listed}{more}")
    return found[0]
