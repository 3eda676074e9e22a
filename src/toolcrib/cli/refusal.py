"""What a running host refuses, as the end of a command."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from toolcrib.cli.output import Refusal
from toolcrib.client import Refused
from toolcrib.reasons import reason as reason_row

_CURES = {
    "unauthenticated": "Set TOOLCRIB_TOKEN, or name a file with --token-file",
    "host_refused": "Use a name that the host serves, or add this one to serve.http.hosts",
    "unknown_method": "Check the path in --url, and whether the host has this version",
}


@contextmanager
def refusals_end() -> Generator[None]:
    """What the host refuses inside ends the command, with the exit code of its reason."""
    try:
        yield
    except Refused as refused:
        raise _told(refused) from None


def _told(refused: Refused) -> Refusal:
    failure = refused.result.error
    if failure is None:
        return Refusal(str(refused), 5)
    words, cure = failure.message.rstrip("."), _CURES.get(failure.reason)
    code = reason_row(failure.reason, refused.result.status).exit
    return Refusal(f"{words}. {cure}" if cure else words, code)
