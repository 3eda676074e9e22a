"""Mock tools and mock executors, as the author of an agent uses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib import ToolContext, ToolFailure, ToolHost, ToolResult, ToolSpec, tool
from toolcrib.testing import MockExecutor, MockTool, assert_denied, assert_ok, with_executors


async def test_a_mock_tool_is_called_directly() -> None:
    mock = MockTool(name="test_tool", description="Test tool", return_value="mock result")
    assert (mock.call_count, mock.last_input) == (0, None)
    result = await mock.execute({"required_param": "value"})
    assert result.success
    assert result.output == "mock result"
    assert result.error is None
    assert mock.call_count == 1
    assert mock.last_input == {"required_param": "value"}


async def test_a_mock_tool_is_registered_and_called_through_a_host() -> None:
    mock = MockTool("search", "Looks something up.", return_value=["a", "b"])
    async with ToolHost() as host:
        host.register(mock)
        assert_ok(await host.call("search", {"query": "x"}), ["a", "b"])
        assert_ok(await host.call("search", {"query": "y"}))
        [listed] = host.tools()
    assert (listed.name, listed.description) == ("search", "Looks something up.")
    assert mock.calls == [{"query": "x"}, {"query": "y"}]


async def test_a_mock_tool_has_the_schema_it_is_given() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    mock = MockTool("count", input_schema=schema)
    async with ToolHost([mock]) as host:
        result = await host.call("count", {"n": "many"})
    assert result.reason == "invalid_arguments"
    assert mock.call_count == 0


async def test_inputs_are_remembered_as_they_were() -> None:
    given = {"list": [1]}
    mock = MockTool(side_effect=lambda given: given["list"].append(2))
    await mock.execute(given)
    assert given == {"list": [1, 2]}
    assert mock.last_input == {"list": [1]}


@pytest.mark.parametrize("error", [KeyError("gone"), KeyError])
async def test_a_mock_tool_raises(error: Any) -> None:
    mock = MockTool("broken", side_effect=error)
    with pytest.raises(KeyError):
        await mock.execute({})
    async with ToolHost([mock]) as host:
        assert (await host.call("broken")).reason == "unexpected_failure"
    assert mock.call_count == 2


async def test_a_mock_tool_answers_by_a_function() -> None:
    async def later(input: dict[str, Any]) -> Any:
        return input["n"] + 1

    assert (await MockTool(side_effect=later).execute({"n": 1})).output == 2
    assert (await MockTool(side_effect=len).execute({"n": 1})).output == 1


async def test_a_mock_tool_goes_through_a_list() -> None:
    mock = MockTool(
        "flaky", side_effect=[ToolFailure("busy"), "fine", None, ToolResult(output=[1])]
    )
    async with ToolHost([mock]) as host:
        assert (await host.call("flaky")).reason == "tool_error"
        assert_ok(await host.call("flaky"), "fine")
        assert_ok(await host.call("flaky"), None)
        assert_ok(await host.call("flaky"), [1])
    with pytest.raises(AssertionError, match="flaky was called more often"):
        await mock.execute({})


def test_what_cannot_be_a_side_effect_is_refused() -> None:
    with pytest.raises(TypeError, match="side_effect cannot be a dict"):
        MockTool(side_effect={"a": 1})
    with pytest.raises(TypeError, match="side_effect cannot be a str"):
        MockExecutor("shell", side_effect="boom")


SHELL = ToolSpec(
    name="run_tests",
    kind="shell",
    input_schema={"type": "object", "properties": {"path": {"type": "string", "default": "."}}},
    config={"argv": ["pytest", "{path}"]},
)


async def test_specs_of_any_kind_run_offline() -> None:
    shell, http = MockExecutor("shell", return_value="3 passed"), MockExecutor("http")
    host = with_executors(ToolHost(), shell, http)
    host.register(SHELL)
    host.register(ToolSpec(name="ping", kind="http"))
    async with host:
        assert_ok(await host.call("run_tests"), "3 passed")
        assert_ok(await host.call("ping"), None)
    assert shell.calls == [("run_tests", {"path": "."})]
    assert shell.last_input == {"path": "."}
    assert shell.contexts[0].spec is SHELL
    assert (shell.call_count, http.call_count) == (1, 1)


async def test_a_mock_executor_sees_the_context() -> None:
    def answer(ctx: ToolContext) -> Any:
        assert ctx.spec is not None
        return {"tool": ctx.tool, "who": ctx.principal.name, "argv": ctx.spec.config["argv"]}

    async with with_executors(ToolHost(), MockExecutor("shell", side_effect=answer)) as host:
        host.register(SHELL)
        result = await host.call("run_tests", principal="ann")
    assert_ok(result, {"tool": "run_tests", "who": "ann", "argv": ["pytest", "{path}"]})


async def test_tools_that_are_there_already_are_mocked_too() -> None:
    first, second = MockExecutor("shell", "first"), MockExecutor("shell", "second")
    host = with_executors(ToolHost(), first)
    host.register(SHELL)
    host.register(ToolSpec(name="run_tests", kind="shell", version="2"))

    @tool
    def plain() -> str:
        """Say so."""
        return "python"

    host.register(plain)
    async with with_executors(host, second):
        assert_ok(await host.call("run_tests"), "second")
        assert_ok(await host.call("run_tests@0", {"path": "x"}), "second")
        assert_ok(await host.call("plain"), "python")
    assert first.call_count == 0


async def test_the_tools_of_a_configuration_run_offline_under_its_rules(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.yaml").write_text(
        "version: 1\n"
        "tools:\n"
        "  - name: run_tests\n"
        "    kind: shell\n"
        "    config: {argv: [pytest]}\n"
        "  - name: deploy\n"
        "    kind: shell\n"
        "    config: {argv: [deploy]}\n"
        "profiles:\n"
        "  reviewer:\n"
        "    rules:\n"
        "      - allow: run_tests\n"
    )
    shell = MockExecutor("shell", return_value="ok")
    async with with_executors(ToolHost(config=tmp_path / "toolcrib.yaml"), shell) as host:
        assert_ok(await host.call("run_tests"), "ok")
        assert_denied(await host.call("deploy"), "not_in_profile")
    assert shell.calls == [("run_tests", {})]
