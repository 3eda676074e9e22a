"""Who calls: credentials are checked here, once, and nowhere else."""

from __future__ import annotations

from toolcrib.transports.identity.doors import check_doors
from toolcrib.transports.identity.identity import Identity, Peer

__all__ = ["Identity", "Peer", "check_doors"]
