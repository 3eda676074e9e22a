"""A running host, used as if it were in this process.

`from toolcrib.client import Client`, or `from toolcrib.client.sync import Client` where nothing
is awaited.
"""

from __future__ import annotations

from toolcrib.client.approvals import Approvals
from toolcrib.client.client import Client
from toolcrib.client.errors import (
    CannotConnect,
    ClientError,
    ConnectionLost,
    Misconfigured,
    NothingFound,
    NotTaken,
    NotToolcrib,
    Refused,
)
from toolcrib.client.session import Session
from toolcrib.client.tool import Tool

__all__ = [
    "Approvals",
    "CannotConnect",
    "Client",
    "ClientError",
    "ConnectionLost",
    "Misconfigured",
    "NotTaken",
    "NotToolcrib",
    "NothingFound",
    "Refused",
    "Session",
    "Tool",
]
