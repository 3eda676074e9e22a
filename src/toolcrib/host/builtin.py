"""What Toolcrib itself offers by name, handed in like a plug-in's."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.core.spec import ToolTemplate
from toolcrib.host.plugins import Registrar
from toolcrib.tools.paths import PathsPolicy

if TYPE_CHECKING:
    from toolcrib.core.protocols import Exporter, Provider, Sandbox, Workshop


TEMPLATES = {
    "fetch": "toolcrib.tools.fetch",
    "files": "toolcrib.tools.files.tool",
    "git": "toolcrib.tools.git.tool",
    "python_code": "toolcrib.tools.python_code.tool",
    "shell": "toolcrib.tools.shell",
    "sql": "toolcrib.tools.sql.tool",
}
"""The broad tools, by the module that has their `TEMPLATE`."""

PROVIDERS = {
    "mcp": "toolcrib.providers.mcp.provider",
    "openapi": "toolcrib.providers.openapi.provider",
    "storage": "toolcrib.providers.storage.provider",
}
"""The provider types, by the module that has their `factory`."""


def register_builtins(registrar: Registrar) -> None:
    """Hand in the built-in policies and exporters."""
    registrar.policy("paths", PathsPolicy)
    for name, module in TEMPLATES.items():
        registrar.later(name, _template(module))
    for name, module in PROVIDERS.items():
        registrar.provider(name, _provider(module))
    for name in ("subprocess", "bubblewrap", "landlock", "container"):
        registrar.sandbox(name, _sandbox(name))
    registrar.exporter("log", _human_log)
    registrar.exporter("json", _json_log)
    registrar.exporter("hooks", _hook_log)
    registrar.exporter("otel", _otel)


def _template(module: str) -> Callable[[], ToolTemplate]:
    return lambda: importlib.import_module(module).TEMPLATE


def _provider(module: str) -> Callable[..., Provider]:
    return lambda *given: importlib.import_module(module).factory(*given)


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
