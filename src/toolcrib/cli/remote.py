"""A running host as a source: everything is asked through its door."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import msgspec

from toolcrib.cli.ids import meant
from toolcrib.cli.output import Mistake, reader_may_leave
from toolcrib.cli.profiles import check_profile
from toolcrib.cli.refusal import refusals_end
from toolcrib.cli.source import Answered, Asked, Explained, Placed, Proved, Read, Requests, Tools
from toolcrib.cli.trailing import NO_CALL, write_event
from toolcrib.client import Client, NothingFound, Refused
from toolcrib.client.tool import as_spec
from toolcrib.host.reports.audit import Verified
from toolcrib.host.reports.describing import Listed
from toolcrib.host.reports.fates import Fate
from toolcrib.host.reports.findings import Finding
from toolcrib.host.reports.overview import Overview
from toolcrib.host.reports.settings import Checked
from toolcrib.host.verify import Report

if TYPE_CHECKING:
    from toolcrib.core.approval import ApprovalDecision, ApprovalRequest, Grant
    from toolcrib.core.events import Event
    from toolcrib.core.spec import ToolSpec
    from toolcrib.host.history import CallSummary, Wanted
    from toolcrib.transports.models import ToolView

T = TypeVar("T")
_PAGE = 1000
_UNSEEN = frozenset({"unknown_tool", "not_found", "not_permitted"})


class Remote:
    """The host at a URL, as far as it lets the caller."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = url
        self._token = token

    def _run(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        async def going() -> T:
            async with Client(self._url, self._token) as client:
                return await work(client)

        with refusals_end():
            return asyncio.run(going())

    def _ask(self, method: str, **params: Any) -> Any:
        return self._run(lambda client: client.ask(method, params))

    # Tools and calls.

    def tools(self, *, profile: str | None, who: str | None) -> Tools:
        async def work(client: Client) -> Tools:
            await _check_profile(client, profile)
            found: list[Listed] = []
            missing: list[str] = []
            cursor: str | None = None
            while True:
                page = await client.ask(
                    "tools.list",
                    {"limit": _PAGE, "cursor": cursor, "profile": profile, "as": who},
                )
                found += [Listed(as_spec(view), view.unavailable) for view in page.tools]
                missing, cursor = page.missing, page.next
                if cursor is None:
                    return Tools(found, missing)

        return self._run(work)

    def describe(self, name: str) -> dict[str, Any]:
        return self._ask("tools.show", name=name).value

    def check(self) -> Sequence[Fate]:
        return [Fate(**row) for row in self._ask("tools.check").items]

    def call(self, asked: Asked) -> Placed:
        from toolcrib.cli.remote_desk import place_call

        if asked.principal is not None:
            raise Mistake(
                "--as is for a project here: at a running host you are who your token says"
            )

        async def work(client: Client) -> Placed:
            await _check_profile(client, asked.profile)
            view = await _view(client, asked.tool, asked.profile)
            spec = None if view is None else as_spec(view)
            result = await place_call(client, asked, asked.read(spec))
            return Placed(result, spec)

        return self._run(work)

    def explain(self, name: str, read: Read, *, profile: str | None, who: str | None) -> Explained:
        async def work(client: Client) -> Explained:
            await _check_profile(client, profile)
            view = await _view(client, name, profile, who)
            spec: ToolSpec | None = None if view is None else as_spec(view)
            said = await client.explain(name, read(spec), principal=who, profile=profile)
            if said.verdict != "ask" or view is None or view.revision is None:
                return Explained(said, None)
            from toolcrib.cli.grants import covering_call

            grants = await client.approvals.grants()
            return Explained(said, covering_call(grants, said, view.digest, view.revision))

        return self._run(work)

    def overview(self, *, profile: str | None, who: str | None) -> Overview:
        async def work(client: Client) -> Overview:
            await _check_profile(client, profile)
            answer = await client.ask("explain.all", {"profile": profile, "as": who})
            return Overview(answer.value["rows"], answer.value["missing"])

        return self._run(work)

    # People.

    def requests(self, *, every: bool) -> list[ApprovalRequest]:
        return self._run(lambda client: client.approvals.list(state=None if every else "pending"))

    def request(self, id: str) -> ApprovalRequest:
        async def work(client: Client) -> dict[str, ApprovalRequest]:
            try:
                return {id: await client.approvals.get(id)}
            except NothingFound:
                return {each.id: each for each in await client.approvals.list(state=None)}

        found = self._run(work)
        return found[meant(id, found, "approval", ". `toolcrib approvals --all` lists them")]

    def covering(self, request: ApprovalRequest) -> Grant | None:
        from toolcrib.cli.grants import covering_request

        return covering_request(self.grants(live=True), request)

    def answer(self, ids: Sequence[str], answer: ApprovalDecision) -> list[Answered]:
        from toolcrib.cli.remote_desk import answer_all

        return self._run(lambda client: answer_all(client, ids, answer))

    def watch(self) -> AbstractAsyncContextManager[Requests]:
        from toolcrib.cli.remote_desk import watch_there

        return watch_there(self._url, self._token)

    def grants(self, *, live: bool) -> list[Grant]:
        return self._run(lambda client: client.approvals.grants(live=live))

    def revoke(self, ids: Sequence[str]) -> list[tuple[str, bool]]:
        async def work(client: Client) -> list[tuple[str, bool]]:
            fates: list[tuple[str, bool]] = []
            for each in ids:
                try:
                    fates.append((each, await client.approvals.revoke(each)))
                except NothingFound:
                    fates.append((each, False))
            return fates

        return self._run(work)

    # The trail.

    def nothing_kept(self) -> str:
        return "Nothing is kept: host.store is memory."

    def calls(self, wanted: Wanted, limit: int) -> list[CallSummary] | None:
        if limit > _PAGE:
            raise Mistake(f"--limit can be {_PAGE} at most at a running host")
        given = {
            key: getattr(wanted, key) for key in ("tool", "principal", "status", "reason", "since")
        }
        return self._ask("calls.list", limit=limit, **given).calls

    def trail(self, id: str) -> list[Event]:
        async def work(client: Client) -> list[Event]:
            try:
                return await client.trail(call_id=id)
            except NothingFound:
                page = await client.ask("calls.list", {"prefix": id, "limit": _PAGE})
                whole = meant(id, [call.id for call in page.calls], "call", NO_CALL)
                return await client.trail(call_id=whole)

        return self._run(work)

    def cancel(self, ids: Sequence[str]) -> list[tuple[str, bool]]:
        async def work(client: Client) -> list[tuple[str, bool]]:
            whole: list[str] = []
            for each in ids:
                page = await client.ask("calls.list", {"prefix": each, "limit": _PAGE})
                whole.append(meant(each, [call.id for call in page.calls], "call", NO_CALL))
            return [(each, await client.cancel(each)) for each in whole]

        return self._run(work)

    def endings(self) -> AbstractAsyncContextManager[AsyncGenerator[Event]]:
        from toolcrib.cli.remote_desk import follow_there

        return follow_there(self._url, self._token)

    def events(self, wanted: Wanted, limit: int) -> list[Event] | None:
        if limit <= _PAGE:
            return self._ask("audit.search", limit=limit, **_looked_for(wanted)).events

        async def work(client: Client) -> list[Event]:
            newest: deque[Event] = deque(maxlen=limit)
            async for event in _all_events(client, wanted):
                newest.append(event)
            return list(newest)

        return self._run(work)

    def export(self, wanted: Wanted, stream: TextIO) -> int | None:
        async def work(client: Client) -> int:
            count = 0
            with reader_may_leave():
                async for event in _all_events(client, wanted):
                    write_event(event, stream)
                    count += 1
                stream.flush()
            return count

        return self._run(work)

    def verified(self) -> Verified | None:
        found = self._ask("audit.verify").value
        return msgspec.convert(found, Verified) if found.get("kept") else None

    # The host.

    def settings(self) -> str:
        return self._ask("config.show").value

    def check_settings(self) -> Checked:
        return msgspec.convert(self._ask("config.check").value, Checked)

    def prove(self, file: Path | None) -> Proved:
        if file is not None:
            raise Mistake(
                f"{file} is on this machine: a running host takes the policy.yaml beside its "
                "configuration. Leave FILE out"
            )
        found = self._ask("policy.verify").value
        return Proved(msgspec.convert(found["report"], Report), found["invariants"])

    def findings(self) -> Sequence[Finding]:
        return [Finding(**row) for row in self._ask("host.doctor").items]

    def providers(self) -> list[dict[str, Any]]:
        return self._ask("providers.list").items

    def review(self, provider: str) -> dict[str, Any]:
        return self._ask("providers.review", name=provider).value

    def decide(
        self, provider: str, shown: Mapping[str, str | None], *, accept: bool
    ) -> dict[str, Any]:
        given = {"name": provider, "tools": dict(shown), "accept": accept}
        return self._ask("providers.decide", **given).value

    def plugins(self) -> list[dict[str, Any]]:
        return self._ask("plugins.list").items

    def version(self) -> str:
        return self._ask("host.info").version


async def _check_profile(client: Client, profile: str | None) -> None:
    """Refuse a profile that there is not; it is typed more often than it is right."""
    if profile is not None:
        check_profile(profile, (await client.info()).profiles)


async def _view(
    client: Client, name: str, profile: str | None, who: str | None = None
) -> ToolView | None:
    """What the host tells of a tool; None when the caller cannot see it."""
    try:
        if who is None:
            return await client.ask("tools.get", {"name": name, "profile": profile})
        asked = {"prefix": name, "profile": profile, "as": who, "limit": _PAGE}
        page = await client.ask("tools.list", asked)
        return next((view for view in page.tools if name in (view.name, view.wire_name)), None)
    except Refused as refused:
        if refused.reason not in _UNSEEN:
            raise
        return None


def _looked_for(wanted: Wanted) -> dict[str, Any]:
    names = ("tool", "principal", "status", "reason", "since", "text", "call_id", "type")
    return {name: getattr(wanted, name) for name in names}


async def _all_events(client: Client, wanted: Wanted) -> AsyncGenerator[Event]:
    """Every event that fits, oldest first, page by page."""
    after = ""
    while True:
        asked = {"limit": _PAGE, "after": after, **_looked_for(wanted)}
        events: list[Event] = (await client.ask("audit.search", asked)).events
        for event in events:
            yield event
        if len(events) < _PAGE:
            return
        after = events[-1].id
