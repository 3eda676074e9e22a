"""`--host-tools` and `--host-tools-module`: tools that a host application brings along."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import msgspec

from toolcrib.catalog.decorator import is_marked
from toolcrib.core.settings import HostConfig
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, SpecError
from toolcrib.host.config import config_from_mapping
from toolcrib.host.modules import load_module

PROFILE = "host-tools"
"""The profile of a host that has no configuration."""
_OPTIONAL = ("scope", "category", "requires_approval", "timeout")


class HostTools(msgspec.Struct, frozen=True):
    """What was brought along."""

    things: list[Any]
    """What a host registers: functions, specs, objects."""
    files: list[str]
    """Files with descriptions of tools, which a host loads with its configuration."""

    def added_to(self, config: HostConfig) -> HostConfig:
        """A configuration that loads these files, too."""
        if not self.files:
            return config
        from msgspec.structs import replace

        items = [{"load": file} for file in self.files]
        return replace(config, tools=(*config.tools, *config_from_mapping({"tools": items}).tools))


class Registry:
    """What `setup_host_tools(registry)` is given. `await registry.register(…)` works, too."""

    def __init__(self) -> None:
        self.tools: list[Any] = []

    def register(self, tool: Any) -> _Done:
        """Bring a tool along: a function, a `ToolSpec`, or a definition with a handler."""
        self.tools.append(tool)
        return _Done()


class _Done:
    """Nothing is left to wait for."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


def gather(files: Iterable[str], modules: Iterable[str]) -> HostTools:
    """The tools of these files and modules. Raises `ConfigError`."""
    found = HostTools([], [])
    for file in files:
        path = Path(file)
        if not path.is_file():
            raise SpecError(f"--host-tools: there is no file {file}", cure="Name one that is there")
        if path.suffix == ".py":
            found.things.extend(_tools_of(load_module(str(path.absolute()), None), file))
        else:
            found.files.append(str(path.absolute()))
    for name in modules:
        try:
            module = load_module(name, str(Path.cwd()))
        except SpecError as error:
            cure = error.cure or "It is looked for in this folder and among what is installed"
            raise SpecError(f"--host-tools-module: {error.message}", cure=cure) from error
        found.things.extend(_tools_of(module, name))
    return found


def _tools_of(module: ModuleType, name: str) -> Sequence[Any]:
    """What a module marks with @tool, lists in HOST_TOOLS, and registers in setup_host_tools."""
    marked = [
        thing
        for thing in vars(module).values()
        if is_marked(thing) and getattr(thing, "__module__", None) == module.__name__
    ]
    listed = cast("Iterable[Any]", getattr(module, "HOST_TOOLS", ()))
    registry = Registry()
    setup = getattr(module, "setup_host_tools", None)
    if setup is not None:
        try:
            done = setup(registry)
            if inspect.isawaitable(done):
                asyncio.run(_awaited(done))
        except ConfigError:
            raise
        except Exception as error:
            raise SpecError(
                f"{name}: setup_host_tools failed: {type(error).__name__}: {error}"
            ) from error
    found: dict[int, Any] = {id(thing): thing for thing in (*marked, *listed, *registry.tools)}
    if not found:
        raise SpecError(
            f"{name} has no tool",
            cure="Mark a function with @tool, list tools in HOST_TOOLS, or register them in "
            "setup_host_tools(registry)",
        )
    return [_as_tool(thing, name) for thing in found.values()]


async def _awaited(work: Any) -> None:
    await work


def _as_tool(thing: Any, name: str) -> Any:
    """A definition with `handler(input, context)` and `parameters` as the spec it means."""
    handler = getattr(thing, "handler", None)
    if isinstance(thing, ToolSpec) or not callable(handler):
        return thing
    given = {key: getattr(thing, key) for key in _OPTIONAL if getattr(thing, key, None) is not None}
    return ToolSpec(
        name=thing.name,
        description=str(getattr(thing, "description", "") or ""),
        input_schema=getattr(thing, "parameters", None) or {"type": "object"},
        config={"function": handler},
        source=name,
        **given,
    )


def config_for(tools: HostTools) -> HostConfig:
    """The configuration of a host that has nothing but these tools: a profile allows just them."""
    from toolcrib.host.host import ToolHost

    bare = tools.added_to(config_from_mapping({}))
    trial = ToolHost(tools.things, config=bare)
    trial.load()
    names = sorted(trial.catalog.snapshot())
    rules = {PROFILE: {"trust": 1, "rules": [{"allow": names}]}}
    made = config_from_mapping({"host": {"profile": PROFILE}, "profiles": rules})
    return tools.added_to(made)
