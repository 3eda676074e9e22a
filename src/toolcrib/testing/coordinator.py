"""A coordinator for modules written as `mount(coordinator, config)`, without a kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from toolcrib.core.result import ToolResult

TOOL_EVENTS = ("tool:pre", "tool:post", "tool:error")
"""What an agent loop says around each tool: before it, after it, and when it failed."""

Handler = Callable[[str, dict[str, Any]], Any]


class TestCoordinator:
    """Holds what modules mount, and says what a session's coordinator would say.

    `get("tools")` is the live mapping of names to tools. `execute` runs a mounted tool as an
    agent loop does, with `tool:pre` before it and `tool:post` or `tool:error` behind it.
    """

    __test__: ClassVar[bool] = False  # its name begins with Test, and it is none

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        self.config = dict(config or {})
        self.emitted: list[tuple[str, dict[str, Any]]] = []
        """Every event that was emitted, oldest first."""
        self._mounted: dict[str, dict[str, Any]] = {}
        self._contributors: dict[str, dict[str, Callable[[], Any]]] = {}
        self._handlers: dict[str, list[Handler]] = {}

    async def mount(self, point: str, module: Any, name: str | None = None) -> None:
        """Put a module at a mount point such as `tools`; its own name is the default."""
        chosen = name if name is not None else getattr(module, "name", None)
        if not isinstance(chosen, str) or not chosen:
            raise ValueError(
                f"a {type(module).__name__} at {point!r} needs a name. "
                "Pass name=, or give the module a `name`"
            )
        self._mounted.setdefault(point, {})[chosen] = module

    async def unmount(self, point: str, name: str) -> None:
        """Take a module away; nothing happens when there is none of that name."""
        self._mounted.get(point, {}).pop(name, None)

    def get(self, point: str, name: str | None = None) -> Any:
        """All modules at a mount point by name, or one of them; None when there is none."""
        modules = self._mounted.setdefault(point, {})
        return modules if name is None else modules.get(name)

    def register_contributor(self, channel: str, name: str, callback: Callable[[], Any]) -> None:
        """Have `callback` asked when a channel's contributions are collected."""
        self._contributors.setdefault(channel, {})[name] = callback

    async def collect_contributions(self, channel: str) -> list[Any]:
        """What the contributors of a channel give, in the order they came; None is left out."""
        found: list[Any] = []
        for callback in self._contributors.get(channel, {}).values():
            given = callback()
            if inspect.isawaitable(given):
                given = await given
            if given is not None:
                found.append(given)
        return found

    def on(self, event: str, handler: Handler) -> Callable[[], None]:
        """Have `handler(event, data)` called when `event` is emitted; returns how to stop."""
        handlers = self._handlers.setdefault(event, [])
        handlers.append(handler)

        def stop() -> None:
            if handler in handlers:
                handlers.remove(handler)

        return stop

    async def emit(self, event: str, data: dict[str, Any] | None = None) -> list[Any]:
        """Tell the handlers of `event`, one after the other; gives what they returned."""
        told = dict(data or {})
        self.emitted.append((event, told))
        answers: list[Any] = []
        for handler in list(self._handlers.get(event, ())):
            answer = handler(event, told)
            answers.append(await answer if inspect.isawaitable(answer) else answer)
        return answers

    @property
    def hooks(self) -> TestCoordinator:
        """Where modules emit events and listen to them: this object itself."""
        return self

    async def execute(self, name: str, input: dict[str, Any] | None = None) -> Any:
        """Run a mounted tool as an agent loop does. What it raises becomes a failed result."""
        tool = self.get("tools", name)
        if tool is None:
            known = ", ".join(self.get("tools")) or "none"
            raise LookupError(f"no tool {name!r} is mounted; mounted: {known}")
        given = dict(input or {})
        await self.emit("tool:pre", {"tool_name": name, "tool_input": given})
        try:
            result: Any = await tool.execute(given)
        except Exception as error:
            problem = {"message": str(error), "type": type(error).__name__}
            await self.emit(
                "tool:error", {"tool_name": name, "tool_input": given, "error": problem}
            )
            return _failed(problem)
        ended = "tool:post" if getattr(result, "success", True) else "tool:error"
        data = {"tool_name": name, "tool_input": given, "tool_response": result}
        if ended == "tool:error":
            data["error"] = getattr(result, "error", None)
        await self.emit(ended, data)
        return result


def _failed(problem: dict[str, str]) -> ToolResult:
    from toolcrib.core.result import Failure

    return ToolResult(
        status="error",
        error=Failure(
            reason="tool_error", message=problem["message"], details={"type": problem["type"]}
        ),
    )
