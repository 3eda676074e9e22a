"""The tasks extension: tools whose work goes on after the answer.

The SDK does not have it, so it is written here at JSON level, as middleware.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from blocks import form, text
from call import Call, InputNeeded
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp.types import MISSING_REQUIRED_CLIENT_CAPABILITY
from tools import content, tool

EXTENSION = "io.modelcontextprotocol/tasks"
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_ENDED = ("completed", "failed", "cancelled")
_METHODS = ("tasks/get", "tasks/update", "tasks/cancel")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Asking(Protocol):
    """What work can do while it goes on."""

    async def ask(self, key: str, request: dict[str, Any]) -> Any: ...


class AtOnce:
    """Work for a client that knows no tasks: it waits for the answer."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def ask(self, key: str, request: dict[str, Any]) -> Any:
        return (await self._call.ask({key: request}))[key]


class Task:
    """Work that was promised."""

    def __init__(self, work: Work, arguments: dict[str, Any]) -> None:
        self.id = secrets.token_urlsafe(16)
        self.status = "working"
        self.ended: dict[str, Any] = {}
        self.created = self.changed = _now()
        self._questions: dict[str, tuple[Any, asyncio.Future[Any]]] = {}
        self._running = asyncio.create_task(self._run(work, arguments))

    async def _run(self, work: Work, arguments: dict[str, Any]) -> None:
        try:
            self.end("completed", result=await work(self, arguments))
        except MCPError as error:
            self.end("failed", error={"code": error.code, "message": error.message})

    def end(self, status: str, **more: Any) -> None:
        if self.status not in _ENDED:
            self.status, self.ended, self.changed = status, more, _now()

    async def ask(self, key: str, request: dict[str, Any]) -> Any:
        """Wait for the client to answer a question by `tasks/update`."""
        answered = asyncio.get_running_loop().create_future()
        self._questions[key] = (request, answered)
        self.status = "input_required"
        return await answered

    def answer(self, responses: dict[str, Any]) -> None:
        for key in responses.keys() & self._questions.keys():
            self._questions.pop(key)[1].set_result(responses[key])
        if not self._questions and self.status == "input_required":
            self.status = "working"

    def cancel(self) -> None:
        self._running.cancel()
        self.end("cancelled")

    def shown(self) -> dict[str, Any]:
        """What everybody may know of it: the promise, without how it ended."""
        return {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created,
            "lastUpdatedAt": self.changed,
            "ttlMs": 60_000,
            "pollIntervalMs": 50,
        }

    def detailed(self) -> dict[str, Any]:
        asked = {key: request for key, (request, _) in self._questions.items()}
        more = {"inputRequests": asked} if self.status == "input_required" else self.ended
        return {"resultType": "complete", **self.shown(), **more}


Work = Callable[[Asking, dict[str, Any]], Awaitable[dict[str, Any]]]
_TASKS: dict[str, Task] = {}
_WORK: dict[str, tuple[Work, bool]] = {}


def work(name: str, *, required: bool = False, **properties: Any) -> Callable[[Work], Work]:
    """Offer work as a tool; `required`: only to clients that know tasks."""

    def offer(done: Work) -> Work:
        async def at_once(call: Call) -> dict[str, Any]:
            return await done(AtOnce(call), dict(call.arguments))

        at_once.__doc__ = done.__doc__
        tool(name, {"type": "object", "properties": properties})(at_once)
        _WORK[name] = (done, required)
        return done

    return offer


@tool("greet", {"type": "object", "properties": {"name": {"type": "string"}}})
async def greet(call: Call) -> dict[str, Any]:
    """Greets at once."""
    return content(text(f"Hello, {call.arguments['name']}!"))


@work("slow_compute", seconds={"type": "number"}, label={"type": "string"})
async def slow_compute(task: Asking, arguments: dict[str, Any]) -> dict[str, Any]:
    """Takes as many seconds as wanted."""
    await asyncio.sleep(arguments.get("seconds", 0))
    return content(text(f"computed {arguments.get('label', '')}"))


@work("failing_job", required=True)
async def failing_job(task: Asking, arguments: dict[str, Any]) -> dict[str, Any]:
    """Fails in its own words."""
    return {**content(text("The job failed.")), "isError": True}


@work("protocol_error_job")
async def protocol_error_job(task: Asking, arguments: dict[str, Any]) -> dict[str, Any]:
    """Fails without a result."""
    raise MCPError(-32603, "The job broke.")


@work("confirm_delete", filename={"type": "string"})
async def confirm_delete(task: Asking, arguments: dict[str, Any]) -> dict[str, Any]:
    """Asks before it deletes nothing."""
    answer = await task.ask("confirm", form("Delete it?", confirm={"type": "boolean"}))
    return content(text(f"{arguments.get('filename')}: {json.dumps(answer)}"))


@work("multi_input")
async def multi_input(task: Asking, arguments: dict[str, Any]) -> dict[str, Any]:
    """Asks for two things at once."""
    name = form("What is your name?", name={"type": "string"})
    sure = form("Are you sure?", confirm={"type": "boolean"})
    answers = await asyncio.gather(task.ask("name", name), task.ask("sure", sure))
    return content(text(json.dumps(answers)))


@work("test_tool_with_task", required=True)
async def greet_later(task: Asking, arguments: dict[str, Any]) -> dict[str, Any]:
    """Asks for a name, and greets it later."""
    return content(text(f"Hello, {arguments['name']}!"))


async def tasks(ctx: Any, call_next: CallNext) -> HandlerResult:
    """Answers what is about tasks, and leaves the rest to the others."""
    params = ctx.params or {}
    declared = (params.get("_meta") or {}).get(_CAPABILITIES) or {}
    able = EXTENSION in (declared.get("extensions") or {})
    if ctx.method in _METHODS:
        if not able:
            raise _missing()
        return _about(ctx, params)
    if ctx.method == "tools/call" and params.get("name") in _WORK:
        done, required = _WORK[params["name"]]
        if able:
            return await _promised(ctx, done)
        if required:
            raise _missing()
    return await call_next(ctx)


def _missing() -> MCPError:
    needed = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs the tasks extension.", needed)


def _about(ctx: Any, params: dict[str, Any]) -> dict[str, Any]:
    named = ctx.request.headers.get("mcp-name") if ctx.request is not None else None
    if named is not None and named != params.get("taskId"):
        raise MCPError(-32020, "Mcp-Name is not the task's id.")
    task = _TASKS.get(params.get("taskId", ""))
    if task is None:
        raise MCPError(-32602, "There is no such task.")
    if ctx.method == "tasks/get":
        return task.detailed()
    if ctx.method == "tasks/update":
        task.answer(params.get("inputResponses") or {})
    else:
        task.cancel()
    return {"resultType": "complete"}


async def _promised(ctx: Any, done: Work) -> dict[str, Any]:
    call = Call(ctx)
    arguments = dict(call.arguments)
    if done is greet_later:
        question = form("What is your name?", name={"type": "string"})
        try:
            answer = (await call.ask({"user_name": question}))["user_name"]
        except InputNeeded as needed:
            return needed.result
        arguments = answer.get("content") or {}
    task = Task(done, arguments)
    _TASKS[task.id] = task
    return {"resultType": "task", **task.shown()}
