"""Programs of the system that some tests need."""

from __future__ import annotations

import os
import shutil

import pytest


def needs(program: str, package: str) -> str:
    """The path of `program`. Without it the test is skipped, saying what to install; where
    everything has to be tested (`CI` is set) it fails instead."""
    found = shutil.which(program)
    if found is not None:
        return found
    text = f"needs {program}: apt-get install {package}"
    if os.environ.get("CI"):
        pytest.fail(text)
    pytest.skip(text)
