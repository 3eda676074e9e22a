"""Stand-ins for tools and executors that remember how they were called."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Entry
from toolcrib.core.result import ToolResult

if TYPE_CHECKING:
    from toolcrib.core.protocols import Executor
    from toolcrib.host.host import ToolHost

_ANYTHING: Mapping[str, Any] = {"type": "object"}


class _Effect:
    """What a mock does when called: gives a value, raises, asks a function, or one of a row."""

    def __init__(self, return_value: Any, side_effect: object) -> None:
        self._value = return_value
        self._effect = side_effect
        self._row: Iterator[object] | None = None
        if isinstance(side_effect, list | tuple):
            self._row = iter(cast("Sequence[object]", side_effect))
        elif side_effect is not None and not _is_error(side_effect) and not callable(side_effect):
            raise TypeError(
                f"side_effect cannot be a {type(side_effect).__name__}. "
                "Give an exception, a function, or a list of what happens call by call"
            )

    async def happen(self, argument: Any, who: str) -> Any:
        """One call: give a value, or raise."""
        effect = self._effect
        if self._row is not None:
            try:
                effect = next(self._row)
            except StopIteration:
                raise AssertionError(
                    f"{who} was called more often than its side_effect has items"
                ) from None
            if not _is_error(effect) and not callable(effect):
                return effect
        if effect is None:
            return self._value
        if _is_error(effect):
            raise effect
        value: Any = cast("Callable[[Any], Any]", effect)(argument)
        return await value if inspect.isawaitable(value) else value


def _is_error(value: object) -> TypeGuard[BaseException | type[BaseException]]:
    return isinstance(value, BaseException) or (
        isinstance(value, type) and issubclass(value, BaseException)
    )


class MockTool:
    """A tool that returns `return_value` and remembers its inputs.

    Register it with a host or a coordinator, or call `execute` directly. `side_effect` is an
    exception to raise, a function of the input, or a list of values and exceptions, one a call.
    """

    def __init__(
        self,
        name: str = "mock_tool",
        description: str = "A mock tool.",
        return_value: Any = None,
        *,
        side_effect: Any = None,
        input_schema: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.return_value = return_value
        self.input_schema: dict[str, Any] = dict(
            _ANYTHING if input_schema is None else input_schema
        )
        self.calls: list[dict[str, Any]] = []
        """The input of each call, oldest first."""
        self._effect = _Effect(return_value, side_effect)

    def __repr__(self) -> str:
        return f"<MockTool {self.name}, {self.call_count} calls>"

    @property
    def call_count(self) -> int:
        """How often it was called."""
        return len(self.calls)

    @property
    def last_input(self) -> dict[str, Any] | None:
        """The input of the newest call; None when there was none."""
        return self.calls[-1] if self.calls else None

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Remember `input`, and end as the mock was told to."""
        self.calls.append(copy.deepcopy(input))
        value = await self._effect.happen(input, f"the mock tool {self.name}")
        return value if isinstance(value, ToolResult) else ToolResult(output=value)


class MockExecutor:
    """Runs calls of one kind without doing anything, so that any spec can be tested offline.

    `side_effect` is as with `MockTool`; a function receives the `ToolContext`.
    """

    def __init__(self, kind: str, return_value: Any = None, *, side_effect: Any = None) -> None:
        self.kind = kind
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """Tool and arguments of each call, oldest first."""
        self.contexts: list[ToolContext] = []
        """The context of each call, for what else a test wants to know of it."""
        self._effect = _Effect(return_value, side_effect)

    def __repr__(self) -> str:
        return f"<MockExecutor of {self.kind}, {self.call_count} calls>"

    @property
    def call_count(self) -> int:
        """How often it was called."""
        return len(self.calls)

    @property
    def last_input(self) -> dict[str, Any] | None:
        """The arguments of the newest call; None when there was none."""
        return self.calls[-1][1] if self.calls else None

    async def execute(self, ctx: ToolContext) -> Any:
        """Remember the call, and end as the mock was told to."""
        self.calls.append((ctx.tool, copy.deepcopy(ctx.arguments)))
        self.contexts.append(ctx)
        return await self._effect.happen(ctx, f"the mock executor of {self.kind}")


def with_executors(host: ToolHost, *executors: Executor) -> ToolHost:
    """`host` with these executors in place of those of the same kind, for the tools it has
    already and for those that are registered later."""
    for executor in executors:
        host.entries.executors[executor.kind] = executor
        for name in host.catalog.snapshot():
            for version in host.catalog.versions(name):
                entry = host.catalog.version(name, version)
                if entry is not None and entry.spec.kind == executor.kind:
                    host.catalog.register(_rebound(entry, executor), replace=True)
    return host


def _rebound(entry: Entry, executor: Executor) -> Entry:
    return Entry(
        entry.spec,
        executor.execute,
        owner=entry.owner,
        policy=entry.policy,
        defaults=entry.defaults,
    )
