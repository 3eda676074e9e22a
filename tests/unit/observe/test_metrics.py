"""Counted once, shown everywhere the same; labels stay few."""

from __future__ import annotations

import threading

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from toolcrib.observe import metrics as module
from toolcrib.observe.lane import ExporterCounts
from toolcrib.observe.metrics import Metrics

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def rendered(metrics: Metrics) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return rendered(metrics).get((name, frozenset(labels.items())))


def test_denied_error_and_ok_are_three_things() -> None:
    metrics = Metrics()
    add = metrics.for_tool("add")
    add.ended("ok", None, 0.002)
    add.ended("ok", None, 0.003)
    add.ended("error", "timeout", 5.0)
    add.ended("denied", "rate_limited", 0.0)
    add.ended("denied", "rate_limited", 0.0)
    add.ended("denied", "action_not_allowed", 0.0)
    for status, count in (("ok", 2), ("error", 1), ("denied", 3)):
        assert sample(metrics, "toolcrib_calls_total", tool="add", status=status) == count
    assert sample(metrics, "toolcrib_errors_total", tool="add", reason="timeout") == 1
    assert sample(metrics, "toolcrib_denials_total", tool="add", reason="rate_limited") == 2
    assert sample(metrics, "toolcrib_denials_total", tool="add", reason="timeout") is None
    assert sample(metrics, "toolcrib_errors_total", tool="add", reason="rate_limited") is None


def test_histogram_counts_what_ran() -> None:
    metrics = Metrics()
    add = metrics.for_tool("add")
    for seconds in (0.0005, 0.00051, 0.3, 1000.0):
        add.ended("ok", None, seconds)
    add.ended("denied", "rate_limited", 0.1)
    name = "toolcrib_call_seconds"
    assert sample(metrics, f"{name}_bucket", tool="add", le="0.0005") == 1
    assert sample(metrics, f"{name}_bucket", tool="add", le="0.001") == 2
    assert sample(metrics, f"{name}_bucket", tool="add", le="60.0") == 3
    assert sample(metrics, f"{name}_bucket", tool="add", le="+Inf") == 4
    assert sample(metrics, f"{name}_count", tool="add") == 4
    assert sample(metrics, f"{name}_sum", tool="add") == pytest.approx(1000.30101)


def test_the_other_numbers() -> None:
    metrics = Metrics(tools=lambda: 7, exporters=lambda: {"otel": ExporterCounts(10, 3, 2)})
    metrics.in_flight += 2
    metrics.trail_records += 5
    metrics.approved("allow", 4.0)
    metrics.approved("expired", 300.0)
    metrics.approved("perhaps", 1.0)
    shown = rendered(metrics)
    none: frozenset[tuple[str, str]] = frozenset()
    assert shown["toolcrib_in_flight", none] == 2
    assert shown["toolcrib_trail_records_total", none] == 5
    assert shown["toolcrib_tools", none] == 7
    assert shown["toolcrib_approval_wait_seconds_count", none] == 3
    assert shown["toolcrib_approval_wait_seconds_sum", none] == 305
    assert sample(metrics, "toolcrib_exporter_dropped_total", exporter="otel") == 3
    assert sample(metrics, "toolcrib_exporter_failed_total", exporter="otel") == 2
    for answer in ("allow", "expired", "other"):
        assert sample(metrics, "toolcrib_approvals_total", answer=answer) == 1


def test_snapshot_and_metrics_page_agree() -> None:
    metrics = Metrics(tools=lambda: 2)
    for number in range(20):
        metrics.for_tool("add").ended("ok", None, 0.01 * number)
    metrics.for_tool("rm").ended("denied", "denied_by_rule", 0.0)
    metrics.for_tool("rm").ended("error", "tool_error", 0.2)
    snapshot, shown = metrics.snapshot(), rendered(metrics)
    for tool, numbers in snapshot["by_tool"].items():
        for status in ("ok", "error", "denied"):
            labels = frozenset({"tool": tool, "status": status}.items())
            assert shown["toolcrib_calls_total", labels] == numbers[status]
        of_tool = frozenset({"tool": tool}.items())
        assert shown["toolcrib_call_seconds_count", of_tool] == numbers["count"]
        assert shown["toolcrib_call_seconds_sum", of_tool] == pytest.approx(numbers["seconds"])
    assert snapshot["calls"] == {"ok": 20, "error": 1, "denied": 1}
    assert snapshot["denials"] == {"denied_by_rule": 1}
    assert snapshot["errors"] == {"tool_error": 1}
    assert snapshot["tools"] == 2


def test_quantiles_lie_in_the_right_bucket() -> None:
    metrics = Metrics()
    add = metrics.for_tool("add")
    assert metrics.snapshot()["approval_wait"]["p50"] is None
    for _ in range(90):
        add.ended("ok", None, 0.02)
    for _ in range(10):
        add.ended("ok", None, 3.0)
    numbers = metrics.snapshot()["by_tool"]["add"]
    assert 0.01 < numbers["p50"] <= 0.025
    assert 2.5 < numbers["p95"] <= 5
    for _ in range(1000):
        add.ended("ok", None, 100.0)
    assert metrics.snapshot()["by_tool"]["add"]["p95"] == 60


def test_tools_beyond_the_limit_share_a_label() -> None:
    metrics = Metrics()
    for number in range(module.MAX_TOOLS + 50):
        metrics.for_tool(f"t{number}").ended("ok", None, 0.1)
    assert metrics.for_tool("t3") is metrics.for_tool("t3")
    assert metrics.for_tool("new") is metrics.other is metrics.for_tool("other")
    snapshot = metrics.snapshot()
    assert len(snapshot["by_tool"]) == module.MAX_TOOLS + 1
    assert snapshot["by_tool"]["other"]["ok"] == 50
    assert snapshot["calls"]["ok"] == module.MAX_TOOLS + 50


def test_reasons_of_policies_beyond_the_limit_share_a_label() -> None:
    metrics = Metrics()
    git = metrics.for_tool("git")
    for number in range(module.MAX_REASONS + 30):
        git.ended("denied", f"own_{number}", 0.0)
    git.ended("denied", "own_1", 0.0)
    git.ended("denied", "rate_limited", 0.0)
    denials = metrics.snapshot()["denials"]
    assert denials["policy_own"] == 30
    assert denials["own_1"] == 2
    assert denials["rate_limited"] == 1
    assert len(denials) == module.MAX_REASONS + 2
    assert sum(denials.values()) == metrics.snapshot()["calls"]["denied"]


def test_an_error_without_reason_is_counted() -> None:
    metrics = Metrics()
    metrics.for_tool("add").ended("error", None, 0.1)
    assert metrics.snapshot()["errors"] == {"unexpected_failure": 1}


def test_the_global_registry_is_left_alone_and_an_own_one_works() -> None:
    metrics = Metrics()
    metrics.for_tool("add").ended("ok", None, 0.1)
    metrics.render()
    labels = {"tool": "add", "status": "ok"}
    assert REGISTRY.get_sample_value("toolcrib_calls_total", labels) is None
    registry = CollectorRegistry()
    registry.register(metrics.collector())
    assert registry.get_sample_value("toolcrib_calls_total", labels) == 1


def test_threads_lose_no_count() -> None:
    metrics = Metrics()

    def work(reason: str) -> None:
        for _ in range(2000):
            metrics.for_tool("add").ended("denied", reason, 0.0)
            metrics.for_tool("add").ended("ok", None, 0.01)

    threads = [threading.Thread(target=work, args=(r,)) for r in ("own_a", "own_b", "own_a")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    snapshot = metrics.snapshot()
    assert snapshot["calls"] == {"ok": 6000, "error": 0, "denied": 6000}
    assert snapshot["denials"] == {"own_a": 4000, "own_b": 2000}
    assert snapshot["by_tool"]["add"]["count"] == 6000
