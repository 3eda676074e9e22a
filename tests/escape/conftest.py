"""Says at the end which probes could not tell anything on this machine."""

from __future__ import annotations

from typing import Any

_NAMED = "inconclusive as "


def pytest_terminal_summary(terminalreporter: Any) -> None:
    inconclusive: dict[str, str] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            found = dict(getattr(report, "user_properties", ()))
            inconclusive |= {name: found[name] for name in found if name.startswith(_NAMED)}
    for name, value in sorted(inconclusive.items()):
        terminalreporter.write_line(f"escape probes {name}: {value}")
