"""Content blocks and definitions that the fixture's tools and prompts share."""

from __future__ import annotations

import base64
import io
import struct
import wave
import zlib
from typing import Any


def _pixel() -> bytes:
    """A picture of one red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0\xff\0\0")
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


def _silence() -> bytes:
    """A millisecond of nothing."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"\0\0" * 8)
    return file.getvalue()


PICTURE = base64.b64encode(_pixel()).decode()
SOUND = base64.b64encode(_silence()).decode()
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image() -> dict[str, Any]:
    return {"type": "image", "data": PICTURE, "mimeType": "image/png"}


def audio() -> dict[str, Any]:
    return {"type": "audio", "data": SOUND, "mimeType": "audio/wav"}


def resource(uri: str, mime: str, words: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


def form(message: str, **properties: Any) -> dict[str, Any]:
    """A question that a person answers in a form, every field of it."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


def sampling(words: str, tokens: int = 100) -> dict[str, Any]:
    """A question to the client's model."""
    message = {"role": "user", "content": text(words)}
    return {
        "method": "sampling/createMessage",
        "params": {"messages": [message], "maxTokens": tokens},
    }


def roots() -> dict[str, Any]:
    return {"method": "roots/list", "params": {}}
