"""A request as a person reads it. What comes from outside cannot draw on the screen."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

import msgspec

from toolcrib.core.approval import ApprovalRequest

KEYS: dict[str, str] = {"once": "y", "session": "s", "1h": "h", "always": "a"}
"""The key for each reach."""

_REACHES = {
    "once": "allow once",
    "session": "allow {tool} in this session",
    "1h": "allow {tool} for an hour",
    "always": "allow {tool} from now on",
}
_VALUE, _NAME, _WHY, _OFFER, _LINES, _ALL = 200, 60, 120, 30, 12, 20_000

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that show nothing although their category says otherwise.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\u2800")


class Size(msgspec.Struct, frozen=True):
    """How much a screen shows at once."""

    columns: int = 80
    rows: int = 24


SIZE = Size()
"""What is taken for granted of a screen that does not say."""


class PastCall(msgspec.Struct, frozen=True):
    """A call that came before the one in question."""

    tool: str
    ending: str
    """The status, with the reason when it did not end well."""
    when: str


def visible(text: str, limit: int | None = None, *, json_text: bool = False) -> str:
    """`text` with control, bidi, zero-width and other unseen characters written out.

    Cut visibly after `limit` columns. JSON text has its backslashes escaped already.
    """
    if limit is None:
        return "".join(_written(c, json_text) for c in text)
    pieces: list[str] = []
    left = limit
    for count, c in enumerate(text):
        piece = _written(c, json_text)
        # Counted as shown: one character can be written with ten, and so push all else away.
        left -= _columns(piece)
        if left < 0:
            return f"{''.join(pieces)} … ({len(text) - count} more characters)"
        pieces.append(piece)
    return "".join(pieces)


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _written(c: str, json_text: bool) -> str:
    if " " <= c <= "~":
        return "\\\\" if c == "\\" and not json_text else c
    if json_text and c == "\n":
        return c
    if not unseen(c):
        return c
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(c)
    code = ord(c)
    return named or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def unseen(c: str) -> bool:
    """Whether a character shows nothing, or something else than it is."""
    category = unicodedata.category(c)
    if category in _HIDDEN or c in _BLANK or (category == "Zs" and c != " "):
        return True
    return "\ufe00" <= c <= "\ufe0f" or "\U000e0100" <= c <= "\U000e01ef"


def question(request: ApprovalRequest, size: Size = SIZE) -> str:
    """Who asks for what, its effects, why it is asked, and the keys: never more than the screen
    shows, however long the arguments are."""
    source = f"     {visible(request.source, _NAME)}" if request.source else ""
    head = [asks(request)]
    tail = [
        f"  {'Effects':<13} {_effects(request)}",
        f"  Asked because {_why(request)}{source}",
        "",
        f"  {choices(request)}",
    ]
    # Room is also needed for the line before, the line that waits for a key, and "more".
    room = size.rows - sum(_rows(line, size.columns) for line in (*head, *tail)) - 3
    body = _arguments(request, max(1, min(_LINES, room)), size.columns)
    return "\n".join([*head, *body, *tail, ""])


def asks(request: ApprovalRequest) -> str:
    """Who asks to run what."""
    return f"  {visible(request.principal, _NAME)} asks to run  {visible(request.tool, _NAME)}"


def _arguments(request: ApprovalRequest, room: int, columns: int) -> list[str]:
    lines: list[str] = []
    for name, value in request.arguments.items():
        line = f"    {visible(name, _NAME):<11} {_value(value)}"
        room -= _rows(line, columns)
        if room < 0 and lines:
            break
        lines.append(line)
    if (more := len(request.arguments) - len(lines)) > 0:
        lines.append(f"    … and {more} more arguments; m shows them")
    return lines


def _rows(line: str, columns: int) -> int:
    """How many rows of the screen a line takes."""
    return max(1, -(-_columns(line) // max(1, columns)))


def choices(request: ApprovalRequest) -> str:
    """The keys that count for this request, with their meaning."""
    name = visible(request.tool)
    tool = name if len(name) <= _OFFER else f"{name[: _OFFER - 1]}…"
    offers = [
        f"{key}  {_REACHES[reach].format(tool=tool)}"
        for reach, key in KEYS.items()
        if reach in request.offered
    ]
    edit = ["e  edit"] if request.edit else []
    return "     ".join([*offers, *edit, "n  refuse", "m  more"])


def keys(request: ApprovalRequest) -> str:
    """The keys alone: `y, s, n or m`."""
    found = [key for reach, key in KEYS.items() if reach in request.offered]
    return ", ".join([*found, *(["e"] if request.edit else []), "n"]) + " or m"


def more(request: ApprovalRequest, past: Sequence[PastCall] | None = None) -> str:
    """Everything that is known about the request, and the calls before it where they are known."""
    facts = {
        "Approval": request.id,
        "Call": request.call_id,
        "Digest": request.digest,
        "Profile": request.profile,
        "Revision": request.revision,
        "Session": request.session,
        "Door": request.door,
        "Gate": request.gate,
        "Rule": request.rule,
    }
    lines = [f"  {k:<13} {visible(v, _ALL)}" for k, v in facts.items() if v is not None]
    lines += ["  Arguments", f"  {written(request.arguments)}"]
    if past is not None:
        whose = "in this session" if request.session is not None else "of this principal"
        lines.append(f"  Calls before, {whose}" if past else f"  No calls before, {whose}")
        for call in past:
            tool, ending = visible(call.tool, _NAME), visible(call.ending, _NAME)
            lines.append(f"    {tool:<20}   {ending:<20}   {visible(call.when, _NAME)}")
    return "\n".join([*lines, ""])


def written(arguments: dict[str, Any]) -> str:
    """Arguments as indented JSON, cut only when they are very long."""
    text = json.dumps(arguments, indent=2, ensure_ascii=False, default=repr)
    return visible(text, _ALL, json_text=True).replace("\n", "\n  ")


def remaining(seconds: float) -> str:
    """`4:58`, or with hours `1:04:58`."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return visible(value, _VALUE)
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return visible(text, _VALUE, json_text=True)


def _effects(request: ApprovalRequest) -> str:
    if request.effects is None:
        return "unknown, treated as the worst case"
    return visible(", ".join(request.effects), _NAME) or "none"


def _why(request: ApprovalRequest) -> str:
    return visible(request.message or request.rule or f"{request.gate} asks", _WHY)
