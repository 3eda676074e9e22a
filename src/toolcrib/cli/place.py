"""Where a command works: the project here, or the host that a URL names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.cli.output import Mistake

if TYPE_CHECKING:
    from toolcrib.cli.source import Source

URL = "TOOLCRIB_URL"
TOKEN = "TOOLCRIB_TOKEN"  # noqa: S105 - the name of a variable
_LONGEST = 16_384


def open_source(config: str | None, url: str | None, token_file: str | None) -> Source:
    """The source that the options mean. What is typed beats what the environment says."""
    if config is not None and url is not None:
        raise Mistake("--config is a project here and --url a running host. Give one of them")
    target = url if url is not None or config is not None else os.environ.get(URL)
    if not target:
        if token_file is not None:
            raise Mistake("--token-file is for a running host. Name it with --url")
        from toolcrib.cli.local import Local

        return Local(config)
    from toolcrib.cli.remote import Remote

    return Remote(target, read_token(token_file))


def read_token(file: str | None) -> str | None:
    """The token in a file, or in the environment. It is never on the command line, where other
    users see it."""
    if file is None:
        return os.environ.get(TOKEN) or None
    try:
        with Path(file).open("rb") as stream:
            text = stream.read(_LONGEST + 1)
    except OSError as error:
        raise Mistake(f"the token file {file} cannot be read: {error.strerror}") from None
    token = text.decode("ascii", "replace").strip()
    if len(token.split()) != 1 or not token.isascii() or len(text) > _LONGEST:
        raise Mistake(f"{file} holds no token. Write the token into it, and nothing else")
    return token
