"""What becomes of an answer: output for the caller, or a failure with its status."""

from __future__ import annotations

import base64
import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Literal

from toolcrib.core.jsontext import lookup, parse
from toolcrib.core.result import ToolResult
from toolcrib.errors import JsonError, ToolFailure
from toolcrib.net.exchange import Request, Response

Form = Literal["auto", "json", "text", "bytes"]
"""auto goes by the answer's content type · json · text · bytes as base64 in a content block."""
FORMS: tuple[Form, ...] = ("auto", "json", "text", "bytes")

LATER = frozenset({429, 502, 503, 504})
"""Statuses that say: not now."""
_EXCERPT = 2000
_LONGEST_WAIT = 3600.0
_TEXTS = ("text/", "application/xml", "application/javascript", "application/x-www-form-urlencoded")


def check_status(request: Request, response: Response, retry: frozenset[int] = LATER) -> None:
    """Raise a `ToolFailure` unless the server said that all is well; one that can be tried again
    for the statuses `retry`."""
    status = response.status
    if status < 300:
        return
    try:
        words = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        words = str(status)
    later = status in retry
    details: dict[str, Any] = {"status": status}
    if response.body:
        details["body"] = excerpt(response)
    raise ToolFailure(
        f"{request.words} answered {words}",
        reason="upstream_error" if later or status >= 500 else "tool_error",
        retryable=later and request.repeatable,
        retry_after=retry_after(response) if later else None,
        details=details,
    )


def excerpt(response: Response) -> str:
    """The beginning of a body, as text, for people and models to see what went wrong."""
    text = text_of(response)
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}… [cut]"


def retry_after(response: Response) -> float | None:
    """Seconds to wait, if the server says so: a number, or a date."""
    said = response.headers.get("retry-after", "").strip()
    if said.isascii() and said.isdigit():
        return min(float(said[:9]), _LONGEST_WAIT)
    try:
        wait = parsedate_to_datetime(said).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return min(max(wait, 0.0), _LONGEST_WAIT)


def text_of(response: Response) -> str:
    """The body as text, in the charset it says, or UTF-8; what does not fit is replaced."""
    return decoded(response.body, charset_of(response) or "utf-8")


def charset_of(response: Response) -> str | None:
    """The charset of the content type, if it names one."""
    for part in response.headers.get("content-type", "").split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'").lower() or None
    return None


def decoded(body: bytes, charset: str) -> str:
    """Bytes as text; a charset that does not exist, or is no charset, counts as UTF-8."""
    try:
        return body.decode(charset, "replace")
    except (LookupError, ValueError):
        return body.decode("utf-8", "replace")


def json_of(request: Request, response: Response) -> Any:
    """The body as a JSON value; None for an empty one."""
    if not response.body.strip():
        return None
    try:
        return parse(response.body, max_bytes=len(response.body))
    except JsonError as error:
        raise ToolFailure(
            f"{request.words} did not answer with JSON: {error}", reason="upstream_error"
        ) from None


def pointed(request: Request, value: Any, pointer: str) -> Any:
    """What a JSON pointer finds in an answer."""
    try:
        return lookup(value, pointer)
    except LookupError:
        raise ToolFailure(
            f"{request.words} answered without {pointer}", reason="upstream_error"
        ) from None


def output_of(request: Request, response: Response, form: Form, pointer: str = "") -> Any:
    """What the tool gives back for a good answer."""
    kind = response.content_type
    if form == "auto":
        form = "json" if pointer else _form_by(kind, response.body)
    if form == "json":
        value = json_of(request, response)
        return pointed(request, value, pointer) if pointer else value
    if form == "text":
        return text_of(response)
    return _block(response, kind or "application/octet-stream")


def _form_by(kind: str, body: bytes) -> Form:
    if kind == "application/json" or kind.endswith("+json") or not body:
        return "json"
    if kind.startswith(_TEXTS) or kind.endswith("+xml"):
        return "text"
    return "bytes"


def _block(response: Response, kind: str) -> ToolResult:
    data = base64.b64encode(response.body).decode()
    if kind.startswith("image/"):
        block: dict[str, Any] = {"type": "image", "data": data, "mimeType": kind}
    else:
        uri = response.url.without_query
        block = {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "blob": data}}
    return ToolResult(output={"type": kind, "bytes": len(response.body)}, content=[block])
