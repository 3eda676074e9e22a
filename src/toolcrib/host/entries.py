"""Turning what users register (functions, specs, objects, classes) into catalog entries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toolcrib.catalog.decorator import Definition, define
from toolcrib.catalog.signature import Signature, describe
from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Entry, Execute
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.schema import admit, fill_defaults
from toolcrib.core.spec import ToolScope, ToolSpec, ToolTemplate
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError, SpecError
from toolcrib.executors.python import (
    PythonExecutor,
    arrived,
    from_object,
    handled,
    handler,
)
from toolcrib.host.kinds import BUILTIN
from toolcrib.host.tool import Tool
from toolcrib.host.workshop import Own, Sandboxes, Workshop

if TYPE_CHECKING:
    from toolcrib.core.protocols import Binder, Executor, Sandbox


_log = logging.getLogger("toolcrib")


class _Read(msgspec.Struct, frozen=True):
    """A function, read once."""

    signature: Signature
    execute: Execute
    first: str | None
    """The parameter that takes all arguments, in a function written `handler(input, context)`."""
    handler: Execute | None


class Entries:
    """Makes entries; knows the executors by kind."""

    def __init__(
        self,
        python: PythonExecutor,
        own: Own = None,
        keep_secret: Callable[[str], None] | None = None,
    ) -> None:
        self.python = python
        self.executors: dict[str, Executor] = {}
        self.retired: list[Executor] = []
        """Those in whose place others came; calls that they run may still go on."""
        self.workshop: Callable[[str | None], Workshop] = lambda folder: Workshop(
            Sandboxes(), folder, own, keep_secret=keep_secret
        )
        """What whoever builds a tool is lent, for paths that begin in `folder`."""
        self._known: dict[tuple[Callable[..., Any], bool], _Read] = {}

    def make(self, thing: Any, *, owner: str | None = None) -> Entry:
        """The entry for a function, spec, definition, tool object or class."""
        if isinstance(thing, Entry):
            return thing
        if isinstance(thing, ToolSpec):
            return self.from_spec(thing, owner=owner)
        if isinstance(thing, Definition):
            return self.from_definition(thing, owner=owner)
        if isinstance(thing, ToolTemplate):
            return self.from_template(thing, owner=owner)
        if isinstance(thing, Tool):
            return self._from_bound(thing, owner)
        if not isinstance(thing, type) and _is_tool_object(thing):
            return self._from_object(thing, owner)
        if callable(thing):
            return self.from_definition(define(thing), owner=owner)
        raise SpecError(
            f"{type(thing).__name__} cannot be a tool",
            cure="Register a function, a ToolSpec, or an object with name, description and execute",
        )

    def from_definition(
        self,
        definition: Definition,
        *,
        owner: str | None = None,
        policy: ToolPolicy | None = None,
    ) -> Entry:
        """The entry of a Python function or class."""
        spec, signature = definition.spec, definition.signature
        if spec.input_schema is not signature.input_schema:
            admit(spec.input_schema)
        if isinstance(definition.function, type) or spec.scope is ToolScope.SESSION:
            execute = self._per_session(definition)
        else:
            execute = self.python.bind(definition.function, signature, inline=definition.inline)
        return Entry(
            spec,
            execute,
            owner=owner or definition.owner,
            policy=policy or definition.policy,
            defaults=signature.defaults,
            convert=signature.convert,
        )

    def from_template(
        self,
        template: ToolTemplate,
        knobs: Mapping[str, Any] | None = None,
        *,
        overrides: Mapping[str, Any] | None = None,
        owner: str | None = None,
        folder: str | None = None,
    ) -> Entry:
        """The entry of a broad tool under a policy; `overrides` are fields of its spec."""
        policy = template.policy(**{**template.knobs, **(knobs or {})})
        lent = self.workshop(folder)
        try:
            thing = template.build(policy, lent)
        except ConfigError:
            raise
        except Exception as error:
            raise _broken(f"the template {template.name} could not be built", error) from error

        def places(other: ToolPolicy) -> tuple[Sandbox, ...]:
            again = self.workshop(folder)
            template.build(other, again)
            return tuple(again.taken.values())

        taken = lent.taken.values()
        if isinstance(thing, ToolSpec) or not callable(thing):
            return self.make(thing, owner=owner).under(policy).within(taken, places)
        given: dict[str, Any] = {"name": template.name, **(overrides or {}), "policy": type(policy)}
        if owner is not None:
            given["source"] = owner
        made = self.from_definition(define(thing, **given), owner=owner, policy=policy)
        return made.within(taken, places)

    def _per_session(self, definition: Definition) -> Execute:
        """Run on the session's own instance; a call without a session gets one for itself."""
        signature, inline, bind = definition.signature, definition.inline, self.python.bind

        async def execute(ctx: ToolContext) -> Any:
            session = cast("Any", ctx.session)
            if session is not None:
                instance = await session.instance(execute, definition.function, ctx)
                return await bind(instance, signature, inline=inline)(ctx)
            built = definition.function(ctx)
            instance = await arrived(built)
            try:
                return await bind(instance, signature, inline=inline)(ctx)
            finally:
                await close_instance(instance)

        return execute

    def _from_factory(self, factory: Callable[[ToolContext], Any]) -> Execute:
        """Run on what a spec's `factory(ctx)` builds: something to call, or with `execute`."""

        async def run(instance: Any, ctx: ToolContext) -> Any:
            if _is_tool_object(instance) or not callable(instance):
                return await from_object(instance)(ctx)
            return await self._read(instance, inline=False).execute(ctx)

        async def execute(ctx: ToolContext) -> Any:
            session = cast("Any", ctx.session)
            if session is not None:
                return await run(await session.instance(execute, factory, ctx), ctx)
            instance = await arrived(factory(ctx))
            try:
                return await run(instance, ctx)
            finally:
                await close_instance(instance)

        return execute

    def from_spec(
        self,
        spec: ToolSpec,
        *,
        owner: str | None = None,
        policy: ToolPolicy | None = None,
        folder: str | None = None,
    ) -> Entry:
        """The entry of a spec that came as data; its kind finds the executor."""
        admit(spec.input_schema)
        if spec.output_schema is not None:
            admit(spec.output_schema, where="output_schema")
        owner = owner or spec.source or f"spec {spec.name}"
        defaults = fill_defaults(spec.input_schema)
        if spec.factory is not None:
            execute = self._from_factory(spec.factory)
            return Entry(spec, execute, owner=owner, policy=policy, defaults=defaults)
        executor = self._executor(spec.kind)
        if executor is not None and hasattr(executor, "bind"):
            lent = self.workshop(folder)
            execute = _bound(cast("Binder", executor), spec, lent)
            entry = Entry(spec, execute, owner=owner, policy=policy, defaults=defaults)
            return entry.within(lent.taken.values())
        if executor is not None:
            return Entry(spec, executor.execute, owner=owner, policy=policy, defaults=defaults)
        if spec.kind == "python":
            return self._from_module(spec, owner, policy, defaults)
        known = sorted({"python", *BUILTIN, *self.executors})
        close = did_you_mean(spec.kind, known)
        raise SpecError(
            f"tool {spec.name}: nothing runs the kind {spec.kind!r}",
            cure=f"Did you mean {close}?" if close else f"Known kinds: {', '.join(known)}",
        )

    async def close(self) -> None:
        """Let go of what executors hold open."""
        self.python.close()
        for executor in (*self.executors.values(), *self.retired):
            close = getattr(executor, "aclose", None)
            if close is None:
                continue
            try:
                await arrived(close())
            except Exception:  # the others still have to be closed
                _log.exception("closing what runs the kind %s failed", executor.kind)

    def _executor(self, kind: str) -> Executor | None:
        """What runs a kind; the built-in ones are made when first needed."""
        found = self.executors.get(kind)
        if found is None and kind in BUILTIN:
            found = self.executors[kind] = BUILTIN[kind]()
        return found

    def _from_module(
        self,
        spec: ToolSpec,
        owner: str,
        policy: ToolPolicy | None,
        defaults: Mapping[str, Any] | None,
    ) -> Entry:
        function = spec.config.get("function")
        if not callable(function):
            function = import_function(spec)
        read = self._read(function, bool(spec.config.get("inline", False)))
        properties = spec.input_schema.get("properties", {})
        if read.handler is not None and read.first not in properties:
            return Entry(spec, read.handler, owner=owner, policy=policy, defaults=defaults)
        own = read.signature.defaults
        merged = {**own, **(defaults or {})} if own else defaults
        return Entry(
            spec,
            read.execute,
            owner=owner,
            policy=policy,
            defaults=merged or None,
            convert=read.signature.convert,
        )

    def _read(self, function: Callable[..., Any], inline: bool) -> _Read:
        """What there is to know about a function; many specs may name the same one."""
        known = type(function).__hash__ is not None  # some callable objects cannot be kept
        read = self._known.get((function, inline)) if known else None
        if read is None:
            signature = describe(function)
            execute = self.python.bind(function, signature, inline=inline)
            first = handled(function)
            whole = None if first is None else handler(function)
            read = _Read(signature, execute, first, whole)
            if known:
                self._known[function, inline] = read
            if len(self._known) > 1000:
                self._known.pop(next(iter(self._known)))
        return read

    def _from_object(self, thing: Any, owner: str | None) -> Entry:
        found: Any = getattr(thing, "input_schema", None)
        if not found and callable(getattr(thing, "get_schema", None)):
            found = thing.get_schema()
        # Older tools of that protocol take arguments and describe none: they are not refused.
        found = found or getattr(thing, "parameters", None) or {"type": "object"}
        schema: dict[str, Any] = dict(found)
        admit(schema)
        spec = ToolSpec(
            name=thing.name,
            description=str(getattr(thing, "description", "") or ""),
            input_schema=schema,
            effects=getattr(thing, "effects", None),
            idempotent=bool(getattr(thing, "idempotent", False)),
            timeout=getattr(thing, "timeout", None),
            tags=getattr(thing, "tags", None) or frozenset(),
            category=getattr(thing, "category", None),
            requires_approval=bool(getattr(thing, "requires_approval", False)),
            source=owner,
        )
        return Entry(
            spec,
            from_object(thing),
            owner=owner or f"{type(thing).__module__}.{type(thing).__qualname__}",
            defaults=fill_defaults(schema),
        )

    def _from_bound(self, tool: Tool, owner: str | None) -> Entry:
        """A tool of another host: that host's rules apply too."""

        async def execute(ctx: ToolContext) -> Any:
            return await tool.call(ctx.arguments)

        return Entry(tool.spec, execute, owner=owner or "another host")


def _bound(executor: Binder, spec: ToolSpec, workshop: Workshop) -> Execute:
    """What runs the calls of a spec. Executors may be anybody's: what they do wrong is told here,
    and not when a call comes."""
    what = f"tool {spec.name}: the executor of kind {spec.kind!r}"
    try:
        execute: Any = executor.bind(spec, workshop)
    except ConfigError:
        raise
    except Exception as error:
        raise _broken(f"{what} could not read it", error) from error
    if not callable(execute):
        text = f"{what} gave a {type(execute).__name__} and nothing that runs calls"
        raise SpecError(text, cure="Its bind(spec, workshop) has to return an async function")
    return cast("Execute", execute)


def _broken(what: str, error: Exception) -> SpecError:
    """That somebody's code failed. Not in its words: they may quote a secret."""
    cure = "That is a mistake of its author's, not of the configuration's"
    return SpecError(f"{what}: {type(error).__name__}", cure=cure)


def import_function(spec: ToolSpec) -> Callable[..., Any]:
    """The function that a spec's config names by module and function."""
    import importlib

    module = spec.config.get("module")
    name = spec.config.get("function") or spec.config.get("function_name")
    if not isinstance(module, str) or not isinstance(name, str):
        raise SpecError(
            f"tool {spec.name}: a python tool needs module and function",
            cure="Write config: {module: package.module, function: name}",
        )
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SpecError(f"tool {spec.name}: {module}:{name} cannot be imported: {error}") from None
    if not callable(found):
        raise SpecError(f"tool {spec.name}: {module}:{name} is not a function")
    return cast("Callable[..., Any]", found)


def _is_tool_object(thing: object) -> bool:
    return isinstance(getattr(thing, "name", None), str) and callable(
        getattr(thing, "execute", None)
    )


async def close_instance(instance: Any) -> None:
    """Close what a session-scoped tool was built as, if it can be closed."""
    close = getattr(instance, "aclose", None) or getattr(instance, "close", None)
    if callable(close):
        await arrived(close())
