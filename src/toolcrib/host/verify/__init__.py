"""Proofs about profiles: what can never happen, what got wider, what makes no sense."""

from __future__ import annotations

from toolcrib.host.verify.invariants import Invariants, Never, NeverWiden, read_invariants
from toolcrib.host.verify.report import Finding, Report
from toolcrib.host.verify.run import verify
from toolcrib.host.verify.table import Failed, Row, TableReport, read_table, run_table

__all__ = [
    "Failed",
    "Finding",
    "Invariants",
    "Never",
    "NeverWiden",
    "Report",
    "Row",
    "TableReport",
    "read_invariants",
    "read_table",
    "run_table",
    "verify",
]
