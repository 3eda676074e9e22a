"""The project here as a source: its files are read and its store is opened, nothing else runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from toolcrib import __version__
from toolcrib.cli.ids import meant
from toolcrib.cli.output import Mistake
from toolcrib.cli.profiles import check_profile, default_profile
from toolcrib.cli.project import Project, find_config, me, open_project, run
from toolcrib.cli.source import (
    Answered,
    Asked,
    Explained,
    Placed,
    Proved,
    Read,
    Requests,
    Tools,
)
from toolcrib.cli.trailing import NO_CALL, read_calls, read_events, write_events
from toolcrib.errors import ConfigError
from toolcrib.host.reports.audit import Verified, verify_trail
from toolcrib.host.reports.describing import Listed, described, no_tool, plugin_rows, provider_rows

if TYPE_CHECKING:
    from toolcrib.core.approval import ApprovalDecision, ApprovalRequest, Grant
    from toolcrib.core.decision import Explanation
    from toolcrib.core.events import Event
    from toolcrib.core.protocols import Store
    from toolcrib.host.history import CallSummary, Wanted
    from toolcrib.host.host import ToolHost
    from toolcrib.host.reports.fates import Fate
    from toolcrib.host.reports.findings import Finding
    from toolcrib.host.reports.overview import Overview
    from toolcrib.host.reports.settings import Checked
    from toolcrib.host.session import Session

INVARIANTS = "policy.yaml"
_MOST = 10_000


class Local:
    """Reads the configuration when something of it is asked for, and not before."""

    def __init__(self, config: str | None) -> None:
        self._given = config

    @cached_property
    def project(self) -> Project:
        """The project. Raises `Mistake` or `ConfigError`."""
        return open_project(self._given)

    # Tools and calls.

    def tools(self, *, profile: str | None, who: str | None) -> Tools:
        project = self.project
        check_profile(profile, project.config.profiles)

        def find(host: ToolHost) -> Tools:
            found = host.tools(profile=profile, principal=who)
            missing = host.calling.unlisted()
            return Tools([Listed(tool.spec, tool.unavailable) for tool in found], missing)

        return project.look(find)

    def describe(self, name: str) -> dict[str, Any]:
        def find(host: ToolHost) -> dict[str, Any]:
            entry = host.catalog.get(name)
            if entry is None:
                raise Mistake(no_tool(host, name))
            return described(entry, host.redactor.value)

        return self.project.look(find)

    def check(self) -> Sequence[Fate]:
        from toolcrib.host.reports.checking import check_tools

        return check_tools(self.project)

    def call(self, asked: Asked) -> Placed:
        from toolcrib.cli.approving import Desk, place_call

        project = self.project
        check_profile(asked.profile, project.config.profiles)
        project.prepare()
        desk = Desk(project, asked.profile or default_profile(project.config), asked.wait)
        host = project.host(approver=desk)
        # A provider's tool is known only once the provider is up; then its schema types the words.
        late = host.get(asked.tool) is None and bool(host.sources.wanted)
        arguments = None if late else asked.read(host.get(asked.tool))
        result = run(place_call(host, project, asked, arguments, desk))
        return Placed(result, host.get(asked.tool), list(_forgotten(host, asked.tool)))

    def explain(self, name: str, read: Read, *, profile: str | None, who: str | None) -> Explained:
        project = self.project
        check_profile(profile, project.config.profiles)
        grants = self.grants(live=True)

        def look(host: ToolHost) -> Explained:
            session = self._session(host, who, profile)
            arguments = read(host.get(name))
            said = host.explain(name, arguments, principal=who, profile=profile, session=session)
            return Explained(said, _covering(grants, host, said))

        return project.look(look)

    def overview(self, *, profile: str | None, who: str | None) -> Overview:
        from toolcrib.host.reports.overview import overview

        check_profile(profile, self.project.config.profiles)
        return self.project.look(
            lambda host: overview(host, who, profile, self._session(host, who, profile))
        )

    def _session(self, host: ToolHost, who: str | None, profile: str | None) -> Session | None:
        """A session as `call` has it, never opened; None when there can be none, which is
        explained."""
        folder = self.project.folder
        try:
            return host.session(principal=who, profile=profile, cwd=folder, door="cli")
        except ConfigError:
            return None

    # People.

    def requests(self, *, every: bool) -> list[ApprovalRequest]:
        async def work(store: Store) -> list[ApprovalRequest]:
            return await store.requests(state=None if every else "pending")

        return self.project.read(work, [])

    def request(self, id: str) -> ApprovalRequest:
        async def work(store: Store) -> list[ApprovalRequest]:
            exact = await store.get_request(id)
            return [exact] if exact is not None else await store.requests(state=None, limit=_MOST)

        found = {request.id: request for request in self.project.read(work, [])}
        return found[meant(id, found, "approval", ". `toolcrib approvals --all` lists them")]

    def covering(self, request: ApprovalRequest) -> Grant | None:
        from toolcrib.cli.grants import covering_request

        return covering_request(self.grants(live=True), request)

    def answer(self, ids: Sequence[str], answer: ApprovalDecision) -> list[Answered]:
        project = self.project
        if project.store is None or not project.store.exists():
            raise Mistake(f"there is no approval {ids[0]!r}: nothing was asked yet")
        tools = None if answer.arguments is None else project.host()
        whole, unknown = self._whole_ids(ids)

        async def work() -> list[Answered]:
            async with project.desk() as host:
                if tools is not None and answer.arguments is not None:
                    request = await host.approvals.get(whole[0])
                    _refuse_unfit(request, tools.approvals.problems(request, answer.arguments))
                fates = await host.approvals.decide_many(
                    whole,
                    allow=answer.answer == "allow",
                    note=answer.note,
                    reach=answer.reach,
                    arguments=answer.arguments,
                    by=me(),
                    via="cli",
                )
                return [Answered(fate.id, fate.error, fate.request) for fate in fates]

        return [*(run(work()) if whole else ()), *unknown]

    def _whole_ids(self, given: Sequence[str]) -> tuple[list[str], list[Answered]]:
        """The ids that are meant, each once, and of the others what is wrong with them."""

        async def work(store: Store) -> set[str]:
            exact = {each for each in given if await store.get_request(each) is not None}
            if exact.issuperset(given):
                return exact
            return exact.union(r.id for r in await store.requests(state=None, limit=_MOST))

        return whole_ids(given, self.project.read(work, set()))

    def watch(self) -> AbstractAsyncContextManager[Requests]:
        from toolcrib.cli.watching import watch_here

        if self.project.store is None:
            raise Mistake("host.store is memory: the requests of other processes cannot be seen")
        return watch_here(self.project)

    def grants(self, *, live: bool) -> list[Grant]:
        async def work(store: Store) -> list[Grant]:
            return await store.grants(live=live)

        return self.project.read(work, [])

    def revoke(self, ids: Sequence[str]) -> list[tuple[str, bool]]:
        project = self.project
        if project.store is None or not project.store.exists():
            raise Mistake(f"there is no grant {ids[0]!r}: nothing was approved yet")

        async def work() -> list[tuple[str, bool]]:
            async with project.desk() as host:
                return [(each, await host.approvals.revoke(each, by=me())) for each in ids]

        return run(work())

    # The trail.

    def nothing_kept(self) -> str:
        if self.project.store is None:
            return "Nothing is kept: host.store is memory."
        return "Nothing is on the trail yet."

    def calls(self, wanted: Wanted, limit: int) -> list[CallSummary] | None:
        return self.project.read(lambda store: read_calls(store, wanted, limit), None)

    def trail(self, id: str) -> list[Event]:
        from toolcrib.host.history import History, Wanted

        async def work(store: Store) -> list[Event]:
            exact = await History(store).search(Wanted(call_id=id))
            if exact:
                return exact
            known = {event.call_id or "" async for event in History(store).events()}
            whole = meant(id, known, "call", NO_CALL)
            return await History(store).search(Wanted(call_id=whole))

        events = self.project.read(work, None)
        if events is None:
            raise Mistake(f"there is no call {id!r}{NO_CALL}")
        return events

    def cancel(self, ids: Sequence[str]) -> list[tuple[str, bool]]:
        raise Mistake(
            "a call is stopped by the host that runs it. Name that host with --url; "
            "Ctrl-C stops a call of your own"
        )

    def endings(self) -> AbstractAsyncContextManager[AsyncGenerator[Event]]:
        from toolcrib.cli.watching import follow_here

        if self.project.store is None:
            raise Mistake("host.store is memory: calls of other processes cannot be seen")
        return follow_here(self.project)

    def events(self, wanted: Wanted, limit: int) -> list[Event] | None:
        return self.project.read(lambda store: read_events(store, wanted, limit), None)

    def export(self, wanted: Wanted, stream: TextIO) -> int | None:
        return self.project.read(lambda store: write_events(store, wanted, stream), None)

    def verified(self) -> Verified | None:
        project = self.project
        return project.read(lambda store: verify_trail(store, project.key, project.anchor), None)

    # The host.

    def settings(self) -> str:
        from toolcrib.host.config import show_config

        return show_config(find_config(self._given))

    def check_settings(self) -> Checked:
        from toolcrib.host.reports.settings import check_settings

        return check_settings(find_config(self._given))

    def prove(self, file: Path | None) -> Proved:
        from toolcrib.host.verify import verify

        project = self.project
        if file is None and (beside := project.path.parent / INVARIANTS).is_file():
            file = beside
        report = project.look(lambda host: verify(host, file))
        return Proved(report, None if file is None else str(file))

    def findings(self) -> Sequence[Finding]:
        from toolcrib.host.reports.findings import Finding, examine, misread

        try:
            return examine(self.project)
        except ConfigError as error:
            return examine(None, [misread(error)])
        except Mistake as error:
            what, _, cure = error.message.partition(". ")
            return examine(None, [Finding("config", "fail", what, cure or None)])

    def providers(self) -> list[dict[str, Any]]:
        return self.project.look(provider_rows)

    def review(self, provider: str) -> dict[str, Any]:
        return self.project.look(lambda host: host.sources.review(provider))

    def decide(
        self, provider: str, shown: Mapping[str, str | None], *, accept: bool
    ) -> dict[str, Any]:
        return self.project.look(
            lambda host: host.sources.decide(provider, shown, me(), accept=accept)
        )

    def plugins(self) -> list[dict[str, Any]]:
        from toolcrib.host.plugins import find_plugins
        from toolcrib.host.reports.quiet import no_compiled_files, stdout_is_talk

        try:
            config = self.project.config
        except Mistake:
            if self._given is not None:
                raise
            # Plug-ins are installed whether or not a project stands here.
            config = None
        with stdout_is_talk(), no_compiled_files():
            found = find_plugins(() if config is None else config.plugins)
        return plugin_rows(found, config)

    def version(self) -> str:
        return __version__


def whole_ids(given: Sequence[str], known: set[str]) -> tuple[list[str], list[Answered]]:
    """The approvals that are meant, each once, and of the others what is wrong with them."""
    whole: list[str] = []
    unknown: dict[str, Answered] = {}
    for each in given:
        try:
            whole.append(meant(each, known, "approval", ". `toolcrib approvals` lists them"))
        except Mistake as mistake:
            unknown[each] = Answered(each, mistake.message, None, known=False)
    return list(dict.fromkeys(whole)), list(unknown.values())


def _refuse_unfit(request: ApprovalRequest, problems: Sequence[str]) -> None:
    if problems:
        raise Mistake(unfit(request.tool, request.id, problems))


def unfit(tool: str, id: str, problems: Sequence[str]) -> str:
    """That changed arguments cannot be used."""
    wrong = "".join(f"\n  {problem}" for problem in problems)
    return f"the arguments do not fit {tool}; {id} waits:{wrong}"


def _forgotten(host: ToolHost, name: str) -> Sequence[str]:
    """That what was just written is lost already: the process that keeps it ends here."""
    spec = host.get(name)
    found: list[str] = []
    for provider, given in host.config.providers.items():
        kept = given.get("type") != "storage" or given.get("backend", "memory") != "memory"
        if kept or spec is None or spec.name != f"{given.get('prefix') or provider}-write":
            continue
        cure = "write backend: sqlite to keep it"
        found.append(f"{provider} keeps this until this process ends; {cure}")
    return found


def _covering(found: Sequence[Grant], host: ToolHost, said: Explanation) -> Grant | None:
    """The one of these grants that lets an explained call pass without a question."""
    from toolcrib.cli.grants import covering_call

    plan = host.planner.plan(said.tool, host.callers.profile(said.profile), None)
    if plan is None or said.verdict != "ask":
        return None
    return covering_call(found, said, plan.spec.digest, plan.revision)
