"""A module written for a coordinator, tested without a kernel."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import ToolHost, ToolResult
from toolcrib.testing import MockTool, TestCoordinator, assert_ok


class Greeter:
    """A tool as a module brings it."""

    name = "greet"
    description = "Greets."

    def __init__(self, config: dict[str, Any]) -> None:
        self.word = config.get("word", "Hello")

    def get_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"who": {"type": "string"}},
            "required": ["who"],
        }

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(output=f"{self.word}, {input['who']}")


async def mount(coordinator: Any, config: dict[str, Any]) -> Any:
    """What a module's entry point does."""
    greeter = Greeter(config)
    await coordinator.mount("tools", greeter, name="my-greeter")
    coordinator.register_contributor(
        "observability.events", "greeter", lambda: ["greeter:started", "greeter:completed"]
    )
    return greeter


async def test_a_module_mounts_its_tool() -> None:
    coordinator = TestCoordinator()
    greeter = await mount(coordinator, {"word": "Hi"})
    assert coordinator.get("tools") == {"my-greeter": greeter}
    assert coordinator.get("tools", "my-greeter") is greeter
    assert coordinator.get("tools", "other") is None
    assert coordinator.get("providers") == {}
    result = await coordinator.get("tools")["my-greeter"].execute({"who": "Ann"})
    assert result.output == "Hi, Ann"


async def test_the_mapping_of_tools_is_live() -> None:
    coordinator = TestCoordinator()
    tools = coordinator.get("tools")
    mock = MockTool("a")
    await coordinator.mount("tools", mock)
    assert tools == {"a": mock}
    await coordinator.unmount("tools", "a")
    await coordinator.unmount("tools", "a")
    assert tools == {}


async def test_a_module_needs_a_name() -> None:
    with pytest.raises(ValueError, match="a object at 'tools' needs a name"):
        await TestCoordinator().mount("tools", object())


async def test_contributions_are_collected() -> None:
    async def later() -> list[str]:
        return ["b:done"]

    coordinator = TestCoordinator()
    await mount(coordinator, {})
    coordinator.register_contributor("observability.events", "b", later)
    coordinator.register_contributor("observability.events", "none", lambda: None)
    assert await coordinator.collect_contributions("observability.events") == [
        ["greeter:started", "greeter:completed"],
        ["b:done"],
    ]
    assert await coordinator.collect_contributions("other") == []


async def test_a_tool_runs_with_its_events_around_it() -> None:
    coordinator = TestCoordinator()
    await coordinator.mount("tools", MockTool("echo", return_value="said"))
    heard: list[str] = []

    async def later(event: str, data: dict[str, Any]) -> None:
        heard.append(f"{event} {data['tool_name']}")

    stop = coordinator.hooks.on("tool:pre", lambda event, data: heard.append(event))
    coordinator.hooks.on("tool:post", later)
    result = await coordinator.execute("echo", {"a": 1})
    assert result.output == "said"
    assert heard == ["tool:pre", "tool:post echo"]
    stop()
    stop()
    await coordinator.execute("echo")
    assert heard == ["tool:pre", "tool:post echo", "tool:post echo"]
    assert coordinator.emitted[1] == (
        "tool:post",
        {"tool_name": "echo", "tool_input": {"a": 1}, "tool_response": result},
    )


async def test_a_failure_is_an_error_event() -> None:
    coordinator = TestCoordinator()
    await coordinator.mount("tools", MockTool("raises", side_effect=ValueError("no such row")))
    failed = ToolResult(status="error")
    await coordinator.mount("tools", MockTool("fails", return_value=failed))
    result = await coordinator.execute("raises")
    assert (result.success, result.reason) == (False, "tool_error")
    assert await coordinator.execute("fails") is failed
    assert [event for event, _ in coordinator.emitted] == ["tool:pre", "tool:error"] * 2
    assert coordinator.emitted[1][1]["error"] == {"message": "no such row", "type": "ValueError"}


async def test_an_unknown_tool_is_named_with_the_known_ones() -> None:
    coordinator = TestCoordinator()
    await coordinator.mount("tools", MockTool("echo"))
    with pytest.raises(LookupError, match="no tool 'ecko' is mounted; mounted: echo"):
        await coordinator.execute("ecko")


async def test_handlers_answer() -> None:
    coordinator = TestCoordinator()
    coordinator.on("tool:pre", lambda event, data: "deny")
    assert await coordinator.emit("tool:pre", {"tool_name": "x"}) == ["deny"]
    assert await coordinator.emit("other") == []


async def test_mounted_tools_are_governed_by_a_host() -> None:
    coordinator = TestCoordinator({"word": "Hej"})
    await mount(coordinator, coordinator.config)
    async with ToolHost(coordinator.get("tools").values()) as host:
        assert_ok(await host.call("greet", {"who": "Ann"}), "Hej, Ann")
        assert (await host.call("greet", {})).reason == "invalid_arguments"
