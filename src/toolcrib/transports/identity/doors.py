"""Whether doors may be opened as the configuration says."""

from __future__ import annotations

import logging
import os
import pwd
from collections.abc import Collection
from pathlib import Path

from toolcrib.core.serving import HttpSettings, JwtSettings, Listen, ServeSettings, Tls
from toolcrib.core.settings import HostConfig
from toolcrib.errors import ConfigError

NETWORK = frozenset({"http", "unix", "websocket"})
"""Doors that others can knock at."""
_LONGEST_PATH = 107
"""Bytes; the system takes no longer path for a socket."""

_log = logging.getLogger("toolcrib")


def check_doors(config: HostConfig, settings: ServeSettings, doors: Collection[str]) -> None:
    """Raise a `ConfigError`, with the cure, for doors that must not be opened like this."""
    if NETWORK.isdisjoint(doors):
        return
    http = settings.http
    _check_strangers(config, settings)
    _check_profiles(config, settings)
    _check_issuers(settings)
    if http.unix is not None and len(os.fsencode(http.unix)) > _LONGEST_PATH:
        raise ConfigError(
            f"the path of the unix socket is longer than {_LONGEST_PATH} bytes",
            key="serve.http.unix",
            cure="Put it into a folder with a shorter path, such as /run",
        )
    for name, _ in http.users:
        _check_user(name)
    if http.tls is not None:
        _check_tls(http.tls)


def guarded(config: HostConfig, settings: ServeSettings) -> bool:
    """Whether callers need credentials. Raises `ConfigError` for a tokens file that is no good."""
    from toolcrib.host.config.serving import tokens_file
    from toolcrib.transports.identity.tokenfile import TokenFile

    given = settings.tokens_file
    path = tokens_file(config) if given is None else Path(given)
    if path is not None:
        TokenFile(path).read()
    there = given is not None or (path is not None and path.exists())
    return bool(settings.tokens or settings.jwt or there)


def exposed(http: HttpSettings) -> bool:
    """Whether others than this machine may call."""
    return not (
        all(place.loopback for place in http.listen) and all(_here(host) for host in http.hosts)
    )


def _here(host: str) -> bool:
    """Whether a name of `serve.http.hosts` can only mean this machine."""
    name, _, port = host.rpartition(":")
    bare = (name if port.isdigit() and name else host).strip("[]")
    return Listen(host=bare, port=0).loopback


def _check_strangers(config: HostConfig, settings: ServeSettings) -> None:
    """Nobody from elsewhere without credentials; a proxy brings everybody from elsewhere."""
    http = settings.http
    open_to = [place for place in http.listen if not place.loopback]
    named = [host for host in http.hosts if not _here(host)]
    if not guarded(config, settings) and (open_to or named):
        if open_to:
            what = f"listen on {_written(open_to[0])}, which others can reach,"
        else:
            what = f"be called as {named[0]} from elsewhere"
        raise ConfigError(
            f"the host would {what} and ask nobody who they are",
            key="serve.http.listen" if open_to else "serve.http.hosts",
            cure="Make a token (toolcrib tokens new NAME --principal WHO), configure "
            "serve.tokens or serve.jwt, or listen on 127.0.0.1",
        )
    if http.local is not None and (open_to or named):
        _log.warning(
            "callers on this machine are %s without credentials (serve.http.local), and so is "
            "everybody whom a proxy on this machine brings",
            http.local,
        )
    if open_to and http.tls is None:
        _log.warning(
            "%s is reachable by others and has no TLS: tokens can be read on the way, unless a "
            "proxy in front of it speaks https",
            _written(open_to[0]),
        )


def _check_profiles(config: HostConfig, settings: ServeSettings) -> None:
    """Everybody who may come in is held to a profile."""
    http = settings.http
    usual = http.profile or _default(config)
    if usual is not None and usual not in config.profiles:
        raise ConfigError(
            f"there is no profile {usual!r}",
            key="serve.http.profile",
            cure=f"Name one of: {', '.join(config.profiles) or 'none is defined'}",
        )
    if usual is not None:
        return
    cure = "Set serve.http.profile, or host.profile"
    if not config.profiles:
        raise ConfigError(
            "the host has no profile, so its callers would be held to nothing",
            key="profiles",
            cure="Add a profile, and name it in serve.http.profile",
        )
    for token in settings.tokens:
        if token.profile is None and not config.principal_profiles.get(token.principal):
            key = f"serve.tokens.{token.name}.profile"
            raise ConfigError(
                f"the token {token.name} names no profile, and there is no usual one",
                key=key,
                cure=f"Set {key}, or serve.http.profile",
            )
    for issuer in settings.jwt:
        if issuer.profile is None:
            raise ConfigError(
                f"tokens of {issuer.issuer} may name no profile, and there is no usual one",
                key="serve.jwt.profile",
                cure=f"Set profile for this issuer. {cure}",
            )
    people = [who for _, who in http.users] + ([http.local] if http.local is not None else [])
    for who in people:
        if not config.principal_profiles.get(who):
            raise ConfigError(
                f"{who} would be held to no profile", key="serve.http.profile", cure=cure
            )
    if http.unix is not None or not guarded(config, settings):
        raise ConfigError(
            "there are several profiles, and none of them is the usual one",
            key="serve.http.profile",
            cure=cure,
        )


def _default(config: HostConfig) -> str | None:
    if config.settings.profile is not None:
        return config.settings.profile
    return next(iter(config.profiles)) if len(config.profiles) == 1 else None


def _check_issuers(settings: ServeSettings) -> None:
    if not settings.jwt:
        return
    from toolcrib.net.client import missing_library
    from toolcrib.transports.identity.signed import need_library

    need_library()
    cure = missing_library()
    if cure is not None and any(_fetched(issuer) for issuer in settings.jwt):
        raise ConfigError(
            "serve.jwt fetches keys, and the library for HTTP is not installed",
            key="serve.jwt",
            cure=cure,
        )
    for issuer in settings.jwt:
        if not _fetched(issuer) and not Path(str(issuer.jwks)).is_file():
            raise ConfigError(
                f"the keys of {issuer.issuer} are in a file that is not there: {issuer.jwks}",
                key="serve.jwt.jwks",
                cure="Put it there, or name its URL",
            )


def _fetched(issuer: JwtSettings) -> bool:
    return issuer.jwks is None or "://" in issuer.jwks


def _check_user(name: str) -> None:
    if name.isdigit():
        return
    try:
        pwd.getpwnam(name)
    except KeyError:
        raise ConfigError(
            f"there is no system user {name!r}",
            key="serve.http.users",
            cure="Name one that there is, or write its number",
        ) from None


def _check_tls(tls: Tls) -> None:
    for what, file in (("certificate", tls.certificate), ("key", tls.key)):
        if not Path(file).is_file():
            raise ConfigError(
                f"the TLS {what} is not there: {file}",
                key=f"serve.http.tls.{what}",
                cure="Name a file in PEM form; relative paths start at the configuration's folder",
            )
    password = tls.password
    import ssl

    try:
        # A password is given in any case: without one the library asks at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            tls.certificate, tls.key, password=lambda: password or ""
        )
    except (ssl.SSLError, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or "unreadable"
        raise ConfigError(
            f"the TLS certificate and key cannot be used: {why}",
            key="serve.http.tls",
            cure="Check that the key belongs to the certificate, is in PEM form, and its password",
        ) from None


def _written(place: Listen) -> str:
    host = f"[{place.host}]" if ":" in place.host else place.host
    return f"{host}:{place.port}"
