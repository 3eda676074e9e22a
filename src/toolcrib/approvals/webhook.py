"""An approver behind a URL."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import http.client
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from toolcrib.approvals.threads import in_thread
from toolcrib.core.approval import Answer, ApprovalDecision, ApprovalRequest
from toolcrib.core.canonical import canonical
from toolcrib.errors import ConfigError, ToolcribError

LIMIT = 64 * 1024
"""Bytes of an answer that are read; a longer one is no answer."""


class _Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    answer: Answer
    note: str | None = None
    reach: str = "once"
    by: str = ""


class WebhookApprover:
    """Sends each request to a URL and takes the answer from the reply.

    The body is `{"type": "approval.requested", "request": {…}}`. `Toolcrib-Signature` is
    `sha256=` and the HMAC-SHA256, by the secret, of `Toolcrib-Timestamp`, a dot and the body. The
    reply is status 200 and `{"answer": "allow" | "deny" | "escalate"}`, with `note`, `reach` and
    `by` if wanted. Everything else is a no. Only https keeps others from answering in its place.
    """

    def __init__(
        self,
        url: str,
        secret: str | bytes,
        timeout: float = 30.0,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                "the approval webhook's address is not an http or https URL",
                cure="Write it as https://host/path",
            )
        if parts.username is not None or parts.password is not None:
            raise ConfigError(
                "the approval webhook's URL holds a user or password",
                cure="Take it out; requests are signed with the secret",
            )
        if not secret:
            raise ConfigError("the approval webhook's secret is empty", cure="Give it a long one")
        if not timeout > 0:
            raise ConfigError(f"the approval webhook's timeout is {timeout}", cure="Give seconds")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._secret = secret.encode() if isinstance(secret, str) else secret
        self._timeout = timeout
        self._clock = clock

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """The answer given over there."""
        body = canonical({"type": "approval.requested", "request": request.to_dict()})
        try:
            async with asyncio.timeout(self._timeout):
                reply = _read(await in_thread(lambda: self._post(body)))
        except TimeoutError:
            raise ToolcribError(_SLOW) from None
        return ApprovalDecision(
            answer=reply.answer,
            note=reply.note,
            reach=reply.reach,
            by=f"webhook:{reply.by}" if reply.by else "webhook",
        )

    def _post(self, body: bytes) -> bytes:
        stamp = str(int(self._clock()))
        mac = hmac.new(self._secret, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Toolcrib-Timestamp": stamp,
            "Toolcrib-Signature": f"sha256={mac}",
        }
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        end = time.monotonic() + self._timeout
        connection = kind(self._host, self._port, timeout=self._timeout)
        try:
            connection.request("POST", self._target, body, headers)
            with connection.getresponse() as response:
                return _body(response, end)
        except TimeoutError:
            raise ToolcribError(_SLOW) from None
        except (OSError, http.client.HTTPException) as error:
            raise ToolcribError(
                f"the approval webhook cannot be reached: {type(error).__name__}"
            ) from error
        finally:
            connection.close()


_SLOW = "the approval webhook did not answer in time"


def _body(response: http.client.HTTPResponse, end: float) -> bytes:
    if response.status != 200:
        # Redirects too: whoever set the URL up meant that place and no other.
        raise ToolcribError(f"the approval webhook answered with status {response.status}")
    # The socket's timeout is for each piece; one that drips would hold on for ever.
    data = b""
    while piece := response.read1(8192):
        data += piece
        if len(data) > LIMIT:
            raise ToolcribError(f"the approval webhook's answer is longer than {LIMIT} bytes")
        if time.monotonic() > end:
            raise ToolcribError(_SLOW)
    return data


def _read(data: bytes) -> _Reply:
    try:
        value = json.loads(data, object_pairs_hook=_no_twice)
        return msgspec.convert(value, _Reply)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise ToolcribError("the approval webhook's answer is not the JSON that was agreed") from (
            error
        )


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found
