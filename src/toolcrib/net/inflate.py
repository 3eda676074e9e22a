"""Bodies as they arrive, decompressed piece by piece and never beyond a limit."""

from __future__ import annotations

import zlib

from toolcrib.errors import ToolFailure

ACCEPTED = "gzip, deflate"
_GZIP = 31
_ZLIB = 15
_RAW = -15
# What compressing can add to data that does not shrink.
_SLACK = 64 * 1024


class Inflater:
    """Collects one body. `feed` says whether there is room for more."""

    __slots__ = ("_coding", "_engine", "_fed", "_kept", "_left", "_wire", "full")

    def __init__(self, coding: str, limit: int) -> None:
        coding = coding.strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ToolFailure(
                f"the answer is encoded as {coding[:40]!r}, which was not asked for",
                reason="upstream_error",
            )
        self._coding = "" if coding == "identity" else coding.removeprefix("x-")
        self._engine = zlib.decompressobj(_GZIP) if self._coding == "gzip" else None
        self._fed = False
        self._kept: list[bytes] = []
        self._left = limit
        # Bytes on the wire are counted too: empty gzip members inflate to nothing, for ever.
        self._wire = limit + limit // 50 + _SLACK
        self.full = False
        """More came than the limit allows; what is kept ends there."""

    def feed(self, piece: bytes) -> bool:
        """Take a piece; False once the limit is passed."""
        if self.full or not piece:
            return not self.full
        if not self._coding:
            self._keep(piece)
            return not self.full
        self._fed = True
        self._wire -= len(piece)
        if self._wire < 0:
            self.full = True
            return False
        try:
            self._inflate(piece)
        except zlib.error:
            raise ToolFailure(
                f"the answer is not the {self._coding} data it says it is", reason="upstream_error"
            ) from None
        return not self.full

    def body(self) -> bytes:
        """What was kept; a `ToolFailure` when compressed data ended too early."""
        ended = self._engine is not None and self._engine.eof
        if self._fed and not ended and not self.full:
            raise ToolFailure("the answer ended too early", reason="upstream_error")
        return self._kept[0] if len(self._kept) == 1 else b"".join(self._kept)

    def _inflate(self, piece: bytes) -> None:
        if self._engine is None:
            # Half of the servers send a zlib stream, half a bare one; the first byte tells.
            self._engine = zlib.decompressobj(_ZLIB if piece[0] & 15 == 8 else _RAW)
        while piece and not self.full:
            if self._engine.eof:
                if self._coding != "gzip":
                    return
                self._engine = zlib.decompressobj(_GZIP)
            # One byte more than there is room for, to see that there is too much.
            self._keep(self._engine.decompress(piece, self._left + 1))
            piece = self._engine.unconsumed_tail or self._engine.unused_data

    def _keep(self, data: bytes) -> None:
        if len(data) > self._left:
            data, self.full = data[: self._left], True
        self._left -= len(data)
        if data:
            self._kept.append(data)
