"""Tools that run in this client and are called by the host, under the host's rules."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from toolcrib.client.answers import encoded
from toolcrib.client.errors import Refused
from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Entry
from toolcrib.core.policy import NoPolicy
from toolcrib.core.result import ToolResult
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial, NameTaken, SpecError, ToolcribError, ToolFailure
from toolcrib.executors.python import PythonExecutor
from toolcrib.host.entries import Entries
from toolcrib.pipeline.shaping import NotJson, plain
from toolcrib.transports.models import ClientAnswer, ClientCall, ClientTool

if TYPE_CHECKING:
    from toolcrib.client.rpc import RpcLink

_log = logging.getLogger("toolcrib")
_Key = tuple[str | None, str]
"""The session that a tool is offered to, None for that of the connection, and its name."""
_GUARDS = ("permissions", "requires_secrets", "requires_tools", "conflicts_with")
_BROKEN = "the tool failed; the log of the client that runs it has the details"


class Offers:
    """The tools of one client: what was offered, and what runs."""

    def __init__(self, link: RpcLink) -> None:
        self._link = link
        self._python = PythonExecutor()
        self._entries = Entries(self._python)
        self._tools: dict[_Key, Entry] = {}
        self._running: dict[str, asyncio.Task[ClientAnswer]] = {}

    async def add(self, thing: Any, *, replace: bool, session: str | None) -> None:
        """Offer a function, a marked one or a tool object. Raises `SpecError`, `NameTaken`."""
        entry = self._entries.make(thing)
        _check(entry)
        key = session, entry.name
        before = self._tools.get(key)
        if before is not None and not replace:
            raise NameTaken(
                f"this client offers a tool {entry.name!r} already",
                cure="Choose another name, or replace=True",
            )
        self._tools[key] = entry  # the first call may come before the answer
        try:
            await self._link.ask("tools.register", _registration([entry], replace, session))
        except BaseException:
            if before is None:
                del self._tools[key]
            else:
                self._tools[key] = before
            raise

    async def remove(self, name: str, *, session: str | None) -> bool:
        """Offer it no longer; calls that run finish."""
        if (session, name) not in self._tools:
            return False
        await self._link.ask("tools.unregister", _given({"names": [name]}, session))
        self._tools.pop((session, name), None)
        return True

    def forget(self, session: str) -> None:
        """A session has ended."""
        self._tools = {key: entry for key, entry in self._tools.items() if key[0] != session}

    async def renew(self) -> None:
        """Offer everything again, on a new connection."""
        for session in dict.fromkeys(session for session, _ in self._tools):
            every = [entry for key, entry in self._tools.items() if key[0] == session]
            # The host may not have noticed yet that the old connection is gone.
            asked = _registration(every, session is not None, session)
            try:
                await self._link.request("tools.register", asked)
            except Refused as error:
                _log.warning("tools of this client are not offered any more: %s", error)
                if session is not None:
                    self.forget(session)

    def cancel(self, call_id: str) -> None:
        """The host does not want the answer any more."""
        task = self._running.get(call_id)
        if task is not None:
            task.cancel()

    def stop(self) -> None:
        """Stop what runs: nobody waits for it."""
        for task in self._running.values():
            task.cancel()

    def close(self) -> None:
        """Stop what runs, and let the threads go."""
        self.stop()
        self._python.close()

    async def answer(self, id: int | str, params: dict[str, Any]) -> None:
        """Run what the host asks for, and send what it gave."""
        try:
            call = msgspec.convert(params, ClientCall)
        except msgspec.ValidationError as error:
            await self._link.post(
                encoded(
                    {"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": str(error)}}
                )
            )
            return
        work = self._running[call.call_id] = asyncio.ensure_future(self._run(call))
        try:
            answer = await work
        except asyncio.CancelledError:
            work.cancel()
            if not work.done():
                raise  # the client is closed
            return  # nobody wants the answer any more
        finally:
            self._running.pop(call.call_id, None)
        await self._link.post(encoded({"jsonrpc": "2.0", "id": id, "result": answer}))

    async def _run(self, call: ClientCall) -> ClientAnswer:
        entry = self._tools.get((call.session, call.tool))
        if entry is None:
            return _failed(f"this client offers no tool {call.tool!r}", "unknown_tool")
        try:
            context = self._context(entry, call)
            return _answer(await entry.execute(context))
        except Denial as error:
            return _failed(error.message or error.reason, error.reason)
        except ToolFailure as error:
            return _failed(error.message, error.reason)
        except NotJson as error:
            return _failed(str(error), "invalid_output")
        except Exception:
            _log.exception("the tool %s failed in this client", call.tool)
            return _failed(_BROKEN, "unexpected_failure")

    def _context(self, entry: Entry, call: ClientCall) -> ToolContext:
        arguments = {**(entry.defaults or {}), **call.arguments}
        context = ToolContext(
            tool=call.tool, arguments=arguments, call_id=call.call_id, spec=entry.spec
        )
        context.session = None
        context.door = "client"
        context.runtime = _Voice(self._link)
        if call.timeout is not None:
            context.deadline = time.monotonic() + call.timeout
        if entry.convert is not None:
            try:
                context.typed = entry.convert(arguments)
            except Exception as error:  # a class of the author's may raise anything
                text = str(getattr(error, "message", error))
                raise ToolFailure(text, reason="invalid_arguments") from None
        return context


class _Voice:
    """What a tool that runs here can reach of its host."""

    def __init__(self, link: RpcLink) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()

    def announce(self, ctx: ToolContext, type: str, data: dict[str, Any]) -> None:
        """Progress goes to the host, log lines to the log; from any thread."""
        if type == "call.progress":
            said = {"call_id": ctx.call_id, **data}
            self._loop.call_soon_threadsafe(self._say, said)
        else:
            _log.info("%s of call %s: %s", type, ctx.call_id, data)

    def _say(self, said: dict[str, Any]) -> None:
        self._link.start(self._link.notify("client.progress", said))

    async def nested(
        self,
        ctx: ToolContext,
        name: str,
        arguments: Mapping[str, Any] | None,
        timeout: float | None,
    ) -> NoReturn:
        """The authority of the call stays in the host, so it cannot be handed on from here."""
        raise ToolcribError(
            f"{ctx.tool} runs in a client and cannot use ctx.call; call {name} through the client"
        )


def _check(entry: Entry) -> None:
    """Refuse what asks for a check that only the host that owns a tool makes."""
    spec = entry.spec
    lost = [name for name in _GUARDS if getattr(spec, name)]
    if spec.policy is not NoPolicy or entry.policy is not None:
        lost.append("policy")
    if lost:
        raise SpecError(
            f"tool {spec.name}: {', '.join(lost)} would not be checked for a tool that runs in a "
            "client",
            cure="Register it in the host, or leave the guarding to the host's profiles",
        )


def _registration(entries: list[Entry], replace: bool, session: str | None) -> dict[str, Any]:
    tools = [_described(entry.spec) for entry in entries]
    return _given({"tools": tools, "replace": replace}, session)


def _given(params: dict[str, Any], session: str | None) -> dict[str, Any]:
    return params if session is None else {**params, "session": session}


def _described(spec: ToolSpec) -> ClientTool:
    return ClientTool(
        name=spec.name,
        description=spec.description,
        title=spec.title,
        input_schema=dict(spec.input_schema),
        output_schema=None if spec.output_schema is None else dict(spec.output_schema),
        effects=None if spec.effects is None else sorted(spec.effects),
        idempotent=spec.idempotent,
        timeout=spec.timeout,
        category=spec.category,
        tags=sorted(spec.tags),
        requires_approval=spec.requires_approval,
    )


def _answer(value: Any) -> ClientAnswer:
    if isinstance(value, ToolResult):
        if value.error is not None:
            return _failed(value.error.message, value.error.reason)
        return ClientAnswer(output=plain(value.output)[0], content=value.content)
    return ClientAnswer(output=plain(value)[0])


def _failed(message: str, reason: str) -> ClientAnswer:
    return ClientAnswer(error=message, reason=reason)
