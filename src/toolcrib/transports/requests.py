"""What a connection keeps of requests while they are not answered."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec

from toolcrib.protocol.jsonrpc import Id
from toolcrib.transports import models as m
from toolcrib.transports.pushes import Listener, Questions


class Batch:
    """The answers to the messages of one text, sent together."""

    __slots__ = ("answers", "open")

    def __init__(self) -> None:
        self.open = 1
        """How many answers are still to come; one for the reading of the batch itself."""
        self.answers: list[bytes] = []


class Open:
    """A request that is not answered yet."""

    __slots__ = (
        "batch",
        "call_id",
        "cancelled",
        "id",
        "key",
        "listener",
        "method",
        "params",
        "questions",
        "task",
    )

    def __init__(
        self,
        listener: Listener,
        key: object,
        id: Id,
        method: str,
        params: Any,
        batch: Batch | None = None,
    ) -> None:
        self.listener = listener
        self.key = key
        """What it is found by: its id, or itself for a notification."""
        self.id = id
        self.method = method
        self.params = params
        self.batch = batch
        self.call_id: str | None = None
        """The call it made, if it made one."""
        self.cancelled = False
        self.task: asyncio.Task[None] | None = None
        self.questions: Questions | None = None
        """What people were asked about the call."""


class CallFrame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The message that comes most."""

    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools.call"]
    params: m.ToolsCall


decode_call = msgspec.json.Decoder(CallFrame).decode
"""Reads one; raises `DecodeError` for anything else."""
