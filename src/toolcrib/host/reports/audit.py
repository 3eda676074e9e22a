"""Whether the trail is what was written."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.chain import Anchor, RunReport
from toolcrib.errors import StoreError

if TYPE_CHECKING:
    from toolcrib.core.protocols import Store


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said of a trail, and who could still forge it."""

    runs: tuple[RunReport, ...] = ()
    key: str | None = None
    anchor: str | None = None
    user: str = ""
    """The system user that runs the host."""

    @property
    def ok(self) -> bool:
        """Whether nothing wrong was found."""
        return all(run.ok for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"ok": self.ok, "runs": [run.to_dict() for run in self.runs], "anchor": self.anchor}


async def verify_trail(store: Store, key: Path | None, anchor: Path | None) -> Verified:
    """Check every run in the store. Raises `StoreError` when there is nothing to check it with."""
    from toolcrib.host.history import verify_store

    secret, anchors = _means(key, anchor)
    reports = await verify_store(store, secret, anchors)
    return Verified(
        runs=tuple(reports),
        key=None if key is None else str(key),
        anchor=None if anchor is None else str(anchor),
        user=system_user(),
    )


def _means(key: Path | None, anchor: Path | None) -> tuple[bytes, Sequence[Anchor]]:
    """What a trail is verified with."""
    from toolcrib.observe.trail import read_anchors
    from toolcrib.stores.keys import load_key

    if key is None or not key.exists():
        raise StoreError(f"{key}: the key is missing, so nothing can be verified. Restore it")
    if anchor is not None and not anchor.exists():
        raise StoreError(
            f"{anchor}: the anchor is missing, so a cut tail would not show. Restore it"
        )
    return load_key(key), [] if anchor is None else read_anchors(str(anchor))


def system_user() -> str:
    """Who runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"
