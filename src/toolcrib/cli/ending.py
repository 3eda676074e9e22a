"""How the program ends: what is said of an error, and the exit code."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from toolcrib.cli.output import Mistake, Refusal, Unread, say
from toolcrib.errors import ConfigError, JsonError, NotFound, ToolcribError

INTERRUPTED = 130
BROKEN_PIPE = 141


class State:
    """What the program and its commands share."""

    def __init__(self) -> None:
        self.debug = False
        """Whether tracebacks and the log are shown."""


def end_with(work: Callable[[State], int]) -> NoReturn:
    """Do it, and end the process with its exit code or that of its error."""
    try:
        code = _code(work)
    except Unread:
        # Whoever read the output has seen enough; nothing is left to be said to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = BROKEN_PIPE
    _leave(code)


def _code(work: Callable[[State], int]) -> int:
    state = State()
    try:
        return work(state)
    except KeyboardInterrupt:
        say("Cancelled.")
        return INTERRUPTED
    except Unread:
        raise
    except Exception as error:
        code = _told(error)
        if state.debug and not isinstance(error, Mistake):
            import traceback

            traceback.print_exc()
        return code


def _told(error: Exception) -> int:
    """Say what went wrong, and whose fault it is by the exit code."""
    if isinstance(error, ConfigError):
        for mistake in error.all():
            say(str(mistake))
        return 2
    if isinstance(error, Mistake | NotFound | JsonError):
        say(str(error))
        return 2
    if isinstance(error, Refusal):
        say(str(error))
        return error.code
    if isinstance(error, ToolcribError):
        say(str(error))
    elif isinstance(error, OSError):
        say(f"{error.filename or 'the system'}: {error.strerror or error}")
    else:
        say(f"Unexpected: {type(error).__name__}: {error}. `toolcrib --debug …` shows where.")
    return 5


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stderr.flush()
    me = threading.current_thread()
    for thread in threading.enumerate():
        if thread is not me and not thread.daemon:
            thread.join(0.2)
            if thread.is_alive():
                # A tool's thread that does not stop; the interpreter would wait for it.
                os._exit(code)
    sys.exit(code)
