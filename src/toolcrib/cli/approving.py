"""What happens at the command line while a call waits for a person."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from toolcrib.cli.output import left, say
from toolcrib.cli.project import Project, me
from toolcrib.core.approval import ApprovalDecision, ApprovalRequest
from toolcrib.core.result import Failure, ToolResult

if TYPE_CHECKING:
    from toolcrib.approvals.terminal import Records, TerminalApprover
    from toolcrib.cli.source import Asked
    from toolcrib.host.host import ToolHost

_ESCALATE = ApprovalDecision(answer="escalate")


class Desk:
    """Asks at the terminal when there is one; else says how another terminal can answer."""

    def __init__(self, project: Project, profile: str | None, wait: float | None) -> None:
        self.request: ApprovalRequest | None = None
        """The question that waits."""
        self.asked = asyncio.Event()
        self._kept = project.store is not None
        self._wait = wait
        self._at_terminal = at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
        self._terminal: TerminalApprover | None = None
        self._records: Records | None = None
        rules = project.config.profiles.get(profile or "")
        # An answer counts through one door; without a say, it only wants to know of the question.
        answers = at_terminal and (rules is None or "cli" in rules.approval.via)
        self.via = "cli" if answers else ("cli", "console", "host", "client")

    def use_records(self, records: Records) -> None:
        """Take what the host knows, for the person at the terminal."""
        self._records = records

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """The answer given here, or word to the person where to answer."""
        self.request = request
        self.asked.set()
        if self._at_terminal and "cli" in request.via:
            decision = await self._ask_here(request)
            if decision.answer != "escalate":
                return decision
        if not self._kept:
            text = "no terminal to ask at, and host.store is memory: nobody else sees the question"
            return ApprovalDecision(answer="deny", note=text, by="toolcrib")
        tell_where(request, self._wait)
        return _ESCALATE

    async def _ask_here(self, request: ApprovalRequest) -> ApprovalDecision:
        # Most calls ask nobody, and need not wait until this is imported.
        from toolcrib.approvals.terminal import TerminalApprover

        if self._terminal is None:
            self._terminal = TerminalApprover(by=me())
            if self._records is not None:
                self._terminal.use_records(self._records)
        return await self._terminal.ask(request)


def tell_where(request: ApprovalRequest, wait: float | None, url: str | None = None) -> None:
    """Say how another terminal can answer."""
    why = request.message or request.rule or f"{request.gate} asks"
    source = f"   {request.source}" if request.source else ""
    there = "" if url is None else f" --url {url}"
    say(f"{request.tool}: waits for approval {request.id}")
    say(f"  asked because   {why}{source}")
    say(f"  to allow        toolcrib approvals allow {request.id}{there}")
    say(f"  to refuse       toolcrib approvals deny {request.id}{there}")
    seconds = request.expires - request.created
    say(f"  waits up to     {left(min(seconds, wait or seconds))}")


async def place_call(
    host: ToolHost, project: Project, asked: Asked, arguments: dict[str, Any] | None, desk: Desk
) -> ToolResult:
    """One call in a session of its own, from the start of the host to its end. Arguments that are
    None are read once the tool is known."""
    desk.asked = asyncio.Event()
    await host.start()
    try:
        if arguments is None:
            # Not for every provider: one that is slow to start need not be this tool's.
            await host.sources.arrival(lambda: host.catalog.get(asked.tool), host.settings.ready)
            arguments = asked.read(host.get(asked.tool))
        if asked.principal is not None and asked.profile is not None:
            allowed = host.config.principal_profiles.get(asked.principal)
            if allowed is not None and asked.profile not in allowed:
                # No session can be had; the refusal goes on the trail all the same.
                return await host.call(
                    asked.tool, arguments, principal=asked.principal, profile=asked.profile
                )
        session = host.session(
            principal=asked.principal,
            profile=asked.profile,
            cwd=project.folder,
            door="cli",
            ephemeral=True,
        )
        async with session:
            call = asyncio.ensure_future(session.call(asked.tool, arguments, timeout=asked.timeout))
            try:
                return await _ended(host, call, asked, desk)
            finally:
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
    finally:
        await host.stop()


async def _ended(
    host: ToolHost, call: asyncio.Future[ToolResult], asked: Asked, desk: Desk
) -> ToolResult:
    """The result; or, when nobody answers for as long as the caller waits, where it stands."""
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
    request = await host.approvals.get(desk.request.id)
    if request.state != "pending":
        return await call
    return still_pending(request)


def still_pending(request: ApprovalRequest) -> ToolResult:
    """The end of a call whose caller waits no longer for a person."""
    text = f"nobody has answered yet; approval {request.id} stays pending"
    return ToolResult(
        call_id=request.call_id,
        status="error",
        error=Failure(
            reason="cancelled",
            message=text,
            details={"request": request.id, "expires": request.expires},
            retryable=True,
        ),
    )
