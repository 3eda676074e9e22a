"""What `toolcrib serve` is to serve: a project, or nothing but the tools brought along."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from toolcrib.cli.output import Mistake, say
from toolcrib.cli.plain import Serve
from toolcrib.cli.project import find_config, open_project
from toolcrib.core.serving import Listen, ServeSettings
from toolcrib.core.settings import HostConfig
from toolcrib.errors import ConfigError
from toolcrib.host.config import config_from_mapping, load_config

if TYPE_CHECKING:
    from toolcrib.cli.host_tools import HostTools
    from toolcrib.cli.importing import Imported
    from toolcrib.host.host import ToolHost

ALONE = "no toolcrib.yaml"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is served, and how to read it again."""

    name: str
    """The configuration's file, or that there is none."""
    config: HostConfig
    """As it was read first."""
    read: Callable[[], HostConfig]
    """Reads it again, for reloads."""
    tools: HostTools | None
    """What was brought along, if anything was."""
    store: str
    trail: str
    """Where the trail is kept, in words."""

    def host(self, **options: Any) -> ToolHost:
        """The host, loaded. Raises `ConfigError` with every mistake."""
        from toolcrib.host.host import ToolHost

        # What is brought along comes first: rules of the configuration may speak of it.
        things = () if self.tools is None else self.tools.things
        read: Any = self.read
        host = ToolHost(things, config=read, store=self.store, **options)
        host.load()
        return host

    def settings(self, typed: Serve) -> ServeSettings:
        """What the configuration says of doors, with what was typed in its stead."""
        profile, listen, unix = typed.profile, typed.listen, typed.unix
        if profile is not None:
            from toolcrib.cli.profiles import check_profile

            check_profile(profile, self.config.profiles)
        serving = self.config.serving
        http = replace(
            serving.http,
            listen=serving.http.listen if listen is None else _addresses(listen),
            unix=serving.http.unix if unix is None else str(Path(unix).absolute()),
            profile=profile or serving.http.profile,
            console=serving.http.console and not typed.no_console,
        )
        stdio = replace(serving.stdio, profile=profile or serving.stdio.profile)
        return replace(serving, http=http, stdio=stdio)


def plan_for(typed: Serve) -> Plan:
    """The plan; without a configuration there have to be tools that were brought along."""
    tools = _brought(typed)
    imported = _imported(typed.imports)

    def whole(read: HostConfig) -> HostConfig:
        for more in (tools, imported):
            read = read if more is None else more.added_to(read)
        return _held(read, typed.frozen)

    try:
        path = find_config(typed.config)
    except Mistake:
        if typed.config is not None or (tools is None and imported is None):
            raise
        return _alone(tools, imported, typed.frozen)
    project = open_project(str(path))
    project.prepare()
    kept = project.store
    unread = [project.written]
    return Plan(
        name=str(path),
        config=project.config if imported is None else imported.added_to(project.config),
        read=lambda: whole(unread.pop() if unread else load_config(path)),
        tools=tools,
        store=project.config.settings.store or "memory",
        trail="kept until the host stops: host.store is memory" if kept is None else _here(kept),
    )


def _alone(tools: HostTools | None, imported: Imported | None, frozen: bool) -> Plan:
    """The plan for what was brought along and nothing else."""
    from toolcrib.cli.host_tools import HostTools, config_for

    tools = tools or HostTools([], [])
    made = config_for(tools) if imported is None else tools.added_to(imported.alone())
    config = _held(made, frozen)
    return Plan(
        name=ALONE,
        config=config,
        read=lambda: config,
        tools=tools,
        store="memory",
        trail="kept until the host stops: there is no toolcrib.yaml",
    )


def _brought(typed: Serve) -> HostTools | None:
    """The tools of `--host-tools` and `--host-tools-module`."""
    if not (typed.host_tools or typed.host_tools_module):
        return None
    from toolcrib.cli.host_tools import gather

    return gather(typed.host_tools, typed.host_tools_module)


def _imported(given: Sequence[str]) -> Imported | None:
    """What `--import` takes over, with what was left out said; None where nothing was given."""
    if not given:
        return None
    from toolcrib.cli.importing import gather_imports

    found = gather_imports(given)
    for note in found.notes:
        say(note)
    return found


def _held(config: HostConfig, frozen: bool) -> HostConfig:
    """The configuration, with the lock frozen if that was typed."""
    if not frozen:
        return config
    return replace(config, settings=replace(config.settings, lock="frozen"))


def _addresses(given: str) -> tuple[Listen, ...]:
    """`--listen` as `serve.http.listen` is read."""
    value: Any = int(given) if given.isdecimal() else given
    try:
        return config_from_mapping({"serve": {"http": {"listen": value}}}).serving.http.listen
    except ConfigError as error:
        cure = f". {error.cure}" if error.cure else ""
        message = error.message.replace("serve.http.listen", "--listen")
        raise Mistake(f"{message}{cure}") from None


def _here(path: Path) -> str:
    shown = os.path.relpath(path)
    return str(path) if shown.startswith("..") else shown
