"""What a timeout means, kind by kind: the late effect never happens, or the result says that it
still may."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support import assert_one_ending

import process_functions
from executing import children, descriptors, until
from loopback import Answer, Seen, serve
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
SENT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "http GET": ("GET", "http", {}),
    "http POST": ("POST", "http", {}),
    "http POST, in its own time": ("POST", "http", {"timeout": "150ms"}),
    "openapi POST": ("POST", "openapi", {}),
    "openapi POST, in its own time": ("POST", "openapi", {"timeout": "150ms"}),
}
"""Requests to a server that acts late, unless it is only asked something."""
TRUTH = {
    "sync thread": (True, True),
    "sync generator": (True, False),
    "async": (False, False),
    "process": (False, False),
    "shell": (False, False),
    "shell with children": (False, False),
    "shell that detaches": (False, False),
    "http GET": (False, False),
    "http POST": (True, True),
    "http POST, in its own time": (True, True),
    "openapi POST": (True, True),
    "openapi POST, in its own time": (True, True),
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


def _acts_late(seen: Seen) -> Answer:
    async def act(seen: Seen, writer: asyncio.StreamWriter) -> None:
        asks = seen.method == "GET"
        given = dict(seen.query) if asks else seen.json
        Path(given["ready"]).touch()  # noqa: ASYNC240
        await asyncio.sleep(0.4)
        if not asks:
            Path(given["file"]).touch()  # noqa: ASYNC240

    return act


@asynccontextmanager
async def _host(row: str, timeout: float, folder: Path) -> AsyncIterator[ToolHost]:
    """A host with the tool `slow` of that kind."""
    if row in KINDS:
        async with ToolHost([_spec(row, timeout)]) as host:
            yield host
        return
    method, kind, own = SENT[row]
    async with serve(_acts_late) as server:
        config = {"private": True, **own} if timeout < 1 else {"private": True}
        if kind == "http":
            config |= {"method": method, "url": f"{server.url}/late"}
            effects = frozenset({"read"} if method == "GET" else {"write", "egress"})
            given = None if own and timeout < 1 else timeout
            spec = ToolSpec(name="slow", kind="http", input_schema=PATHS, config=config,
                            effects=effects, timeout=given)  # fmt: skip
            async with ToolHost([spec]) as host:
                yield host
            return
        body = {"required": True, "content": {"application/json": {"schema": PATHS}}}
        paths = {"/late": {"post": {"operationId": "slow", "requestBody": body}}}
        (folder / "api.json").write_text(json.dumps({"openapi": "3.1.0", "paths": paths}))
        config |= {"type": "openapi", "spec": str(folder / "api.json"), "base_url": server.url,
                   "naming": "{operationId}"}  # fmt: skip
        most = "30s" if own else f"{timeout}s"
        async with ToolHost(
            config={"host": {"timeout": most}, "providers": {"api": config}}
        ) as host:
            yield host


def _arguments(row: str, file: Path, ready: Path) -> dict[str, Any]:
    given = {"file": str(file), "ready": str(ready)}
    return {"body": given} if row.startswith("openapi") else given


async def _late(file: Path) -> bool:
    await asyncio.sleep(0.55)
    return file.exists()  # noqa: ASYNC240


@pytest.mark.parametrize("row", TRUTH)
async def test_the_late_effect_never_happens_or_the_result_says_so(
    row: str, tmp_path: Path
) -> None:
    file, ready = tmp_path / "late", tmp_path / "ready"
    before, files = children(), descriptors()
    async with _host(row, 0.15, tmp_path) as host:
        arguments = _arguments(row, file, ready)
        for _ in range(50):
            result = await host.call("slow", arguments)
            assert result.reason == "timeout"
            if file.exists():  # this whole program stood still for so long: that is not late
                file.unlink()
                ready.unlink()
            elif ready.exists():
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
    async with _host(row, 30, tmp_path) as host:
        arguments = _arguments(row, file, ready)
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
    async with _host(row, 0.15, tmp_path) as host:
        result = await host.call("slow", _arguments(row, file, ready))
        assert result.error.retryable is True
    assert not file.exists()


async def test_a_request_that_never_left_has_no_late_effect() -> None:
    """A name that is looked up for ever, a server that does not take the connection."""
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening:
        port = listening.getsockname()[1]
        full = [socket.socket() for _ in range(4)]
        for one in full:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        config = {"method": "POST", "url": f"http://127.0.0.1:{port}/", "private": True}
        spec = ToolSpec(name="post", kind="http", input_schema=schema, config=config,
                        effects=frozenset({"write"}), timeout=0.2)  # fmt: skip
        async with ToolHost([spec]) as host:
            result = await host.call("post", {})
        for one in full:
            one.close()
    assert (result.reason, result.error.still_running) == ("timeout", False)


@pytest.mark.parametrize("retry", [True, False], ids=["idempotent", "once"])
async def test_a_request_on_its_way_is_never_sent_again(retry: bool, tmp_path: Path) -> None:
    file, ready = tmp_path / "late", tmp_path / "ready"
    async with serve(_acts_late) as server:
        spec = ToolSpec(
            name="slow",
            kind="http",
            input_schema=PATHS,
            config={"method": "POST", "url": server.url, "private": True, "timeout": "100ms"},
            effects=frozenset({"write"}),
            idempotent=retry,
            retry=RetryPolicy(attempts=2, backoff=0),
        )
        async with ToolHost([spec]) as host:
            result = await host.call("slow", {"file": str(file), "ready": str(ready)})
        assert (result.reason, result.error.still_running) == ("timeout", not retry)
        assert result.error.retryable is retry
        assert len(server.seen) == (2 if retry else 1)


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
