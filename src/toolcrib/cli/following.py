"""`toolcrib calls tail` and `toolcrib approvals watch`: what happens while one looks on."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.cli.output import Mistake, clock, put, put_lines, say, took
from toolcrib.cli.project import Project, me
from toolcrib.core.events import Event, decode_record, events_of
from toolcrib.host.history import CallSummary, Wanted

if TYPE_CHECKING:
    from toolcrib.approvals.terminal import TerminalApprover
    from toolcrib.core.approval import ApprovalRequest
    from toolcrib.core.chain import Block
    from toolcrib.core.protocols import Store
    from toolcrib.host.host import ToolHost

_PAUSE = 1.0
"""Seconds after which is looked again, whether or not something is said to have changed."""
_BLOCKS = 100


def tail_calls(project: Project, wanted: Wanted, as_json: bool) -> None:
    """Print every call as it ends, whichever process runs it, until interrupted."""
    if project.store is None:
        raise Mistake("host.store is memory: calls of other processes cannot be seen")

    new = not project.store.exists()

    async def work(store: Store) -> None:
        position = 0 if new else await _end(store)
        await _follow(store, position, wanted, _put_json_call if as_json else _put_call)

    # Opening a store would begin it, and whoever only looks begins nothing.
    if new:
        say("Nothing is on the trail yet. Waiting for the first call; Ctrl-C stops.")
        while not project.store.exists():
            time.sleep(_PAUSE / 10)
    project.read(work, None)


async def _end(store: Store) -> int:
    position = 0
    while blocks := await store.blocks(after=position, limit=_BLOCKS):
        position = blocks[-1][0]
    return position


async def _follow(
    store: Store, position: int, wanted: Wanted, show: Callable[[CallSummary], None]
) -> None:
    say("Following calls. Ctrl-C stops.")
    received: dict[str | None, Event] = {}
    while True:
        for reached, block in await store.blocks(after=position, limit=_BLOCKS):
            position = reached
            for event in _events(block):
                if event.type == "call.received":
                    received[event.call_id] = event
                elif event.type in ("call.finished", "call.denied"):
                    call = _ended(event, received.pop(event.call_id, None))
                    if wanted.call(call):
                        show(call)
        await store.wait(timeout=_PAUSE)


def _events(block: Block) -> Sequence[Event]:
    import msgspec

    found: list[Event] = []
    for index, line in enumerate(block.lines.split(b"\n")):
        try:
            found += events_of(decode_record(line), block.run, block.first + index)
        except msgspec.DecodeError:
            say(f"record {block.first + index} of run {block.run} cannot be read")
    return found


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


def watch_approvals(project: Project, as_json: bool) -> None:
    """Ask each request at the terminal as it comes, or print it, until interrupted."""
    if project.store is None:
        raise Mistake("host.store is memory: the requests of other processes cannot be seen")
    at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if not as_json and not at_terminal:
        raise Mistake("there is no terminal to ask at. --json prints each request instead")
    project.prepare()
    asyncio.run(_watch(project, as_json))


async def _watch(project: Project, as_json: bool) -> None:
    from toolcrib.approvals.terminal import TerminalApprover

    async with project.desk() as host:
        store = (await host.start()).store
        terminal = TerminalApprover(
            by=me(), check=_Tools(project).problems, past=host.approvals.past
        )
        say("Waiting for requests. Ctrl-C stops.")
        seen: set[str] = set()
        while True:
            for request in await host.approvals.list():
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
                    await _ask(host, store, terminal, request)
            await store.wait(timeout=_PAUSE)


async def _ask(
    host: ToolHost, store: Store, terminal: TerminalApprover, request: ApprovalRequest
) -> None:
    """One question; it closes when somebody else answers it first."""
    asking = asyncio.ensure_future(terminal.ask(request))
    settled = asyncio.ensure_future(_settled(host, store, request))
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
        return
    decision = asking.result()
    if decision.answer == "escalate":
        return
    try:
        final = await host.approvals.decide(
            request.id,
            decision.answer == "allow",
            note=decision.note,
            reach=decision.reach,
            arguments=decision.arguments,
            by=decision.by,
            via="cli",
        )
    except ValueError as error:
        say(str(error))
    else:
        put(f"{final.id}   {final.state}   {final.tool} for {final.principal}")


async def _settled(host: ToolHost, store: Store, request: ApprovalRequest) -> ApprovalRequest:
    while True:
        now = await host.approvals.get(request.id)
        if now.state != "pending":
            return now
        await store.wait(timeout=_PAUSE)


class _Tools:
    """The project's tools, loaded when changed arguments are to be checked and not before: whoever
    only answers runs none of their code."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._host: ToolHost | None = None

    def problems(self, request: ApprovalRequest, arguments: dict[str, Any]) -> Sequence[str]:
        if self._host is None:
            self._host = self._project.host()
        return self._host.approvals.problems(request, arguments)
