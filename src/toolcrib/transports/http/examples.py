"""Requests and answers that the API's description shows."""

from __future__ import annotations

from typing import Any

REQUESTS: dict[str, Any] = {
    "tools.call": {"arguments": {"a": 1, "b": 2}},
    "explain": {"name": "add", "arguments": {"a": 1, "b": 2}},
    "approvals.decide": {"allow": True, "note": "only this once", "reach": "once"},
    "sessions.open": {"metadata": {"client": "my agent"}},
}
ANSWERS: dict[str, Any] = {
    "tools.call": {
        "call_id": "c66f0c4d2a1b2c3d41",
        "status": "ok",
        "output": 3,
        "content": None,
        "error": None,
        "truncated": None,
        "metadata": {},
    },
    "calls.cancel": {"cancelled": True},
    "grants.revoke": {"revoked": True},
    "sessions.close": {"closed": True},
}
"""By the name of the method."""
