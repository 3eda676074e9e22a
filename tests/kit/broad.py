"""A host with one broad tool, built as a configuration in a folder would build it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib import ToolHost, tool
from toolcrib.core.spec import ToolTemplate
from toolcrib.host.workshop import Sandboxes, Workshop
from toolcrib.testing import make_host


def broad_host(
    template: ToolTemplate,
    knobs: Mapping[str, Any],
    folder: Path,
    *others: Any,
    profile: Mapping[str, Any] | None = None,
) -> ToolHost:
    """A host with the tool of `template` under a policy, and other tools beside it."""
    policy = template.policy(**knobs)
    function = template.build(policy, Workshop(Sandboxes(), folder))
    marked = tool(name=template.name, policy=policy)(function)
    return make_host([marked, *others], profile=profile)
