"""The broad tool `git`: one repository, narrow rights, and nothing of the repository's runs."""

from __future__ import annotations

from toolcrib.tools.git.policy import GitPolicy
from toolcrib.tools.git.tool import TEMPLATE

__all__ = ["TEMPLATE", "GitPolicy"]
