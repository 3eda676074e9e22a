"""The one front door: what is importable from `toolcrib`, and what importing it does not do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import toolcrib
from toolcrib import (
    Decision,
    Event,
    Explanation,
    Failure,
    Principal,
    Profile,
    RetryPolicy,
    Step,
    ToolPolicy,
    ToolResult,
    ToolSpec,
)

ROOT = Path(__file__).parents[2]


def run(code: str, folder: Path) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout


def test_the_public_names_are_sorted_and_all_of_them_can_be_had() -> None:
    assert toolcrib.__all__ == sorted(toolcrib.__all__)
    for name in toolcrib.__all__:
        thing = getattr(toolcrib, name)
        assert thing.__doc__, f"{name} has no docstring"
        assert thing.__name__ == name
    assert set(toolcrib.__all__) < set(dir(toolcrib))


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'toolcrib' has no attribute 'Toolhost'"):
        toolcrib.Toolhost  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


HEAVY = [
    "aiohttp", "click", "fastapi", "httpx", "jsonschema_rs", "mcp", "opentelemetry",
    "prometheus_client", "pydantic", "pytest", "rich", "ruamel", "sqlite3", "starlette", "uvicorn",
]  # fmt: skip

LOOK = """
import json, logging, os, sys, threading
before = set(os.listdir("."))
handlers = list(logging.getLogger().handlers)
{what}
loaded = {{name.partition(".")[0] for name in sys.modules}}
print(json.dumps({{
    "loaded": sorted(loaded),
    "threads": threading.active_count(),
    "files": sorted(set(os.listdir(".")) - before),
    "logging": handlers != logging.getLogger().handlers or logging.getLogger("toolcrib").handlers,
    "asyncio": "asyncio" in loaded,
}}))
"""


@pytest.mark.parametrize(
    "what", ["import toolcrib", "from toolcrib import ToolHost, tool\nToolHost()"]
)
def test_importing_it_loads_starts_and_writes_nothing(what: str, tmp_path: Path) -> None:
    seen = json.loads(run(LOOK.format(what=what), tmp_path))
    assert [name for name in HEAVY if name in seen["loaded"]] == []
    assert (seen["threads"], seen["files"], bool(seen["logging"])) == (1, [], False)


def test_the_package_alone_does_not_even_load_asyncio(tmp_path: Path) -> None:
    assert json.loads(run(LOOK.format(what="import toolcrib"), tmp_path))["asyncio"] is False


FROZEN = [
    Principal("ann"),
    ToolSpec(name="add"),
    RetryPolicy(),
    Profile(name="p"),
    ToolResult(),
    Failure(reason="tool_error", message="no"),
    Decision.allow(),
    Step(gate="profile", verdict="allow"),
    Explanation(tool="t", principal="p", profile=None, verdict="allow"),
    Event(id="r.1.0", type="host.started", time=0.0),
    ToolPolicy(),
]


@pytest.mark.parametrize("thing", FROZEN, ids=lambda thing: type(thing).__name__)
def test_what_crosses_a_boundary_does_not_change(thing: object) -> None:
    names = getattr(thing, "__struct_fields__", None) or getattr(thing, "__slots__", ("x",))
    with pytest.raises(AttributeError):
        setattr(thing, names[0] if names else "x", "changed")


def test_a_result_is_the_same_json_on_every_door() -> None:
    result = ToolResult(call_id="c1", output=3)
    assert json.loads(msgspec.json.encode(result)) == result.to_dict()
    assert list(result.to_dict()) == [
        "call_id", "status", "output", "content", "error", "truncated", "metadata",
    ]  # fmt: skip


TYPED = """
from toolcrib import ToolContext, ToolHost, tool

@tool
def add(a: int, b: int) -> int:
    return a + b

@tool(effects=["read"])
async def look(name: str, ctx: ToolContext) -> list[str]:
    return [name]

reveal_type(add)
reveal_type(look)
reveal_type(add(1, 2))
add("1", 2)

async def main() -> None:
    async with ToolHost([add, look]) as host:
        reveal_type(await host.call("add", {"a": 1}))
"""


WRONG = (
    'Argument of type "Literal[\'1\']" cannot be assigned to parameter "a" of type "int" in '
    'function "add"'
)


def test_a_tool_keeps_the_type_of_its_function(tmp_path: Path) -> None:
    page = tmp_path / "typed.py"
    page.write_text(TYPED)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "-p", str(tmp_path)], check=False, capture_output=True, text=True, cwd=ROOT
    )
    said = {
        entry["range"]["start"]["line"]: entry["message"].splitlines()[0]
        for entry in json.loads(done.stdout)["generalDiagnostics"]
    }
    assert list(said.values()) == [
        'Type of "add" is "(a: int, b: int) -> int"',
        'Type of "look" is "(name: str, ctx: ToolContext) -> CoroutineType[Any, Any, list[str]]"',
        'Type of "add(1, 2)" is "int"',
        WRONG,
        'Type of "await host.call("add", { "a": 1 })" is "ToolResult"',
    ]
