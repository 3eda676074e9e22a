"""A request as a person reads it. What comes from outside cannot draw on the screen."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from toolcrib.core.approval import ApprovalRequest

KEYS: dict[str, str] = {"once": "y", "session": "s", "1h": "h", "always": "a"}
"""The key for each reach."""

_REACHES = {
    "once": "allow once",
    "session": "allow {tool} in this session",
    "1h": "allow {tool} for an hour",
    "always": "allow {tool} from now on",
}
_VALUE, _NAME, _LINES, _ALL = 200, 60, 12, 20_000

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that show nothing although their category says otherwise.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\u2800")


def visible(text: str, limit: int | None = None, *, json_text: bool = False) -> str:
    """`text` with control, bidi, zero-width and other unseen characters written out.

    Cut visibly after `limit` characters. JSON text has its backslashes escaped already.
    """
    kept = text if limit is None or len(text) <= limit else text[:limit]
    shown = "".join(_written(c, json_text) for c in kept)
    return shown if kept is text else f"{shown} … ({len(text) - len(kept)} more characters)"


def _written(c: str, json_text: bool) -> str:
    if " " <= c <= "~":
        return "\\\\" if c == "\\" and not json_text else c
    if json_text and c == "\n":
        return c
    if not _unseen(c):
        return c
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(c)
    code = ord(c)
    return named or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def _unseen(c: str) -> bool:
    category = unicodedata.category(c)
    if category in _HIDDEN or c in _BLANK or (category == "Zs" and c != " "):
        return True
    return "\ufe00" <= c <= "\ufe0f" or "\U000e0100" <= c <= "\U000e01ef"


def question(request: ApprovalRequest) -> str:
    """Who asks for what, its effects, why it is asked, and the keys."""
    lines = [f"  {visible(request.principal, _NAME)} asks to run  {visible(request.tool, _NAME)}"]
    for name, value in list(request.arguments.items())[:_LINES]:
        lines.append(f"    {visible(name, _NAME):<11} {_value(value)}")
    if (more := len(request.arguments) - _LINES) > 0:
        lines.append(f"    … and {more} more arguments; m shows them")
    lines.append(f"  {'Effects':<13} {_effects(request)}")
    source = f"     {visible(request.source, _VALUE)}" if request.source else ""
    lines.append(f"  Asked because {_why(request)}{source}")
    return "\n".join([*lines, "", f"  {choices(request)}", ""])


def choices(request: ApprovalRequest) -> str:
    """The keys that count for this request, with their meaning."""
    tool = visible(request.tool, _NAME)
    offers = [
        f"{key}  {_REACHES[reach].format(tool=tool)}"
        for reach, key in KEYS.items()
        if reach in request.offered
    ]
    return "     ".join([*offers, "n  refuse", "m  more"])


def more(request: ApprovalRequest) -> str:
    """Everything that is known about the request."""
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
    text = json.dumps(request.arguments, indent=2, ensure_ascii=False, default=repr)
    arguments = visible(text, _ALL, json_text=True).replace("\n", "\n  ")
    return "\n".join([*lines, "  Arguments", f"  {arguments}", ""])


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
    return visible(", ".join(request.effects), _VALUE) or "none"


def _why(request: ApprovalRequest) -> str:
    return visible(request.message or request.rule or f"{request.gate} asks", _VALUE)
