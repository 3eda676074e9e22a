"""Client programs of other projects, and what they saw."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import environments

CLIENTS = Path(__file__).parent / "clients"
PYTHONS = {"sdk1": environments.SDK1, "sdk2": environments.SDK2}


def _said(argv: Sequence[Any]) -> Any:
    words = [str(word) for word in argv]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=110, env=environments.with_node()
    )
    assert done.returncode == 0, f"{done.stderr[-3000:]}\n{done.stdout[-1000:]}"
    return json.loads(done.stdout)


def cells(client: str, url: str) -> dict[str, Any]:
    """What `sdk1`, `sdk2` or `typescript-PACKAGE-MODE` saw of the tools of a fixture."""
    kind, _, rest = client.partition("-")
    if kind == "typescript":
        program = CLIENTS / "typescript.mjs"
        return _said([environments.node(), program, environments.MODULES, url, *rest.split("-")])
    return _said([PYTHONS[client], "-W", "ignore", CLIENTS / f"{client}.py", url])


def steps(
    client: str, target: str | Sequence[Any], *taken: Sequence[Any], **filled: Any
) -> list[Any]:
    """What `sdk1` or `sdk2` got for these steps at an address, or from a command; `filled` is what
    the person writes into the fields of forms."""
    where = target if isinstance(target, str) else json.dumps([str(word) for word in target])
    words = [CLIENTS / "steps.py", where, json.dumps(taken), json.dumps(filled)]
    return _said([PYTHONS[client], "-W", "ignore", *words])


def inspector(*words: Any) -> Any:
    """What the command line of MCP Inspector printed."""
    program = environments.MODULES / ".bin" / "mcp-inspector"
    return _said([environments.node(), program, "--cli", *words])


def text(result: dict[str, Any]) -> str:
    """The text blocks of a tool's result."""
    return "".join(block["text"] for block in result["content"] if block["type"] == "text")
