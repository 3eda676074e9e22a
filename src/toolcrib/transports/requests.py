"""What a connection keeps of requests while they are not answered."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec

from toolcrib.core.result import ToolResult
from toolcrib.protocol.jsonrpc import Id
from toolcrib.transports.pushes import Listener, Questions


class Batch:
    """The answers to the messages of one text, sent together."""

    __slots__ = ("answers", "open")

    def __init__(self) -> None:
        self.open = 1
        """How many answers are still to come; one for the reading of the batch itself."""
        self.answers: list[bytes] = []


class Open(msgspec.Struct, eq=False):
    """A request that is not answered yet."""

    listener: Listener
    key: object
    """What it is found by: its id, or itself for a notification."""
    id: Id
    method: str
    params: Any
    batch: Batch | None = None
    call_id: str | None = None
    """The call it made, if it made one."""
    cancelled: bool = False
    task: asyncio.Task[None] | None = None
    questions: Questions | None = None
    """What people were asked about the call."""


class CallParams(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """A `ToolsCall` that wants nothing but its result: without a key, and without an end to the
    waiting."""

    name: str
    arguments: dict[str, Any] | None = None
    session: str | None = None
    profile: str | None = None
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None


class CallFrame(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """The message that comes most."""

    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools.call"]
    params: CallParams


decode_call = msgspec.json.Decoder(CallFrame).decode
"""Reads one; raises `DecodeError` for anything else."""


class ResultFrame(msgspec.Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """How a call ended, as its client is told."""

    id: Id
    result: ToolResult
