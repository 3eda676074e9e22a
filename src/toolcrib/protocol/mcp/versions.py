"""The revisions of the protocol, and the era each belongs to."""

from __future__ import annotations

from toolcrib.core.link import Era

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions that open with `initialize`, oldest first."""
MODERN = ("2026-07-28",)
"""Revisions in which every request stands alone."""
KNOWN = HANDSHAKE + MODERN
LATEST_HANDSHAKE = HANDSHAKE[-1]
LATEST = MODERN[-1]
BATCHES = "2025-03-26"
"""The one revision that has batches."""


def era_of(version: str) -> Era:
    """The era of a known revision."""
    return "modern" if version in MODERN else "handshake"


def agreed(offered: object) -> str:
    """What a server answers to the revision that `initialize` offers: the same if it is known, else
    the newest of its era."""
    return offered if isinstance(offered, str) and offered in HANDSHAKE else LATEST_HANDSHAKE
