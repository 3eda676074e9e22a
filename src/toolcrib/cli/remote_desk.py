"""People's part at a running host: questions of a call, requests that are watched, answers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from toolcrib.cli.approving import still_pending, tell_where
from toolcrib.cli.local import unfit, whole_ids
from toolcrib.cli.output import Mistake, clock, say
from toolcrib.cli.project import me
from toolcrib.cli.refusal import refusals_end
from toolcrib.cli.source import Answered, Asked
from toolcrib.client import Client, NotTaken, Refused
from toolcrib.core.approval import ApprovalDecision, ApprovalRequest
from toolcrib.core.schema import compile_schema

if TYPE_CHECKING:
    from toolcrib.approvals.rendering import PastCall
    from toolcrib.core.events import Event
    from toolcrib.core.result import ToolResult
    from toolcrib.host.history import CallSummary
    from toolcrib.transports.models import Info, ToolView

_PAUSE = 5.0
"""Seconds after which is looked again, whether or not something is said to have changed."""
_NEWEST = 1000
_LOOKS = (0.5, 1.0, 2.0)
"""Seconds between looks for a question that nobody tells of."""
_SHOWN = 3
_ENDINGS = ("call.received", "call.finished", "call.denied")


class _Desk:
    """Asks at the terminal when there is one; else says how another terminal can answer."""

    def __init__(self, client: Client, info: Info, wait: float | None) -> None:
        self.request: ApprovalRequest | None = None
        """The question that waits."""
        self.asked = asyncio.Event()
        self._client = client
        self._wait = wait
        self._at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
        self._via = "cli" if "approve" in info.rights else "client"

    async def ask(self, request: ApprovalRequest) -> None:
        """Have the request answered here, or say where; once."""
        if self.request is not None:
            return
        self.request = request
        self.asked.set()
        if not (self._at_terminal and self._via in request.via and await self._ask_here(request)):
            tell_where(request, self._wait, self._client.where)

    async def _ask_here(self, request: ApprovalRequest) -> bool:
        from toolcrib.approvals.terminal import TerminalApprover

        requests = There(self._client)
        await requests.learn(request)
        terminal = TerminalApprover(by=me(), check=requests.problems, past=requests.past)
        decision = await terminal.ask(request)
        if decision.answer == "escalate":
            return False
        try:
            await requests.decide(request.id, decision)
        except ValueError as error:
            say(str(error))
            return False
        return True


async def place_call(client: Client, asked: Asked, arguments: dict[str, Any]) -> ToolResult:
    """One call, to its end or for as long as the caller waits for a person."""
    info = await client.info()
    desk = _Desk(client, info, asked.wait)
    call = asyncio.ensure_future(
        client.call(
            asked.tool,
            arguments,
            profile=asked.profile,
            timeout=asked.timeout,
            on_approval=desk.ask,
        )
    )
    looking = asyncio.ensure_future(
        _find_question(client, desk, asked.tool, info.principal, arguments)
    )
    try:
        if asked.wait is None:
            return await call
        question = asyncio.ensure_future(desk.asked.wait())
        try:
            await asyncio.wait({call, question}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            question.cancel()
        await asyncio.wait({call}, timeout=asked.wait)
        if call.done() or desk.request is None:
            return await call
        request = await client.approvals.get(desk.request.id)
        return await call if request.state != "pending" else still_pending(request)
    finally:
        for task in (call, looking):
            task.cancel()
        await asyncio.gather(call, looking, return_exceptions=True)


async def answer_all(
    client: Client, ids: Sequence[str], answer: ApprovalDecision
) -> list[Answered]:
    """Give the requests one answer each; a bad one stops no other."""
    known = {request.id: request for request in await client.approvals.list(state=None)}
    whole, unknown = whole_ids(ids, set(known))
    fates: list[Answered] = []
    for each in whole:
        try:
            request = await There(client).decide(each, answer)
            fates.append(Answered(each, None, request))
        except NotTaken as refused:
            failure = refused.result.error
            problems: list[str] = failure.details.get("problems", []) if failure else []
            if problems:
                raise Mistake(unfit(known[each].tool, each, problems)) from None
            fates.append(Answered(each, failure.message if failure else str(refused), None))
    return [*fates, *unknown]


async def _find_question(
    client: Client, desk: _Desk, tool: str, principal: str, arguments: dict[str, Any]
) -> None:
    """Look for the question of a call that is equal to one which waits already: it was asked
    before, so nobody tells of it again."""
    for pause in _LOOKS:
        await asyncio.sleep(pause)
        for request in await client.approvals.list():
            given = {name: request.arguments.get(name) for name in arguments}
            if (request.tool, request.principal, given) == (tool, principal, arguments):
                await desk.ask(request)
                return


class There:
    """Requests of a running host."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._news = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._views: dict[str, ToolView] = {}

    async def pending(self) -> Sequence[ApprovalRequest]:
        found = await self._client.approvals.list()
        for request in found:
            await self.learn(request)
        return found

    async def learn(self, request: ApprovalRequest) -> None:
        """Get to know the tool in question, to check arguments that are changed."""
        if request.tool not in self._views and request.edit:
            try:
                view = await self._client.ask("tools.get", {"name": request.tool})
            except Refused:
                return  # who cannot see the tool is told by the host what does not fit
            self._views[request.tool] = view

    async def get(self, id: str) -> ApprovalRequest:
        return await self._client.approvals.get(id)

    async def decide(self, id: str, decision: ApprovalDecision) -> ApprovalRequest:
        return await self._client.approvals.decide(
            id,
            decision.answer == "allow",
            note=decision.note,
            reach=decision.reach,
            arguments=decision.arguments,
        )

    def problems(self, request: ApprovalRequest, arguments: dict[str, Any]) -> Sequence[str]:
        view = self._views.get(request.tool)
        if view is None or view.digest != request.digest:
            return ()
        found = compile_schema(view.input_schema).problems(arguments)
        return [f"{problem.path} {problem.message}".strip() for problem in found]

    async def past(self, request: ApprovalRequest) -> Sequence[PastCall]:
        asked = {"principal": request.principal, "limit": _NEWEST}
        try:
            page = await self._client.ask("calls.list", asked)
        except Refused:
            return ()  # who may not see others' calls decides without them
        calls: list[CallSummary] = page.calls
        before = [
            call
            for call in calls
            if call.id != request.call_id and request.session in (None, call.session)
        ]
        return [_past(call) for call in before[-_SHOWN:]]

    async def changed(self) -> None:
        news = asyncio.ensure_future(self._news.wait())
        waiting = {news} if self._listening is None else {news, self._listening}
        try:
            await asyncio.wait(waiting, timeout=_PAUSE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
        self._news.clear()
        if self._listening is not None and self._listening.done():
            self._listening.result()

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Know inside when something happens to requests."""
        self._listening = asyncio.ensure_future(self._listen())
        try:
            yield
        finally:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    async def _listen(self) -> None:
        async for _ in self._client.events(types=["approval.*"]):
            self._news.set()


def _past(call: CallSummary) -> PastCall:
    from toolcrib.approvals.rendering import PastCall

    ending = call.status or "open"
    words = f"{ending}, {call.reason}" if call.reason else ending
    return PastCall(call.tool, words, clock(call.time))


@asynccontextmanager
async def watch_there(url: str, token: str | None) -> AsyncGenerator[There]:
    """What waits for a person at a running host."""
    with refusals_end():
        async with Client(url, token) as client:
            there = There(client)
            async with there.listening():
                yield there


@asynccontextmanager
async def follow_there(url: str, token: str | None) -> AsyncGenerator[AsyncGenerator[Event]]:
    """The events of calls at a running host, from now on."""
    with refusals_end():
        async with Client(url, token) as client:
            yield _events(client, await _newest(client))


async def _newest(client: Client) -> str | None:
    """The id of the newest event: whatever happens behind it is not missed."""
    try:
        found: list[Event] = (await client.ask("audit.search", {"limit": 1})).events
    except Refused:
        return None  # who may not read the trail sees the calls that begin later
    return found[-1].id if found else None


async def _events(client: Client, after: str | None) -> AsyncGenerator[Event]:
    async for event in client.events(after, types=_ENDINGS):
        yield event
