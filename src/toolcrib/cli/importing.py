"""`serve --import`: the MCP servers of other programs' files, taken over as providers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from toolcrib.cli.clients import CLIENTS
from toolcrib.cli.output import Mistake
from toolcrib.core.settings import HostConfig
from toolcrib.errors import ConfigError
from toolcrib.host.config import config_from_mapping
from toolcrib.host.config.document import parse_document, parse_json
from toolcrib.host.config.node import Origin

PROFILE = "imported"
"""The profile of a host that has no configuration."""
_HOLDERS = ("mcpServers", "servers", "context_servers", "extensions")
"""Where programs keep their servers."""
_URLS = ("url", "httpUrl", "serverUrl", "uri")
_TRANSPORTS = {"sse": "sse", "http": "http", "streamable-http": "http", "streamableHttp": "http",
               "streamable_http": "http"}  # fmt: skip
_READ = frozenset(
    (*_URLS, "command", "cmd", "args", "env", "envs", "cwd", "headers", "type", "transport",
     "disabled", "enabled", "source", "name", "description")
)  # fmt: skip
_OURS = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?/mcp(/.*)?").fullmatch
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")
_ENV = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_INPUT = re.compile(r"\$\{input:[^}]*\}")


class Imported(NamedTuple):
    """What was found."""

    providers: dict[str, dict[str, Any]]
    notes: list[str]
    """What was left out, in words."""

    def added_to(self, config: HostConfig) -> HostConfig:
        """A configuration with these providers, too. Raises `ConfigError`."""
        for name in self.providers.keys() & config.providers.keys():
            raise Mistake(f"--import: the configuration has a provider {name} already. Rename one")
        made = config_from_mapping({"providers": self.providers})
        return replace(
            config,
            providers={**config.providers, **made.providers},
            secrets=config.secrets | made.secrets,
        )

    def alone(self) -> HostConfig:
        """The configuration of a host that has nothing else: whatever they offer may be called, as
        in the program that they come from."""
        rules = {PROFILE: {"trust": 1, "rules": [{"allow": "*"}]}}
        bare = config_from_mapping({"host": {"profile": PROFILE}, "profiles": rules})
        return self.added_to(bare)


def gather_imports(given: Iterable[str]) -> Imported:
    """The servers of these files; a client's name stands for the file it reads."""
    found = Imported({}, [])
    for each in given:
        path = _file(each)
        servers = _servers(_read(path), path)
        if not servers:
            places = ", ".join(_HOLDERS)
            raise Mistake(f"--import: {path} has no MCP servers; they stand under {places}")
        for name, entry in servers.items():
            _take(found, path, name, entry)
    return found


def _file(given: str) -> Path:
    client = CLIENTS.get(given)
    path = Path(given) if client is None or Path(given).exists() else client.file()
    if not path.is_file():
        known = f"a file, or one of: {', '.join(CLIENTS)}"
        raise Mistake(f"--import: there is no file {path}. Name {known}")
    return path


def _read(path: Path) -> Mapping[str, Any]:
    from toolcrib.host.loaders.jsonc import without_comments  # with it come all loaders

    try:
        text = path.read_text("utf-8")
        origin = Origin(str(path), str(path), path.parent)
        if path.suffix in (".yaml", ".yml"):
            root = parse_document(text, origin)
        else:
            root = parse_json(without_comments(text), origin)
    except OSError as error:
        raise Mistake(f"--import: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Mistake(f"--import: {path} is not UTF-8") from None
    except ConfigError as error:
        raise Mistake(f"--import: {error}") from None
    value = None if root is None else root.plain()
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _servers(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """All that the file has for this folder."""
    found: dict[str, Any] = {}
    projects = _mapping(document.get("projects"))
    for place in (document, _mapping(document.get("mcp")), _mapping(projects.get(str(Path.cwd())))):
        for holder in _HOLDERS:
            found |= _mapping(place.get(holder))
    return found


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _take(found: Imported, path: Path, name: str, given: Any) -> None:
    entry = _mapping(given)
    where = f"{path}: {name}"
    if entry.get("disabled") is True or entry.get("enabled") is False:
        found.notes.append(f"{where} is switched off there")
        return
    if entry.get("type") in ("builtin", "platform", "frontend", "inline_python"):
        found.notes.append(f"{where} is a part of that program and no MCP server")
        return
    made = _provider(entry, where)
    if made is None:
        found.notes.append(f"{where} leads to a Toolcrib host and is left out")
        return
    fitting = _UNFIT.sub("_", name).strip("_.-")
    if not fitting:
        raise Mistake(f"--import: {where}: give it a name of letters and digits")
    if fitting != name:
        found.notes.append(f"{where} is called {fitting} here")
    if fitting in found.providers:
        raise Mistake(f"--import: two servers are called {fitting}; the second is in {path}")
    found.providers[fitting] = made
    left = sorted(entry.keys() - _READ)
    if left:
        found.notes.append(f"{where}: {', '.join(left)} of that program is not read")


def _provider(entry: Mapping[str, Any], where: str) -> dict[str, Any] | None:
    """The settings of a provider; None for one that is us."""
    inner = _mapping(entry.get("command"))  # one program nests what belongs to the command
    entry = {**entry, **inner, "command": inner["path"]} if "path" in inner else entry
    made: dict[str, Any] = {"type": "mcp"}
    url = next((entry[key] for key in _URLS if entry.get(key)), None)
    command = entry.get("command") or entry.get("cmd")
    if (url is None) == (command is None):
        raise Mistake(f"--import: {where} needs a command or a url, and not both")
    if url is None:
        words = cast("list[Any]", command if isinstance(command, list) else [command])
        made["command"] = [*words, *(entry.get("args") or ())]
        url = next(
            (word for word in made["command"][1:] if isinstance(word, str) and _OURS(word)), ""
        )
        for key, other in (("env", "envs"), ("cwd", "cwd")):
            if value := entry.get(key) or entry.get(other):
                made[key] = value
    else:
        made["url"] = url
        told = entry.get("type") or entry.get("transport")
        if told in _TRANSPORTS:
            made["transport"] = _TRANSPORTS[told]
        if headers := entry.get("headers"):
            made["headers"] = headers
    if isinstance(url, str) and _OURS(url):
        return None
    return cast("dict[str, Any]", _each_text(made, lambda text: _variables(text, where)))


def _variables(text: str, where: str) -> str:
    if _INPUT.search(text):
        cure = "Put the value into a variable of the environment and write ${NAME}"
        raise Mistake(f"--import: {where} asks a person for a value ({text}). {cure}")
    text = text.replace("${workspaceFolder}", str(Path.cwd()))
    return _ENV.sub(r"${\1}", text)


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_each_text(item, change) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _each_text(item, change) for key, item in items}
    return value
