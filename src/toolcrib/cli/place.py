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

    _check_address(target, "--url" if url is not None else URL)
    return Remote(target, read_token(token_file))


def _check_address(target: str, given: str) -> None:
    """What cannot be an address is a slip of whoever typed it, and no trouble on the way."""
    from toolcrib.client.address import read_address
    from toolcrib.client.errors import ClientError

    try:
        kind = read_address(target).kind
    except ClientError as error:
        raise Mistake(f"{given}: {error.message}. {error.cure}") from None
    if kind == "stdio":
        cure = "Write http://HOST:PORT, ws://HOST:PORT or unix:PATH"
        raise Mistake(f"{given}: a host at stdio: belongs to the program that started it. {cure}")


def read_token(file: str | None) -> str | None:
    """The token in a file, or in the environment. It is never on the command line, where other
    users see it."""
    if file is None:
        given = os.environ.get(TOKEN) or None
        if given is not None and not _is_token(given):
            raise Mistake(f"{TOKEN} holds no token. Look for spaces and line ends in it")
        return given
    try:
        with Path(file).open("rb") as stream:
            text = stream.read(_LONGEST + 1)
    except OSError as error:
        cure = "Name one that you can read with --token-file"
        raise Mistake(f"the token file {file} cannot be read: {error.strerror}. {cure}") from None
    token = text.decode("ascii", "replace").strip()
    if not _is_token(token) or len(text) > _LONGEST:
        raise Mistake(f"{file} holds no token. Write the token into it, and nothing else")
    return token


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
