"""Calls of MCP clients: each is one call in the pipeline, however many requests it takes.

A client of the handshake era is asked while its request is open. One of the modern era gets an
answer that input is needed; the call stays where it is and goes on with the client's next request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any, cast

from toolcrib.core.approval import ApprovalRequest
from toolcrib.core.link import LINK, InputRefused
from toolcrib.core.result import ToolResult
from toolcrib.pipeline.plan import Plan
from toolcrib.protocol.mcp.definitions import KIND
from toolcrib.transports.caller import Caller
from toolcrib.transports.eager import Starter
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp import approvals
from toolcrib.transports.mcp.asked import Asked, Channel, Endpoint
from toolcrib.transports.mcp.faults import McpFault, invalid
from toolcrib.transports.mcp.hearing import Hearing
from toolcrib.transports.mcp.home import Home
from toolcrib.transports.mcp.parking import LONGEST, Parking
from toolcrib.transports.mcp.run import Run
from toolcrib.transports.mcp.standing import standing
from toolcrib.transports.service import Service

_log = logging.getLogger("toolcrib")
_AGAIN = 0.05
"""Seconds until a call is cancelled again that could not be reached at that moment."""
_GRACE = 5.0
"""Seconds for a call to end whose client did not come back; then it is cancelled."""


class Running:
    """Runs calls for MCP clients. Belongs to one loop."""

    def __init__(self, service: Service, *, parked: float = LONGEST) -> None:
        """`parked`: seconds that a call waits for its client to come back."""
        self.calls: dict[str, Run] = {}
        """Those that have not ended, by call id."""
        self.parking: Parking[Run] = Parking(self._late, seconds=parked)
        self._service = service
        self._starter: Any = None
        self._relayed: Any = None
        self._loop: asyncio.AbstractEventLoop
        self._home: Home
        self._hearing: Hearing | None = None
        self._tasks: set[asyncio.Future[Any]] = set()

    async def run(
        self,
        caller: Caller,
        endpoint: Endpoint,
        asked: Asked,
        channel: Channel,
        tool: str,
        arguments: Mapping[str, Any] | None,
    ) -> ToolResult | dict[str, Any]:
        """The ending of a call, or what to answer in its stead: that input is needed. Raises
        `McpFault`."""
        early: Mapping[str, Any] | None = None
        if asked.era == "modern":
            params = asked.params
            if "inputResponses" in params:
                early = _responses(params["inputResponses"])
            if "requestState" in params:
                return await self._again(caller, endpoint, asked, channel, tool, early or {})
        one = self.begin(caller, endpoint, asked, channel, tool, arguments, early)
        return await self.follow(one, endpoint, asked, channel)

    def begin(
        self,
        caller: Caller,
        endpoint: Endpoint,
        asked: Asked,
        channel: Channel,
        tool: str,
        arguments: Mapping[str, Any] | None,
        early: Mapping[str, Any] | None = None,
        plan: Plan | None = None,
    ) -> Run:
        """Begin a call, under its plan if that is known; most have their result when this
        returns."""
        starter = self._starter or self._open()
        if plan is not None and plan.spec.kind == KIND:
            starter = self._relayed
        service = self._service
        pipeline = service.parts.pipeline
        new_id = pipeline.new_id
        one = Run(new_id(), caller, tool, asked, channel, self._home)
        redactor = service.host.redactor
        if redactor.has_secrets:
            # Results are looked through on their way; what is said meanwhile goes by the line.
            one.hide = redactor.secrets_in
        if early:
            one.give_early(early)
        self.calls[one.call_id] = one
        if plan is not None:
            call = pipeline.run(
                plan, caller.principal, None, arguments, None, one.call_id, caller.door
            )
        else:
            profile = endpoint.profile
            call = service.place(
                caller,
                tool,
                arguments,
                session=endpoint.session,
                profile=None if profile == caller.profile else profile,
                call_id=one.call_id,
            )
        starter.start(self._work(one, call))
        return one

    def _open(self) -> Any:
        self._loop = asyncio.get_running_loop()
        self._home = Home.here()
        self._hearing = Hearing(self._service, self.calls)
        self._starter = Starter()
        # Of a call to another server nothing but our own code runs: nobody can tell that its task
        # was another call's before.
        self._relayed = Starter(again=True)
        return self._starter

    async def _work(self, one: Run, call: Coroutine[Any, Any, ToolResult]) -> None:
        LINK.set(one)
        try:
            one.result = await call
        except asyncio.CancelledError:
            one.broken = Fault("cancelled")
            raise
        except Exception:
            _log.exception("a call failed outside of its path")
            one.broken = Fault("unexpected_failure")
        finally:
            del self.calls[one.call_id]
            one.wake()

    # Waiting with a request.

    async def follow(
        self, one: Run, endpoint: Endpoint, asked: Asked, channel: Channel
    ) -> ToolResult | dict[str, Any]:
        """Wait with a request for the end of a call, or for what its client has to be asked. Raises
        `McpFault`."""
        if one.result is not None:
            return one.result  # it never waited, as most do
        turn = one.turn = object()
        channel.on_gone(partial(self.gone, one, turn))
        asking: asyncio.Future[bool] | None = None
        held: list[ApprovalRequest] = []
        until = 0.0
        try:
            while not one.over:
                if one.wanting or one.forms:
                    parked = self._park(one, endpoint, asked)
                    if isinstance(parked, dict):
                        return parked
                    held, until = [*parked, *held], 0.0
                elif one.questions and asking is None:
                    request = await approvals.find(self._service, one.questions.pop(0))
                    if request is None:
                        continue
                    held.append(request)
                    until = self._loop.time() + self._service.settings.mcp.hold
                    if not self._asks_client(one, request):
                        continue
                    if asked.era == "modern":
                        one.forms = {**(one.forms or {}), approvals.key_of(request): request}
                    else:
                        asking = self._elicit(one, request, channel)
                elif asking is not None and asking.done():
                    # Whatever broke there, the question is open, and others may answer it.
                    failed = None if asking.cancelled() else asking.exception()
                    if failed is not None:
                        _log.error("asking the client failed: %s", type(failed).__name__)
                    elif asking.cancelled() or not asking.result():
                        until = 0.0
                    asking = None
                elif not held or asking is not None:
                    await one.news()
                elif not await one.news(max(0.0, until - self._loop.time())):
                    still = await approvals.find(self._service, held[0].id)
                    if still is None:
                        held = held[1:]
                    elif not one.over:
                        self._cancel(one, approvals.WAITING)
                        return approvals.waiting(still, one.call_id)
        except BaseException:
            self._cancel(one)  # nobody would come for it
            raise
        finally:
            if one.turn is turn:
                one.turn = None
                one.detach()
            if asking is not None:
                asking.cancel()
        return _ending(one)

    def _asks_client(self, one: Run, request: ApprovalRequest) -> bool:
        """Whether the question goes to the client itself."""
        return (
            self._service.settings.mcp.approval != "hold"
            and approvals.may_answer(one.caller, request)
            and one.can("elicitation/create")
        )

    def _elicit(self, one: Run, request: ApprovalRequest, channel: Channel) -> asyncio.Future[bool]:
        """Ask a client of the handshake era; done with false when its user saw the question and
        left it open."""

        async def elicit() -> bool:
            try:
                answer = await channel.ask("elicitation/create", approvals.form(request))
            except McpFault as fault:
                _log.info("the client could not ask for approval %s: %s", request.id, fault)
                return True  # it never showed it: somebody else may answer
            except InputRefused:
                return False
            return await approvals.decide(self._service, one.caller, request, answer)

        task = asyncio.ensure_future(elicit())
        task.add_done_callback(lambda _: one.wake())
        self._keep(task)
        return task

    def _park(
        self, one: Run, endpoint: Endpoint, asked: Asked
    ) -> dict[str, Any] | list[ApprovalRequest]:
        """Let the call wait without a request: gives the answer to this one. Where there is no
        room, whatever waits for input is refused, and approvals are left to others."""
        forms = one.forms or {}
        wanted: dict[str, Any] = {
            key: {"method": "elicitation/create", "params": approvals.form(request)}
            for key, request in forms.items()
        }
        # Servers choose keys too: an answer to theirs must not be taken for an approval.
        wanted.update(one.requests(forms))
        try:
            state = self.parking.park(
                one,
                principal=one.caller.principal.name,
                endpoint=endpoint,
                asked=asked,
                tool=self._digest(one.caller, endpoint, one.tool),
                most=self._service.settings.mcp.parked,
            )
        except InputRefused as error:
            one.refuse(str(error))
            one.forms = None
            return list(forms.values())
        return {"resultType": "input_required", "inputRequests": wanted, "requestState": state}

    # The client came back.

    async def _again(
        self,
        caller: Caller,
        endpoint: Endpoint,
        asked: Asked,
        channel: Channel,
        tool: str,
        responses: Mapping[str, Any],
    ) -> ToolResult | dict[str, Any]:
        one = self.parking.redeem(
            asked.params["requestState"],
            principal=caller.principal.name,
            endpoint=endpoint,
            asked=asked,
            tool=self._digest(caller, endpoint, tool),
        )
        one.attach(asked, channel)
        try:
            unanswered = await self._answered(one, caller, responses)
        except BaseException:
            self._cancel(one)
            raise
        if unanswered is not None and not one.over:
            self._cancel(one, approvals.WAITING)
            return approvals.waiting(unanswered, one.call_id)
        one.take(responses)
        return await self.follow(one, endpoint, asked, channel)

    async def _answered(
        self, one: Run, caller: Caller, responses: Mapping[str, Any]
    ) -> ApprovalRequest | None:
        """Take the answers to approvals; gives the first that was asked for and left open. What
        the client did not speak of is asked again."""
        forms, one.forms = one.forms or {}, None
        for key, request in forms.items():
            if key in responses:
                if not await approvals.decide(self._service, caller, request, responses[key]):
                    return request
            elif await approvals.find(self._service, request.id) is not None:
                one.forms = {**(one.forms or {}), key: request}
        return None

    def _digest(self, caller: Caller, endpoint: Endpoint, tool: str) -> str:
        """The digest of what the tool is now."""
        found = standing(self._service.host, caller, endpoint)
        plan = self._service.host.calling.plan(tool, found.profile, found.session)
        return "" if plan is None else plan.spec.digest

    # Ends.

    def gone(self, one: Run, turn: object) -> None:
        """The client left, or took its request back: its call is stopped. What people were asked
        stays open."""
        if one.turn is turn:
            self._cancel(one)

    def _late(self, one: Run) -> None:
        """The client did not come back in time."""
        one.refuse("the client did not answer in time", for_good=True)
        if one.forms:
            self._cancel(one)
        else:
            self._loop.call_later(_GRACE, self._cancel, one)

    def _cancel(self, one: Run, why: str = "cancelled") -> None:
        if not one.over and not self._service.parts.pipeline.cancel(one.call_id, why):
            # It has not begun, or is at a point where it cannot be stopped: in a moment it can.
            self._loop.call_later(_AGAIN, self._cancel, one, why)

    async def stop(self) -> None:
        """End the calls that wait for their clients; others are the host's to end."""
        if self._starter is None:
            return
        for one in self.parking.clear():
            one.refuse("the host is stopping", for_good=True)
            self._cancel(one)
        if self._hearing is not None:
            self._hearing.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._starter.close()
        self._relayed.close()
        self._starter = None

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _responses(given: Any) -> Mapping[str, Any]:
    if type(given) is not dict:
        raise invalid("inputResponses has to be an object")
    found = cast("dict[str, Any]", given)
    for key, value in found.items():
        if type(value) is not dict:
            raise invalid(f"inputResponses: what stands under {key[:60]!a} is no object")
    return found


def _ending(one: Run) -> ToolResult:
    if one.result is None:
        raise McpFault.of(one.broken or Fault("unexpected_failure"))
    return one.result
