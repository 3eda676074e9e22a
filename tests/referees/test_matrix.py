"""Both eras of clients at both eras of servers, with a gateway between them.

An old client talks to a server that never heard of `initialize`, and a new one to a server that
knows nothing else; each cell is what a user of that client would see without a gateway.
"""

from __future__ import annotations

from contextlib import ExitStack

import programs
import pytest
from processes import gateway, passing, upstream

CLIENTS = {
    "old": ("sdk1", "2025-11-25"),
    "new": ("sdk2", "2026-07-28"),
    "typescript-1": ("typescript-sdk-legacy", "2025-11-25"),
    "typescript-2-old": ("typescript-client-legacy", "2025-11-25"),
    "typescript-2-new": ("typescript-client-auto", "2026-07-28"),
}
UPSTREAMS = {"old": ("sdk1",), "new": ("sdk2", "--only", "modern")}
FAILED = "This tool intentionally returns an error for testing"
CELLS = {
    "call": {"text": "This is a simple text response for testing."},
    "structured": {"structured": {"sum": 5}, "text": {"sum": 5}},
    "error": {"error": True, "text": FAILED},
    "elicitation": {
        "asked": ["Which colour?"],
        "text": 'User response: action=accept, content={"response": "blue"}',
    },
    "progress": {
        "steps": [[0, 100, "0 of 100"], [50, 100, "50 of 100"], [100, 100, "100 of 100"]],
        "text": "Done, with progress.",
    },
    "cancel": {"cancelled": "1"},
    "list_change": {"more": ["test_dynamic_tool"], "fewer": []},
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Every pair of client and server runs once, with a gateway and a server of its own."""
    found = {}

    def pair(client, server):
        if (client, server) not in found:
            with ExitStack() as stack:
                behind = stack.enter_context(upstream(*UPSTREAMS[server]))
                folder = tmp_path_factory.mktemp(f"{client}-{server}")
                front = stack.enter_context(gateway(folder, passing(behind.url)))
                found[client, server] = programs.cells(CLIENTS[client][0], front.mcp)
        return found[client, server]

    return pair


def right(saw: dict, cell: str, server: str) -> bool:
    """Whether a client saw in a cell what it should."""
    seen = dict(saw[cell])
    if cell == "error" and server == "old":
        # The SDK 1.x puts words of its own before those of the tool.
        seen["text"] = seen.get("text", "").partition(": ")[2]
    return seen == CELLS[cell]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("server", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_pair_of_eras_sees_the_same(seen, client, server, cell):
    saw = seen(client, server)
    assert saw["version"] == CLIENTS[client][1]
    assert right(saw, cell, server), saw[cell]
