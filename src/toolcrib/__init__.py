"""Toolcrib: the guarded room where AI agents get their tools.

Everything public is importable from here. Names are loaded when first used, so importing the
package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_HOME = {
    "ApprovalDecision": "core.approval",
    "ApprovalRequest": "core.approval",
    "AutomaticApprover": "approvals.approvers",
    "CallDenied": "errors",
    "CallError": "errors",
    "CallbackApprover": "approvals.approvers",
    "ChainApprover": "approvals.approvers",
    "ConfigError": "errors",
    "Decision": "core.decision",
    "Denial": "errors",
    "Event": "core.events",
    "Explanation": "core.decision",
    "Extension": "core.protocols",
    "Failure": "core.result",
    "Grant": "core.approval",
    "HostStopped": "errors",
    "NameTaken": "errors",
    "NotFound": "errors",
    "Principal": "core.principal",
    "Profile": "core.profile",
    "RetryPolicy": "core.spec",
    "SchemaError": "errors",
    "Session": "host.session",
    "SpecError": "errors",
    "Step": "core.decision",
    "StoreError": "errors",
    "TerminalApprover": "approvals.terminal",
    "Tool": "host.tool",
    "ToolContext": "core.context",
    "ToolFailure": "errors",
    "ToolHost": "host.host",
    "ToolPolicy": "core.policy",
    "ToolResult": "core.result",
    "ToolScope": "core.spec",
    "ToolSpec": "core.spec",
    "ToolTemplate": "core.spec",
    "ToolcribError": "errors",
    "WebhookApprover": "approvals.webhook",
    "tool": "catalog.decorator",
}

if TYPE_CHECKING:
    from toolcrib.approvals.approvers import AutomaticApprover as AutomaticApprover
    from toolcrib.approvals.approvers import CallbackApprover as CallbackApprover
    from toolcrib.approvals.approvers import ChainApprover as ChainApprover
    from toolcrib.approvals.terminal import TerminalApprover as TerminalApprover
    from toolcrib.approvals.webhook import WebhookApprover as WebhookApprover
    from toolcrib.catalog.decorator import tool as tool
    from toolcrib.core.approval import ApprovalDecision as ApprovalDecision
    from toolcrib.core.approval import ApprovalRequest as ApprovalRequest
    from toolcrib.core.approval import Grant as Grant
    from toolcrib.core.context import ToolContext as ToolContext
    from toolcrib.core.decision import Decision as Decision
    from toolcrib.core.decision import Explanation as Explanation
    from toolcrib.core.decision import Step as Step
    from toolcrib.core.events import Event as Event
    from toolcrib.core.policy import ToolPolicy as ToolPolicy
    from toolcrib.core.principal import Principal as Principal
    from toolcrib.core.profile import Profile as Profile
    from toolcrib.core.protocols import Extension as Extension
    from toolcrib.core.result import Failure as Failure
    from toolcrib.core.result import ToolResult as ToolResult
    from toolcrib.core.spec import RetryPolicy as RetryPolicy
    from toolcrib.core.spec import ToolScope as ToolScope
    from toolcrib.core.spec import ToolSpec as ToolSpec
    from toolcrib.core.spec import ToolTemplate as ToolTemplate
    from toolcrib.core.version import __version__ as __version__
    from toolcrib.errors import CallDenied as CallDenied
    from toolcrib.errors import CallError as CallError
    from toolcrib.errors import ConfigError as ConfigError
    from toolcrib.errors import Denial as Denial
    from toolcrib.errors import HostStopped as HostStopped
    from toolcrib.errors import NameTaken as NameTaken
    from toolcrib.errors import NotFound as NotFound
    from toolcrib.errors import SchemaError as SchemaError
    from toolcrib.errors import SpecError as SpecError
    from toolcrib.errors import StoreError as StoreError
    from toolcrib.errors import ToolcribError as ToolcribError
    from toolcrib.errors import ToolFailure as ToolFailure
    from toolcrib.host.host import ToolHost as ToolHost
    from toolcrib.host.session import Session as Session
    from toolcrib.host.tool import Tool as Tool

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    home = "core.version" if name == "__version__" else _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'toolcrib' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"toolcrib.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
