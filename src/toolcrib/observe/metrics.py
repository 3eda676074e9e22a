"""Numbers: bumped cheaply by the pipeline, read by `/metrics`, the command line and the console."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.observe.lane import ExporterCounts
from toolcrib.reasons import REASONS, Status

if TYPE_CHECKING:
    from toolcrib.observe.prometheus import MetricsCollector

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Upper bounds of the buckets for call times, in seconds."""
WAIT_BOUNDS = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)
"""Upper bounds of the buckets for people's time, in seconds."""

MAX_TOOLS = 2000
"""Tools with a label of their own; later ones share the label `other`."""
OTHER = "other"
MAX_REASONS = 200
"""Reasons of policies' own with a label; later ones share the label `policy_own`."""
POLICY_OWN = "policy_own"

ANSWERS = frozenset({"allow", "deny", "expired"})


class Labels:
    """Lets a limited number of values through as labels; the rest share one."""

    def __init__(self, limit: int, rest: str, known: Iterable[str] = ()) -> None:
        self._limit = limit
        self._rest = rest
        self._known = frozenset((rest, *known))
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    def of(self, value: str) -> str:
        """The label for `value`."""
        if value in self._known or value in self._seen:
            return value
        with self._lock:
            if len(self._seen) >= self._limit:
                return self._rest
            self._seen.add(value)
            return value


def reason_labels() -> Labels:
    """Labels for reasons: the whole table, and so many of policies' own."""
    return Labels(MAX_REASONS, POLICY_OWN, REASONS)


class ToolMetrics:
    """The numbers of one tool. The pipeline keeps it with the tool's plan and bumps it directly.

    No lock: each of these statements is one step for other threads of a Python with a global
    interpreter lock; without that lock a count may be lost now and then.
    """

    __slots__ = (
        "name",
        "ok",
        "error",
        "denied",
        "seconds",
        "buckets",
        "errors",
        "denials",
        "_label",
    )

    def __init__(self, name: str, reasons: Labels) -> None:
        self.name = name
        self.ok = 0
        self.error = 0
        self.denied = 0
        self.seconds = 0.0
        """Sum of the times of calls that were not refused."""
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.errors: dict[str, int] = {}
        self.denials: dict[str, int] = {}
        self._label = reasons

    def ended(self, status: Status, reason: str | None, seconds: float) -> None:
        """Count one ending. A refused call took no tool's time, so it is in no bucket."""
        if status == "ok":
            self.ok += 1
        elif status == "denied":
            self.denied += 1
            self._because(self.denials, reason)
            return
        else:
            self.error += 1
            self._because(self.errors, reason)
        self.seconds += seconds
        self.buckets[bisect_left(BOUNDS, seconds)] += 1

    def _because(self, counts: dict[str, int], reason: str | None) -> None:
        if reason in counts:
            counts[reason] += 1
            return
        label = self._label.of(reason or "unexpected_failure")
        counts.setdefault(label, 0)
        counts[label] += 1


class Metrics:
    """All numbers of a host. Whoever shows numbers reads them here, so they never differ.

    `tools` and `exporters` are asked when the numbers are read.
    """

    def __init__(
        self,
        *,
        tools: Callable[[], int] | None = None,
        exporters: Callable[[], Mapping[str, ExporterCounts]] | None = None,
    ) -> None:
        self.tools = tools
        self.exporters = exporters
        self.in_flight = 0
        self.trail_records = 0
        self.approvals: dict[str, int] = {}
        self.wait_seconds = 0.0
        self.wait_buckets = [0] * (len(WAIT_BOUNDS) + 1)
        self._reasons = reason_labels()
        self.other = ToolMetrics(OTHER, self._reasons)
        """For names that no tool has, and for tools beyond the limit of labels."""
        self._tools: dict[str, ToolMetrics] = {OTHER: self.other}
        self._lock = threading.Lock()
        self._live: tuple[Callable[[], int], Callable[[], int]] | None = None

    def for_tool(self, name: str) -> ToolMetrics:
        """The numbers of the tool `name`. Ask once per tool that exists, and keep it."""
        found = self._tools.get(name)
        if found is not None:
            return found
        with self._lock:
            if len(self._tools) > MAX_TOOLS:
                return self.other
            return self._tools.setdefault(name, ToolMetrics(name, self._reasons))

    def follow(self, in_flight: Callable[[], int], records: Callable[[], int]) -> None:
        """Ask these when the numbers are read: calls in flight, and records on the trail."""
        self._live = (in_flight, records)

    def refresh(self) -> None:
        """Take the numbers that are not counted here."""
        if self._live is not None:
            self.in_flight, self.trail_records = self._live[0](), self._live[1]()

    def approved(self, answer: str, seconds: float) -> None:
        """Count one answered (`allow`, `deny`) or `expired` approval and how long it took."""
        answer = answer if answer in ANSWERS else OTHER
        with self._lock:
            self.approvals[answer] = self.approvals.get(answer, 0) + 1
            self.wait_seconds += seconds
            self.wait_buckets[bisect_left(WAIT_BOUNDS, seconds)] += 1

    def tool_count(self) -> int:
        """How many tools the catalog holds now."""
        return self.tools() if self.tools is not None else 0

    def exporter_counts(self) -> Mapping[str, ExporterCounts]:
        """How each exporter is doing now."""
        if self.exporters is None:
            return {}
        return self.exporters()

    def collector(self) -> MetricsCollector:
        """For a `prometheus_client` registry of your own: `registry.register(m.collector())`."""
        from toolcrib.observe.prometheus import MetricsCollector

        return MetricsCollector(self)

    def render(self) -> bytes:
        """The Prometheus text format."""
        from prometheus_client import CollectorRegistry, generate_latest

        # A registry of its own: the global one belongs to the application.
        registry = CollectorRegistry()
        registry.register(self.collector())
        return generate_latest(registry)

    def used_tools(self) -> list[ToolMetrics]:
        """The tools that were called, by name."""
        called = (t for t in list(self._tools.values()) if t.ok or t.error or t.denied)
        return sorted(called, key=lambda t: t.name)

    def snapshot(self) -> dict[str, Any]:
        """The same numbers as plain JSON values."""
        self.refresh()
        tools = self.used_tools()
        return {
            "calls": {
                "ok": sum(t.ok for t in tools),
                "error": sum(t.error for t in tools),
                "denied": sum(t.denied for t in tools),
            },
            "in_flight": self.in_flight,
            "tools": self.tool_count(),
            "errors": _total(t.errors for t in tools),
            "denials": _total(t.denials for t in tools),
            "by_tool": {
                t.name: {
                    "ok": t.ok,
                    "error": t.error,
                    "denied": t.denied,
                    "errors": dict(t.errors),
                    "denials": dict(t.denials),
                    **_times(BOUNDS, t.buckets, t.seconds),
                }
                for t in tools
            },
            "approvals": dict(self.approvals),
            "approval_wait": _times(WAIT_BOUNDS, self.wait_buckets, self.wait_seconds),
            "trail_records": self.trail_records,
            "exporters": {
                name: counts._asdict() for name, counts in self.exporter_counts().items()
            },
        }


def _total(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for reason, count in part.copy().items():
            total[reason] = total.get(reason, 0) + count
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _times(bounds: tuple[float, ...], buckets: list[int], seconds: float) -> dict[str, Any]:
    counts = buckets.copy()
    return {
        "count": sum(counts),
        "seconds": seconds,
        "p50": quantile(bounds, counts, 0.5),
        "p95": quantile(bounds, counts, 0.95),
    }


def quantile(bounds: tuple[float, ...], buckets: list[int], share: float) -> float | None:
    """The time that `share` of the calls stayed under, estimated within its bucket."""
    total = sum(buckets)
    if not total:
        return None
    wanted = share * total
    below = 0
    for index, count in enumerate(buckets):
        if count and below + count >= wanted:
            if index == len(bounds):
                break
            low = bounds[index - 1] if index else 0.0
            return low + (bounds[index] - low) * (wanted - below) / count
        below += count
    return bounds[-1]
