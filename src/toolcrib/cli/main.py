"""`toolcrib`: where the program begins."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import NoReturn

_GARBAGE = (100_000, 20, 20)
"""How many objects are made before those that hold each other are looked for. Nearly all of the
first ones are classes and functions, which stay; by default they would be looked at seventy times
before a gateway has answered its first call."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the process with its exit code."""
    gc.set_threshold(*_GARBAGE)
    from toolcrib.cli.commands import run_command

    run_command(args)
