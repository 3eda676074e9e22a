"""The entries of one item of `tools:`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from toolcrib.catalog.decorator import define, is_marked
from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Entry, Unavailable
from toolcrib.core.policy import NoPolicy, ToolPolicy
from toolcrib.core.spec import RetryPolicy, ToolSpec
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError, SpecError
from toolcrib.host.entries import import_function
from toolcrib.host.modules import Importable, load_module

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost

OWNED = "configuration"


def entries_of(host: ToolHost, item: Mapping[str, Any]) -> list[Entry]:
    """The entries of one item of `tools:`."""
    if item.get("enabled") is False:
        return [_switched_off(item)] if item.get("name") else []
    owner = str(item.get("source") or OWNED)
    if "python" in item:
        return _from_python(host, item, owner)
    if "template" in item:
        return [_from_template(host, item, owner)]
    fields = _fields(item, owner)
    config = dict(item.get("config") or {})
    for name in ("module", "function"):
        if item.get(name) is not None:
            config.setdefault(name, item[name])
    kind = fields.get("kind", "python")
    if kind == "python" and str(config.get("module", "")).endswith(".py"):
        module = load_module(str(config["module"]), item.get("base"))
        config["function"] = _function(module, str(config.get("function")))
    fields["config"] = config
    if isinstance(config.get("command"), str):
        fields["input_schema"] = _all_needed(item.get("input_schema") or {}, config["command"])
    with Importable(item.get("base")):
        spec = ToolSpec(**fields)
        declared = None
        if spec.kind == "python" and ("policy" in item or "input_schema" not in item):
            function: Any = config.get("function")
            if not callable(function):
                config["function"] = function = import_function(spec)
            read = define(function).spec
            declared = read.policy
            for name in ("input_schema", "description"):
                fields.setdefault(name, getattr(read, name))
            spec = ToolSpec(**fields)
        policy = _policy(host, item, declared)
        if policy is not None:
            spec = ToolSpec(**fields, policy=type(policy))
        folder = item.get("base")
        return [host.entries.from_spec(spec, owner=owner, policy=policy, folder=folder)]


def _all_needed(schema: Mapping[str, Any], command: str) -> Mapping[str, Any]:
    """A command written as one text has no place for an argument to be left out from: where the
    schema does not say which arguments are required, those it speaks of are."""
    if "required" in schema:
        return schema
    known: Mapping[str, Any] = schema.get("properties") or {}
    return {**schema, "required": [n for n in re.findall(r"\{(\w+)\}", command) if n in known]}


def _switched_off(item: Mapping[str, Any]) -> Entry:
    """A tool that is known and cannot be called."""

    async def execute(ctx: ToolContext) -> None:
        ctx.deny("tool_disabled")

    down = Unavailable("tool_disabled", "the tool is switched off", time.time())
    owner = str(item.get("source") or OWNED)
    spec = ToolSpec(name=str(item["name"]), description=str(item.get("description") or ""))
    return Entry(spec, execute, owner=owner, unavailable=down)


def _from_python(host: ToolHost, item: Mapping[str, Any], owner: str) -> list[Entry]:
    module = load_module(str(item["python"]), item.get("base"))
    wanted = item.get("function") or item.get("name")
    found: dict[str, Callable[..., Any]] = {
        name: thing
        for name, thing in vars(module).items()
        if is_marked(thing) and getattr(thing, "__module__", None) == module.__name__
    }
    if wanted is not None:
        found = {str(wanted): found.get(str(wanted)) or _function(module, str(wanted))}
    if not found:
        raise SpecError(f"{item['python']} has no @tool", cure="Mark a function with @tool")
    entries: list[Entry] = []
    for thing in found.values():
        overrides = _fields(item, None) if wanted is not None else {}
        definition = define(thing, **overrides)
        policy = _policy(host, item, definition.spec.policy) or definition.policy
        if policy is not None and type(policy) is not definition.spec.policy:
            definition = define(thing, **overrides, policy=type(policy))
        entries.append(host.entries.from_definition(definition, policy=policy))
    return entries


def _function(module: ModuleType, name: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if not callable(found):
        close = did_you_mean(name, vars(module))
        raise SpecError(
            f"{module.__file__} has no function {name!r}",
            cure=f"Did you mean {close}?" if close else None,
        )
    return cast("Callable[..., Any]", found)


def _from_template(host: ToolHost, item: Mapping[str, Any], owner: str) -> Entry:
    name = str(item["template"])
    find = host.registrar.templates.get(name)
    if find is None:
        raise unknown("template", name, host.registrar.templates)
    with _in_policy():
        return host.entries.from_template(
            find(),
            item.get("policy"),
            overrides=_fields(item, None),
            owner=owner,
            folder=item.get("base"),
        )


_SPEC_FIELDS = (
    "name", "description", "title", "kind", "input_schema", "output_schema", "effects",
    "idempotent", "scope", "timeout", "version", "category", "tags", "permissions",
    "requires_approval", "requires_secrets", "requires_tools", "conflicts_with", "annotations",
)  # fmt: skip


def _fields(item: Mapping[str, Any], owner: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        name: item[name] for name in _SPEC_FIELDS if item.get(name) is not None
    }
    retry = item.get("retry")
    if retry is not None:
        fields["retry"] = retry if isinstance(retry, RetryPolicy) else RetryPolicy(**retry)
    if owner is not None:
        fields["source"] = owner
    return fields


def _policy(
    host: ToolHost, item: Mapping[str, Any], declared: type[ToolPolicy] | None
) -> ToolPolicy | None:
    """The policy an item configures: one of its own class, or a named one with `use`."""
    knobs = item.get("policy")
    if knobs is None:
        return None
    knobs = dict(knobs)
    name = knobs.pop("use", None)
    if name is not None:
        kind = host.registrar.policies.get(str(name))
        if kind is None:
            raise unknown("policy", str(name), host.registrar.policies)
        with _in_policy():
            return kind(**knobs)
    if declared is None or declared is NoPolicy:
        raise ConfigError(
            "the tool has no policy to set", cure="Name one with policy: {use: NAME, …}"
        )
    with _in_policy():
        return declared(**knobs)


@contextmanager
def _in_policy() -> Generator[None]:
    """A mistake in a knob stands below `policy`: that is where its line is known."""
    try:
        yield
    except ConfigError as error:
        if error.key is not None and error.file is None:
            error.key = f"policy.{error.key}"
        raise


def unknown(
    what: str, name: str, known: Mapping[str, Any], owner: str | None = None
) -> ConfigError:
    """That a configuration names something nobody brought."""
    close = did_you_mean(name, known)
    place = f" (of {owner})" if owner else ""
    cure = f"Did you mean {close}?" if close else f"Known: {', '.join(sorted(known)) or 'none'}"
    return ConfigError(f"there is no {what} {name!r}{place}", cure=cure)
