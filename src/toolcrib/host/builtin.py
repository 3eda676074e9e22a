"""What Toolcrib itself offers by name, handed in like a plug-in's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.core.protocols import Exporter, Sandbox, Workshop
from toolcrib.host.plugins import Registrar
from toolcrib.tools.paths import PathsPolicy


def register_builtins(registrar: Registrar) -> None:
    """Hand in the built-in policies and exporters."""
    registrar.policy("paths", PathsPolicy)
    for name in ("subprocess", "bubblewrap", "landlock", "container"):
        registrar.sandbox(name, _sandbox(name))
    registrar.exporter("log", _human_log)
    registrar.exporter("json", _json_log)
    registrar.exporter("hooks", _hook_log)
    registrar.exporter("otel", _otel)


def _sandbox(type: str) -> Callable[..., Sandbox]:
    """Imported when a configuration names one: most hosts run no commands."""

    def build(name: str, settings: Mapping[str, Any], workshop: Workshop) -> Sandbox:
        from toolcrib.sandbox.build import FACTORIES

        return FACTORIES[type](name, settings, workshop)

    return build


def _human_log(**settings: Any) -> Exporter:
    """Lines for people, on standard error."""
    from toolcrib.observe.log import HumanLog

    return HumanLog(**settings)


def _json_log(**settings: Any) -> Exporter:
    """A JSON line an event, on standard error or to `file`."""
    from toolcrib.observe.log import JsonLog

    return JsonLog(**settings)


def _hook_log(**settings: Any) -> Exporter:
    """`hook.tool.*` and `hook.policy.*` lines, on standard error."""
    import sys

    from toolcrib.observe.legacy import HookLog

    return HookLog(lambda line: print(line, file=sys.stderr), **settings)  # noqa: T201


def _otel(**settings: Any) -> Exporter:
    """OpenTelemetry spans and metrics; needs the extra `otel`."""
    from toolcrib.observe.otel import OtelExporter

    return OtelExporter(**settings)
