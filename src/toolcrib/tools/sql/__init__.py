"""The broad tool `sql`: statements on a SQLite file or a PostgreSQL database."""

from __future__ import annotations

from toolcrib.tools.sql.policy import SqlPolicy
from toolcrib.tools.sql.tool import TEMPLATE

__all__ = ["TEMPLATE", "SqlPolicy"]
