"""Error codes of the protocol. Ours are HTTP statuses, which lie outside the reserved range."""

from __future__ import annotations

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
"""Of the revisions before 2026-07-28, which uses INVALID_PARAMS."""
URL_ELICITATION_REQUIRED = -32042
"""Of 2025-11-25."""
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
