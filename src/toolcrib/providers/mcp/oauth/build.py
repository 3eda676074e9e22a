"""From a provider's settings to what puts tokens on its requests."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolcrib.core.protocols import Workshop
from toolcrib.errors import Denial
from toolcrib.net.addresses import private_from
from toolcrib.net.client import Client
from toolcrib.net.settings import Settings
from toolcrib.net.url import parse_url
from toolcrib.providers.mcp.oauth.asking import Asker, is_safe
from toolcrib.providers.mcp.oauth.login import Login, Show
from toolcrib.providers.mcp.oauth.settings import read_settings
from toolcrib.providers.mcp.oauth.source import OAuth
from toolcrib.providers.mcp.oauth.vault import Vault

STATE = ".toolcrib"
"""The folder for what is kept beside a configuration."""


def oauth_for(
    name: str,
    settings: Mapping[str, Any],
    workshop: Workshop,
    *,
    show: Show | None = None,
    port: int | None = None,
    patience: float = 300.0,
) -> OAuth | None:
    """What signs the requests of a provider with these settings; None without `auth`. A person is
    asked by `show`; without it, whatever needs a person fails with the words that say so."""
    given = Settings(settings, f"provider {name}")
    auth = given.part("auth")
    if auth is None:
        return None
    if importlib.util.find_spec("cryptography") is None:
        given.wrong("auth", "needs a library", "Install it with: pip install 'toolcrib[oauth]'")
    fixed = given.part("headers")
    if fixed is not None and any(str(key).lower() == "authorization" for key in fixed.values):
        given.wrong("headers", "holds Authorization, which auth sets", "Remove one of them")
    read = read_settings(auth, workshop)
    if port is not None:
        read = replace(read, redirect_port=port)
    try:
        url = parse_url(given.need("url"))
    except Denial as error:
        given.wrong("url", f"cannot be used: {error}")
    if not is_safe(url):
        given.wrong("url", "is not secure: tokens would be readable on the way", "Write https://…")
    client = Client()
    asker = Asker(client, url, private_from(settings.get("private")))
    login = Login(name, url, read, asker, patience)
    return OAuth(
        login,
        Vault(state_folder(workshop)),
        client=client,
        keep_secret=workshop.keep_secret,
        show=show,
    )


def state_folder(workshop: Workshop) -> Path:
    """Where logins are kept: with what else is kept beside the configuration, which nothing in a
    sandbox may see."""
    hidden = [path for path in workshop.hidden if path.name == STATE]
    return hidden[-1] if hidden else workshop.folder / STATE
