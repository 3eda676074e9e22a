"""What a timeout means, kind by kind: the late effect never happens, or the result says that it
still may."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import assert_one_ending

import process_functions
from executing import children, descriptors, until
from toolcrib import RetryPolicy, ToolHost, ToolSpec

PATHS = {
    "type": "object",
    "properties": {"file": {"type": "string"}, "ready": {"type": "string"}},
    "required": ["file", "ready"],
    "additionalProperties": False,
}
KIT = str(Path(process_functions.__file__).parent)
SCRIPT = 'touch "$2"; sleep 0.4; touch "$1"'


async def _slow_async(file: str, ready: str) -> str:
    Path(ready).touch()  # noqa: ASYNC240
    await asyncio.sleep(0.4)
    Path(file).touch()  # noqa: ASYNC240
    return "late"


def _slow_sync(file: str, ready: str) -> str:
    Path(ready).touch()
    time.sleep(0.4)
    Path(file).touch()
    return "late"


def _slow_steps(file: str, ready: str) -> Any:
    Path(ready).touch()
    for step in range(40):
        time.sleep(0.01)
        yield step / 40
    Path(file).touch()
    return "late"


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "sync thread": ("python", {"function": _slow_sync}),
    "sync generator": ("python", {"function": _slow_steps}),
    "async": ("python", {"function": _slow_async}),
    "process": (
        "process",
        {"module": "process_functions", "function": "slow_write", "path": [KIT]},
    ),
    "shell": ("shell", {"argv": ["sh", "-c", SCRIPT, "sh", "{file}", "{ready}"]}),
    "shell with children": (
        "shell",
        {"argv": ["sh", "-c", f"({SCRIPT}) & wait", "sh", "{file}", "{ready}"]},
    ),
    "shell that detaches": (
        "shell",
        {"argv": ["sh", "-c", f"setsid sh -c '{SCRIPT}' sh \"$1\" \"$2\" & wait", "sh", "{file}",
                  "{ready}"]},
    ),
}  # fmt: skip
TRUTH = {
    "sync thread": (True, True),
    "sync generator": (True, False),
    "async": (False, False),
    "process": (False, False),
    "shell": (False, False),
    "shell with children": (False, False),
    "shell that detaches": (False, False),
}
"""Whether the result says that the work goes on, and whether the late effect happens."""


def _spec(row: str, timeout: float) -> ToolSpec:
    kind, config = KINDS[row]
    return ToolSpec(
        name="slow",
        kind=kind,
        input_schema=PATHS,
        config=config,
        effects=frozenset({"read"}),
        timeout=timeout,
        retry=RetryPolicy(attempts=2, backoff=0, retry_on=frozenset()),
    )


async def _late(file: Path) -> bool:
    await asyncio.sleep(0.55)
    return file.exists()  # noqa: ASYNC240


@pytest.mark.parametrize("row", TRUTH)
async def test_the_late_effect_never_happens_or_the_result_says_so(
    row: str, tmp_path: Path
) -> None:
    file, ready = tmp_path / "late", tmp_path / "ready"
    before, files = children(), descriptors()
    async with ToolHost([_spec(row, 0.15)]) as host:
        arguments = {"file": str(file), "ready": str(ready)}
        for _ in range(50):
            result = await host.call("slow", arguments)
            assert result.reason == "timeout"
            if ready.exists():
                break
        else:
            pytest.fail("it never began: this shows nothing")
        assert (result.error.still_running, await _late(file)) == TRUTH[row]
        ending = await assert_one_ending(host, result.call_id)
        assert bool(ending.data.get("still_running")) is TRUTH[row][0]
    await until(lambda: (children(), descriptors()) == (before, files))


@pytest.mark.parametrize("row", TRUTH)
async def test_a_cancelled_call_is_held_to_the_same(row: str, tmp_path: Path) -> None:
    file, ready = tmp_path / "late", tmp_path / "ready"
    async with ToolHost([_spec(row, 30)]) as host:
        arguments = {"file": str(file), "ready": str(ready)}
        call = asyncio.ensure_future(host.call("slow", arguments, call_id="c1"))
        await until(ready.exists)
        host.cancel("c1")
        result = await call
        assert result.reason == "cancelled"
        assert (result.error.still_running, await _late(file)) == TRUTH[row]


@pytest.mark.parametrize(
    "row", [row for row, (goes_on, _) in TRUTH.items() if not goes_on], ids=str
)
async def test_work_that_was_stopped_may_be_tried_again(row: str, tmp_path: Path) -> None:
    file, ready = tmp_path / "late", tmp_path / "ready"
    async with ToolHost([_spec(row, 0.15)]) as host:
        result = await host.call("slow", {"file": str(file), "ready": str(ready)})
        assert result.error.retryable is True
    assert not file.exists()


@pytest.mark.parametrize("end", ["stop", "cancel"])
async def test_stopping_the_host_ends_what_its_tools_started(
    end: str, tmp_path: Path, checked: Callable[[], None]
) -> None:
    file, ready = tmp_path / "late", tmp_path / "ready"
    host = ToolHost([_spec("process", 30)], config={"host": {"drain": "10ms"}})
    async with host:
        arguments = {"file": str(file), "ready": str(ready)}
        call = asyncio.ensure_future(host.call("slow", arguments, call_id="c1"))
        await until(ready.exists)
        if end == "cancel":
            host.cancel("c1")
    result = await call
    assert result.status == "error"
    assert await _late(file) is False
    checked()


@pytest.fixture
def checked() -> Callable[[], None]:
    before = children()

    def check() -> None:
        assert children() == before

    return check
