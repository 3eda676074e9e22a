"""Names that the protocol reserves: members of `_meta`, headers and extensions."""

from __future__ import annotations

PREFIX = "io.modelcontextprotocol/"
VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT = "io.modelcontextprotocol/clientInfo"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SERVER = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
PROGRESS = "progressToken"
TRACE = ("traceparent", "tracestate", "baggage")
OF_ONE_HOP = frozenset((VERSION, CLIENT, CAPABILITIES, LOG_LEVEL, SERVER, SUBSCRIPTION, PROGRESS))
"""Members of `_meta` that speak of two neighbours and are written anew on every hop."""
TASKS = "io.modelcontextprotocol/tasks"
"""The extension for results that come later."""
LISTEN = "subscriptions/listen"
"""The method of a request that stays open, to be told of what changes."""
OURS = "toolcrib/"
"""What Toolcrib itself puts into `_meta` begins so."""
