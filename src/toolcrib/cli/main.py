"""`toolcrib`: where the program begins."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from toolcrib.cli.ending import State

_GARBAGE = (100_000, 20, 20)
"""How many objects are made before those that hold each other are looked for. Nearly all of the
first ones are classes and functions, which stay; by default they would be looked at seventy times
before a gateway has answered its first call."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the process with its exit code."""
    gc.set_threshold(*_GARBAGE)
    from toolcrib.cli.ending import end_with
    from toolcrib.cli.logs import hush_log

    words = sys.argv[1:] if args is None else args
    hush_log()
    end_with(lambda state: _run(words, state))


def _run(words: Sequence[str], state: State) -> int:
    """What an agent's program starts again and again is read without the parser of the others,
    which is a twentieth of the time until the first answer."""
    from toolcrib.cli.plain import plain_serve

    plain = plain_serve(words)
    if plain is not None:
        from toolcrib.cli.gateway import serve_with

        return serve_with(plain)
    from toolcrib.cli.commands import command

    return command(words, state)
