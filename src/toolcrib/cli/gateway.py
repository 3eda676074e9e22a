"""A host that serves, as its operator sees it: what is said at the start, calls, questions."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toolcrib import __version__
from toolcrib.cli.logs import log_shown
from toolcrib.cli.output import Mistake, at_terminal, many, say
from toolcrib.cli.plain import Serve
from toolcrib.cli.plan import ALONE, Plan, plan_for
from toolcrib.cli.project import me
from toolcrib.core.events import Event
from toolcrib.errors import ConfigError, NotFound
from toolcrib.host.reports.quiet import stdout_is_talk
from toolcrib.observe.log import HumanLog, LineWriter

if TYPE_CHECKING:
    from toolcrib.core.serving import ServeSettings
    from toolcrib.host.host import ToolHost
    from toolcrib.transports.serving import Serving
    from toolcrib.transports.stdio import StdioDoor

_NAMED = 8
"""Tools that are named at the start; of more only the number is told."""
_ASKED = 16
"""Callers that are looked at for it."""
_TURN = 0.002
"""Seconds that a thread keeps the interpreter while another one wants it."""
_GARBAGE = (20_000, 20, 20)
"""How many objects are made before those that hold each other are looked for. Calls leave hardly
any behind, and by default a tenth of a busy gateway's time would go into looking."""
_UNSAID = frozenset({"host.started", "host.stopped", "catalog.changed"})
"""What the operator knows, or can ask for."""


def serve_with(typed: Serve) -> int:
    """Serve what was asked for, until told to stop; the exit code."""
    if typed.stdio and typed.as_json:
        raise Mistake("with --stdio standard output is for the protocol. Leave --json out")
    if typed.approve and (typed.stdio or not at_terminal()):
        raise Mistake("there is no terminal to ask at. Leave --approve out")
    ask = not typed.stdio and at_terminal() if typed.approve is None else typed.approve
    gc.disable()  # nearly all that is made until it serves stays; `_ready` turns it on again
    gateway = Gateway(quiet=typed.quiet, ask=ask)
    with gateway.stdout(protocol=typed.stdio, json=typed.as_json):
        plan = plan_for(typed)
        settings = plan.settings(typed)
        doors = ["stdio"] if typed.stdio else []
        if not typed.stdio or typed.listen is not None or typed.unix is not None:
            doors.append("http")
        return gateway.run(plan, settings, doors)


class Gateway:
    """One run of `toolcrib serve`."""

    def __init__(self, *, quiet: bool, ask: bool) -> None:
        self._ask = ask
        self._log = _Log(quiet)
        self._door: StdioDoor | None = None
        self._announce: Callable[[str], None] | None = None

    @contextmanager
    def stdout(self, *, protocol: bool, json: bool) -> Generator[None]:
        """Standard output is for the protocol, for one line of JSON, or for nothing; what tools
        print goes to standard error from here on."""
        if protocol:
            from toolcrib.transports.stdio import StdioDoor

            self._door = StdioDoor()
            self._door.claim()
            yield
            return
        with ExitStack() as stack:
            if json:
                out = stack.enter_context(os.fdopen(os.dup(1), "w", encoding="utf-8"))
                self._announce = lambda text: print(text, file=out, flush=True)
            stack.enter_context(stdout_is_talk())
            yield

    def run(self, plan: Plan, settings: ServeSettings, doors: Sequence[str]) -> int:
        """Serve until told to stop; the exit code."""
        from toolcrib.transports.serving import new_loop, serve

        # Events are only made where somebody listens: a quiet gateway's calls are cheaper.
        told = () if self._log.quiet else (self._log,)
        host = plan.host(exporters=told, approver=self._approver())

        async def work() -> None:
            await serve(
                host,
                settings,
                doors=doors,
                ready=lambda serving: self._ready(plan, settings, serving),
                stdio=self._door,
            )

        # The trail is written in a thread. Asked for the interpreter, that gives it back this soon;
        # by default, whoever calls meanwhile would wait more than twice as long.
        sys.setswitchinterval(_TURN)
        try:
            hidden = self._log.starting(lambda line: host.redactor.text(line))
            with hidden, asyncio.Runner(loop_factory=new_loop()) as runner:
                runner.run(work())
        except ConfigError as error:
            from toolcrib.transports.http.listening import AddressTaken

            if not isinstance(error, AddressTaken):
                raise
            say(f"{error.message}. {error.cure}")
            return 5
        say("Stopped.")
        return 0

    def _approver(self) -> Any:
        if not self._ask:
            return None
        from toolcrib.approvals.terminal import TerminalApprover

        return TerminalApprover(by=me(), hold=self._log.hold)

    def _ready(self, plan: Plan, settings: ServeSettings, serving: Serving) -> None:
        """Say what is served where; then let lines of the log follow."""
        gc.freeze()  # what is there now stays, and need not be looked at
        gc.set_threshold(*_GARBAGE)
        gc.enable()
        host = serving.service.host
        profile = settings.http.profile or host.callers.default
        if serving.doors == ("stdio",):
            profile = settings.stdio.profile or profile
        names = _served(host, settings, serving)
        late = [each.name for each in host.sources.status() if each.state == "starting"]
        if self._announce is not None:
            told = {
                "version": __version__,
                "config": None if plan.name == ALONE else plan.name,
                "profile": profile,
                "tools": names,
                "http": [f"{url}/v1" for url in serving.urls],
                "mcp": [f"{url}/mcp" for url in serving.urls] if settings.mcp.enabled else [],
                "unix": serving.unix,
                "trail": plan.trail,
                "pid": os.getpid(),
            }
            import json

            self._announce(json.dumps(told, ensure_ascii=False))
        else:
            say("\n".join(_banner(plan, profile, names, late, serving, settings)))
        self._log.release(late)


def _served(host: ToolHost, settings: ServeSettings, serving: Serving) -> list[str]:
    """The tools that somebody may call here: over HTTP what the profile shows to anybody, and what
    those may call that the configuration names for the doors."""
    from toolcrib.transports.faults import Fault
    from toolcrib.transports.identity.standing import Standing, at_stdio, configured

    usual = settings.http.profile
    found: set[str] = set()
    callers: list[Callable[[], Standing]] = []
    if "stdio" in serving.doors:
        callers.append(partial(at_stdio, host, settings.stdio))
    if "http" in serving.doors:
        found.update(tool.name for tool in host.tools(profile=usual or host.callers.default))
        named = dict.fromkeys((token.principal, token.profile) for token in settings.tokens)
        callers += [partial(configured, host, who, held, usual) for who, held in named]
    for caller in callers[:_ASKED]:
        with suppress(Fault, NotFound):  # such a one is told at its first request
            one = caller()
            tools = host.tools(profile=one.profile, principal=one.principal)
            found |= {tool.name for tool in tools}
    return sorted(found)


def _banner(
    plan: Plan,
    profile: str | None,
    names: Sequence[str],
    late: Sequence[str],
    serving: Serving,
    settings: ServeSettings,
) -> Generator[str]:
    yield f"toolcrib {__version__}   {plan.name}   profile: {profile or 'none'}"
    if plan.name == ALONE and plan.config.providers:
        yield f"The profile {profile} was made for it: it allows every tool of these servers."
    elif plan.name == ALONE:
        yield f"The profile {profile} was made for it: it allows these tools and no others."
    yield ""
    more = f", … and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    yield _line(many(len(names), "tool"), ", ".join(names[:_NAMED]) + more)
    if late:
        yield _line("Starting", f"{', '.join(late)}; their tools follow")
    for url in serving.urls:
        if settings.mcp.enabled:
            yield _line("MCP", f"{url}/mcp")
        yield _line("HTTP", f"{url}/v1")
    if serving.unix is not None:
        yield _line("Unix", serving.unix)
    if "stdio" in serving.doors:
        kinds = "MCP or JSON-RPC" if settings.mcp.enabled else "JSON-RPC"
        yield _line("stdio", f"{kinds}, one message on a line")
    yield _line("Trail", plan.trail)
    yield ""
    yield f"{_reach(serving, settings)} Ctrl-C stops."


def _reach(serving: Serving, settings: ServeSettings) -> str:
    """Who can connect."""
    if not serving.urls and serving.unix is None:
        return "Only the program that started it can connect."
    if serving.urls and any(not place.loopback for place in settings.http.listen):
        return "Others can connect, with a token."
    return "Only this machine can connect."


def _line(name: str, text: str) -> str:
    return f"  {name:<10} {text}".rstrip()


class _Log:
    """Lines about calls and warnings: none before the start was told, none while a question is
    open."""

    mode: Literal["inline", "queued"] = "inline"
    name = "serve-log"

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self._calls = HumanLog()
        self._warnings = LineWriter()
        self._start = ExitStack()
        self._down: set[str] = set()

    @contextmanager
    def hold(self) -> Generator[None]:
        """Hold lines back."""
        with self._calls.hold(), self._warnings.hold():
            yield

    @contextmanager
    def starting(self, hide: Callable[[str], str]) -> Generator[None]:
        """Hold lines back until `release`, and have warnings of the library shown; `hide` takes the
        secrets out of them, as a function's exception may have some in its words."""
        with self._start, log_shown(self._warnings.write, hide):
            self._start.enter_context(self.hold())
            yield

    def release(self, late: Sequence[str]) -> None:
        """The start was told, and that these providers are not up yet."""
        self._down.update(late)
        self._start.close()

    async def export(self, batch: Sequence[Event]) -> None:
        """Write what there is to say of each event."""
        for event in batch:
            if event.type == "provider.down":
                self._down.add(event.data["provider"])  # a warning says it, with more words
            elif event.type == "provider.up":
                self._up(event)
            elif event.type not in _UNSAID:
                self._calls.write(event)

    def _up(self, event: Event) -> None:
        """That a provider is up is news only after it was not."""
        name = event.data["provider"]
        if name in self._down:
            self._down.discard(name)
            about = {"provider": name, "tools": event.data.get("tools")}
            self._calls.write(msgspec.structs.replace(event, data=about))
