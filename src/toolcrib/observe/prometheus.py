"""A host's numbers in the form `prometheus_client` reads; imported when somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from toolcrib.observe.metrics import BOUNDS, WAIT_BOUNDS, Metrics


class MetricsCollector(Collector):
    """Reads a host's numbers for `prometheus_client`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterator[Metric]:
        """Nothing beforehand: the names are fixed, the labels come with the calls."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Every metric with its numbers as they are now."""
        m = self._metrics
        m.refresh()
        calls = CounterMetricFamily(
            "toolcrib_calls_total", "Calls that ended, by status.", labels=["tool", "status"]
        )
        denials = CounterMetricFamily(
            "toolcrib_denials_total", "Calls that were refused.", labels=["tool", "reason"]
        )
        errors = CounterMetricFamily(
            "toolcrib_errors_total", "Calls that failed.", labels=["tool", "reason"]
        )
        seconds = HistogramMetricFamily(
            "toolcrib_call_seconds", "Time of calls that were not refused.", labels=["tool"]
        )
        for tool in m.used_tools():
            calls.add_metric([tool.name, "ok"], tool.ok)
            calls.add_metric([tool.name, "error"], tool.error)
            calls.add_metric([tool.name, "denied"], tool.denied)
            for reason, count in tool.denials.copy().items():
                denials.add_metric([tool.name, reason], count)
            for reason, count in tool.errors.copy().items():
                errors.add_metric([tool.name, reason], count)
            seconds.add_metric([tool.name], _cumulative(BOUNDS, tool.buckets), tool.seconds)
        approvals = CounterMetricFamily(
            "toolcrib_approvals_total", "Questions that ended, by answer.", labels=["answer"]
        )
        for answer, count in sorted(m.approvals.copy().items()):
            approvals.add_metric([answer], count)
        waits = HistogramMetricFamily("toolcrib_approval_wait_seconds", "Time people took.")
        waits.add_metric([], _cumulative(WAIT_BOUNDS, m.wait_buckets), m.wait_seconds)
        dropped = CounterMetricFamily(
            "toolcrib_exporter_dropped_total",
            "Events an exporter was too slow for.",
            labels=["exporter"],
        )
        failed = CounterMetricFamily(
            "toolcrib_exporter_failed_total", "Events an exporter failed at.", labels=["exporter"]
        )
        for name, counts in m.exporter_counts().items():
            dropped.add_metric([name], counts.dropped)
            failed.add_metric([name], counts.failed)
        yield from (calls, denials, errors, seconds, approvals, waits, dropped, failed)
        yield GaugeMetricFamily("toolcrib_in_flight", "Calls that run now.", value=m.in_flight)
        yield CounterMetricFamily(
            "toolcrib_trail_records_total", "Records put on the trail.", value=m.trail_records
        )
        yield GaugeMetricFamily("toolcrib_tools", "Tools in the catalog.", value=m.tool_count())


def _cumulative(bounds: tuple[float, ...], buckets: list[int]) -> list[tuple[str, float]]:
    out: list[tuple[str, float]] = []
    so_far = 0
    names = (*(str(float(bound)) for bound in bounds), "+Inf")
    for name, count in zip(names, buckets.copy(), strict=True):
        so_far += count
        out.append((name, so_far))
    return out
