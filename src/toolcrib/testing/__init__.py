"""The test kit: everything Toolcrib tests itself with, for those who build on it.

Names are loaded when first used, so that a pytest run which needs none of them pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_HOME = {
    "ApprovalSimulator": "approvals",
    "ApproverContract": "contracts.approver",
    "EventRecorder": "recorder",
    "ExecutorContract": "contracts.executor",
    "ExporterContract": "contracts.exporter",
    "ExtensionContract": "contracts.extension",
    "FakeClock": "clock",
    "GateContract": "contracts.gate",
    "LoaderContract": "contracts.loader",
    "MockExecutor": "mocks",
    "MockTool": "mocks",
    "ProviderContract": "contracts.provider",
    "SandboxContract": "contracts.sandbox",
    "StoreContract": "contracts.store",
    "TestCoordinator": "coordinator",
    "TransportContract": "contracts.transport",
    "assert_denied": "endings",
    "assert_ok": "endings",
    "broken_promises": "contracts.promise",
    "make_host": "hosts",
    "with_executors": "mocks",
}

if TYPE_CHECKING:
    from toolcrib.testing.approvals import ApprovalSimulator as ApprovalSimulator
    from toolcrib.testing.clock import FakeClock as FakeClock
    from toolcrib.testing.contracts.approver import ApproverContract as ApproverContract
    from toolcrib.testing.contracts.executor import ExecutorContract as ExecutorContract
    from toolcrib.testing.contracts.exporter import ExporterContract as ExporterContract
    from toolcrib.testing.contracts.extension import ExtensionContract as ExtensionContract
    from toolcrib.testing.contracts.gate import GateContract as GateContract
    from toolcrib.testing.contracts.loader import LoaderContract as LoaderContract
    from toolcrib.testing.contracts.promise import broken_promises as broken_promises
    from toolcrib.testing.contracts.provider import ProviderContract as ProviderContract
    from toolcrib.testing.contracts.sandbox import SandboxContract as SandboxContract
    from toolcrib.testing.contracts.store import StoreContract as StoreContract
    from toolcrib.testing.contracts.transport import TransportContract as TransportContract
    from toolcrib.testing.coordinator import TestCoordinator as TestCoordinator
    from toolcrib.testing.endings import assert_denied as assert_denied
    from toolcrib.testing.endings import assert_ok as assert_ok
    from toolcrib.testing.hosts import make_host as make_host
    from toolcrib.testing.mocks import MockExecutor as MockExecutor
    from toolcrib.testing.mocks import MockTool as MockTool
    from toolcrib.testing.mocks import with_executors as with_executors
    from toolcrib.testing.recorder import EventRecorder as EventRecorder

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'toolcrib.testing' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"toolcrib.testing.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
