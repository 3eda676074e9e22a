"""`toolcrib calls tail` and `toolcrib approvals watch`: what happens while one looks on."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from toolcrib.cli.output import Mistake, clock, put, put_lines, say, took
from toolcrib.cli.project import me
from toolcrib.host.history import CallSummary, Wanted

if TYPE_CHECKING:
    from toolcrib.approvals.terminal import TerminalApprover
    from toolcrib.cli.source import Requests, Source
    from toolcrib.core.approval import ApprovalRequest
    from toolcrib.core.events import Event


def tail_calls(source: Source, wanted: Wanted, as_json: bool) -> None:
    """Print every call as it ends, whichever process runs it, until interrupted."""
    asyncio.run(_tail(source, wanted, _put_json_call if as_json else _put_call))


async def _tail(source: Source, wanted: Wanted, show: Callable[[CallSummary], None]) -> None:
    received: dict[str | None, Event] = {}
    async with source.endings() as events:
        say("Following calls. Ctrl-C stops.")
        async for event in events:
            if event.type == "call.received":
                received[event.call_id] = event
            elif event.type in ("call.finished", "call.denied"):
                call = _ended(event, received.pop(event.call_id, None))
                if wanted.call(call):
                    show(call)


def _ended(event: Event, received: Event | None) -> CallSummary:
    said: dict[str, Any] = {} if received is None else received.data
    data = event.data
    timings: dict[str, float] = data.get("timings") or {}
    seconds: float | None = data.get("total_s", timings.get("total"))
    return CallSummary(
        id=event.call_id or "",
        time=event.time - (seconds or 0.0),
        tool=str(data.get("tool")),
        principal=str(data.get("principal")),
        session=data.get("session"),
        profile=said.get("profile"),
        door=said.get("door"),
        parent=said.get("parent"),
        status=data.get("status"),
        reason=data.get("reason"),
        message=data.get("message"),
        seconds=seconds,
    )


def _put_json_call(call: CallSummary) -> None:
    put(json.dumps(call.to_dict(), ensure_ascii=False))


def _put_call(call: CallSummary) -> None:
    status = call.status or ""
    before = f"{clock(call.time)}   {call.id}   {call.tool:<20}   {call.principal:<12}   "
    after = f"{' ' * (6 - len(status))}   {call.reason or '':<20}   {took(call.seconds)}"
    put_lines([[(before, False), (status, True), (after, False)]])


def watch_approvals(source: Source, as_json: bool) -> None:
    """Ask each request at the terminal as it comes, or print it, until interrupted."""
    watching = source.watch()
    at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if not as_json and not at_terminal:
        raise Mistake("there is no terminal to ask at. --json prints each request instead")

    async def work() -> None:
        async with watching as requests:
            await _watch(requests, as_json)

    asyncio.run(work())


async def _watch(requests: Requests, as_json: bool) -> None:
    from toolcrib.approvals.terminal import TerminalApprover

    terminal = TerminalApprover(by=me(), check=requests.problems, past=requests.past)
    say("Waiting for requests. Ctrl-C stops.")
    seen: set[str] = set()
    while True:
        for request in await requests.pending():
            if request.id in seen:
                continue
            seen.add(request.id)
            if as_json:
                put(json.dumps(request.to_dict(), ensure_ascii=False))
            elif "cli" not in request.via:
                doors = ", ".join(request.via) or "nobody"
                say(
                    f"{request.id}: {request.tool} for {request.principal} waits, and answers "
                    f"from here do not count; those that do: {doors}"
                )
            else:
                await ask_here(requests, terminal, request)
        await requests.changed()


async def ask_here(
    requests: Requests, terminal: TerminalApprover, request: ApprovalRequest
) -> ApprovalRequest | None:
    """One question; it closes when somebody else answers it first. None: nobody answered."""
    asking = asyncio.ensure_future(terminal.ask(request))
    settled = asyncio.ensure_future(_settled(requests, request))
    both = (asking, settled)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not asking.done() or not settled.done():
            for task in both:
                task.cancel()
            await asyncio.wait(both)
    if asking.cancelled():
        final = settled.result()
        by = f" by {final.by}" if final.by else ""
        say(f"{final.id}   {final.state}{by}")
        return final
    decision = asking.result()
    if decision.answer == "escalate":
        return None
    try:
        final = await requests.decide(request.id, decision)
    except ValueError as error:
        say(str(error))
        return None
    put(f"{final.id}   {final.state}   {final.tool} for {final.principal}")
    return final


async def _settled(requests: Requests, request: ApprovalRequest) -> ApprovalRequest:
    while True:
        now = await requests.get(request.id)
        if now.state != "pending":
            return now
        await requests.changed()
