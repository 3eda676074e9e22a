"""The broad tool `files`: reading and changing files below one folder, and nowhere else."""

from __future__ import annotations

from toolcrib.tools.files.policy import FilesPolicy
from toolcrib.tools.files.tool import TEMPLATE

__all__ = ["TEMPLATE", "FilesPolicy"]
