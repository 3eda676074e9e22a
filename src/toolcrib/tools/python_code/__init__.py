"""The broad tool `python_code`: runs code that an agent wrote."""

from __future__ import annotations

from toolcrib.tools.python_code.policy import PythonCodePolicy
from toolcrib.tools.python_code.tool import TEMPLATE

__all__ = ["TEMPLATE", "PythonCodePolicy"]
