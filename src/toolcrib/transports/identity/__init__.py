"""Who calls: credentials are checked here, once, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.transports.identity.doors import check_doors
    from toolcrib.transports.identity.identity import Identity, Peer

__all__ = ["Identity", "Peer", "check_doors"]

_HOMES = {"Identity": "identity", "Peer": "identity", "check_doors": "doors"}
"""Where each name lives; a host on standard streams needs none of it, and starts sooner."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
