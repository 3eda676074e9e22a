"""Keeps one provider alive: starts it, looks after it, starts it again."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from toolcrib.core.clock import SYSTEM, Clock
from toolcrib.core.entry import Entry, Unavailable
from toolcrib.core.protocols import Provider
from toolcrib.core.spec import ToolSpec
from toolcrib.core.units import format_duration
from toolcrib.errors import ToolcribError
from toolcrib.host.breaker import Breaker
from toolcrib.host.provider_calls import Calls
from toolcrib.host.provider_life import Life
from toolcrib.host.provider_settings import ProviderSettings, ProviderStatus, State
from toolcrib.host.publishing import Publish, entries_of
from toolcrib.observe.log import escape

T = TypeVar("T")
_log = logging.getLogger("toolcrib")
_SETTLE = 0.05
"""Seconds in which several changes of a provider's tools are taken for one."""
_SETTLE_MOST = 2.0
"""The same, for one whose tools change all the time."""
_OFTEN = 1.0
"""Seconds after a look at the tools in which another change is one too many."""
_DOUBT = 1.0
"""Seconds between two looks at its health that failing calls ask for."""


class Supervisor:
    """One provider, kept alive in a task of its own.

    Whatever the provider does (fail, hang, vanish, list nonsense), nobody waits for it: its tools
    stay listed as unavailable and it is tried again, ever more rarely. Every attempt builds a new
    one with `factory()`. `start` returns at once; `first` waits for the end of the first attempt.
    """

    def __init__(
        self,
        name: str,
        factory: Callable[[], Provider],
        *,
        publish: Publish,
        announce: Callable[[str, dict[str, Any]], None],
        settings: ProviderSettings | None = None,
        clock: Clock = SYSTEM,
        retained: Sequence[ToolSpec] = (),
        hide: Callable[[str], str] = str,
        owner: str | None = None,
    ) -> None:
        self.name = name
        self.settings = settings or ProviderSettings()
        self._factory = factory
        self._publish = publish
        self._announce = announce
        self._clock = clock
        self._secrets = hide
        self.owner = owner or f"provider {name}"
        """What its tools name as theirs."""
        self._breaker = Breaker(
            failures=self.settings.breaker_failures,
            open_for=self.settings.breaker_open,
            clock=clock,
        )
        self._calls = Calls(name, self._breaker, self._doubt)
        self._entries: list[Entry] = []
        """What it listed last, without marks."""
        self._refused: list[str] = []
        self._take(retained)
        self._state: State = "stopped"
        self._since = clock.time()
        self._down: str | None = None
        """What callers are told while it is not up."""
        self._problems: tuple[str, ...] = ()
        self._error: str | None = None
        self._restarts = 0
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake, self._tried = asyncio.Event(), asyncio.Event()
        self._changed = self._again = False
        self._looked = 0.0

    # What others do with it.

    def start(self) -> None:
        """Begin to keep it alive, in the running loop; nothing, while that goes on already."""
        if self._task is not None and not self._task.done() and self._task.get_loop().is_running():
            return
        self._loop = asyncio.get_running_loop()
        self._wake, self._tried = asyncio.Event(), asyncio.Event()
        self._keep_away("starting", f"the provider {self.name} is starting")
        self._task = self._loop.create_task(self._live(), name=f"supervisor of {self.name}")

    async def first(self) -> bool:
        """Wait until the newest attempt has ended, well or not; whether the provider is up."""
        await self._at_home(self._tried.wait)
        return self._state == "up"

    @property
    def provider(self) -> Provider | None:
        """What runs its calls now; None while it is not up."""
        return self._calls.provider

    @property
    def trying(self) -> bool:
        """Whether its first attempt, or one that somebody asked for, has not ended yet."""
        return not self._tried.is_set()

    async def stop(self, *, withdraw: bool = True) -> None:
        """Let go of the provider and stop; with `withdraw` its tools leave the catalog."""
        await self._at_home(self._stop)
        self._task = None
        self._tried.set()
        self._keep_away("stopped", f"the provider {self.name} was stopped")
        if withdraw:
            self._entries = []
            self._show(None)

    async def restart(self) -> ProviderStatus:
        """Start it anew, now, with all its tools; how it is after that attempt."""
        if self._task is None or self._task.done():
            self.start()
        else:
            self._tried.clear()
            self._again = True
            await self._at_home(self._rouse)
        await self.first()
        return self.status()

    def changed(self) -> None:
        """Something is new at the provider: look at its health and its tools. From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._changed = True
            self._loop.call_soon_threadsafe(self._wake.set)

    def republish(self) -> None:
        """Have its tools published once more: what may be published has changed."""
        self._show(self._mark)

    async def forget(self, session_id: str) -> None:
        """A session has ended: let the provider drop what it keeps for it, if it does."""

        async def work() -> None:
            provider: Any = self._calls.provider
            if hasattr(provider, "forget"):
                await asyncio.wait_for(provider.forget(session_id), self.settings.health_timeout)

        try:
            await self._at_home(work)
        except Exception as error:
            self._report("could not forget a session", type(error).__name__, error)

    def status(self) -> ProviderStatus:
        """How it is now."""
        tripped = self._state == "up" and self._breaker.open
        return ProviderStatus(
            name=self.name,
            state="open" if tripped else self._state,
            since=self._since,
            tools=len(self._entries),
            problems=self._problems,
            error=self._error,
            restarts=self._restarts,
            calls=self._calls.running,
        )

    # Its task.

    async def _live(self) -> None:
        attempt = 0
        while True:
            attempt += 1
            self._again = self._changed = False
            began = asyncio.get_running_loop().time()
            error = await self._one_life(attempt)
            self._restarts += 1
            if error is None:
                attempt = 0
                continue
            if asyncio.get_running_loop().time() - began >= self.settings.restart_most:
                attempt = 1  # it was up for long, or at least took its time
            self._attempt_ended()
            await self._rest(self._pause(attempt))

    async def _one_life(self, attempt: int) -> Exception | None:
        """From entering to leaving: what ended it, or None when it was asked to end."""
        limits, life = self.settings, None
        try:
            provider: Any = self._factory()
            if not self._entries and hasattr(provider, "known_tools"):
                self._take(provider.known_tools())
                self._show(self._mark)
            if hasattr(provider, "follow"):
                provider.follow(self.changed)
            life = Life(provider)
            began = asyncio.get_running_loop().time()
            await life.enter(limits.start_timeout)
            left = began + limits.start_timeout - asyncio.get_running_loop().time()
            self._take(await life.ask(life.provider.list_tools, max(left, 0.001)), life.provider)
            self._is_up(life.provider, attempt)
            await self._watch(life)
            self._is_down("it is being started anew", attempt, state="starting")
            await self._calls.drain(limits.stop_timeout)
        except Exception as error:
            words, notes = self._words(error), getattr(error, "__notes__", ())
            news = self._is_down(words, attempt)
            # What a server wrote before it ended is for people, and for no model to read.
            told = "; ".join((words, *notes))
            self._error = self._hide(told)
            if news:
                self._report("is down", told, error)
            return error
        finally:
            try:
                if life is not None:
                    await life.leave(limits.stop_timeout)
            finally:
                self._calls.cut()
        return None

    async def _watch(self, life: Life) -> None:
        """Look after it until it fails, or until it is to be started anew."""
        life.task.add_done_callback(lambda _: self._wake.set())
        provider: Any = life.provider
        clock, pause, last = asyncio.get_running_loop().time, _SETTLE, -_OFTEN
        while not self._again:
            if self._changed:
                # One that says so again and again is listened to less and less.
                pause = min(pause * 2, _SETTLE_MOST) if clock() - last < _OFTEN else _SETTLE
                await asyncio.wait({life.task}, timeout=pause)
                if life.task.done():
                    raise life.error()
                self._changed = False
                listed = await life.ask(provider.list_tools, self.settings.start_timeout)
                self._take(listed, provider)
                self._show(None)
                last = clock()
            await self._nap(self.settings.health_every)
            if life.task.done():
                raise life.error()
            if hasattr(provider, "health"):
                self._looked = asyncio.get_running_loop().time()
                await life.ask(provider.health, self.settings.health_timeout)

    async def _stop(self) -> None:
        task = self._task
        if task is None or task.done():
            return
        if self._state == "up":
            self._calls.close(f"the provider {self.name} was stopped")
            await self._calls.drain(self.settings.stop_timeout)
        task.cancel()
        await asyncio.wait({task})  # every wait in it has its limit

    async def _rouse(self) -> None:
        self._wake.set()

    async def _nap(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    async def _rest(self, seconds: float) -> None:
        """The pause before the next attempt; only a person can cut it short."""
        until = asyncio.get_running_loop().time() + seconds
        while not self._again and (left := until - asyncio.get_running_loop().time()) > 0:
            await self._nap(left)

    def _pause(self, attempt: int) -> float:
        pause = self.settings.restart_first * 2.0 ** min(attempt - 1, 30)
        spread = 0.8 + 0.4 * random.random()  # noqa: S311 - keeps many hosts from coming at once
        return min(pause, self.settings.restart_most) * spread

    def _doubt(self) -> None:
        """A call failed at the provider: look at its health soon, though not at every call."""
        now = 0.0 if self._loop is None else self._loop.time()
        if now - self._looked >= _DOUBT:
            self._looked = now
            self._wake.set()

    async def _at_home(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Do something in the loop where the provider lives; nothing, when that loop is gone."""
        home = self._loop
        if home is None or home is asyncio.get_running_loop():
            return await work()
        if not home.is_running():
            return None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), home))

    # What is told about it.

    @property
    def _mark(self) -> Unavailable | None:
        down = self._down
        return None if down is None else Unavailable("tool_unavailable", down, self._since)

    def _is_up(self, provider: Provider, attempt: int) -> None:
        self._calls.open(provider)
        self._into("up")
        self._down = None
        self._show(None)
        self._say("provider.up", attempt=attempt, problems=list(self._problems))
        self._attempt_ended()

    def _attempt_ended(self) -> None:
        if not self._again:  # whoever asked for a new start waits for that one
            self._tried.set()

    def _is_down(self, words: str, attempt: int, state: State = "down") -> bool:
        """Whether that is news: the same again, at every attempt, is none."""
        words = self._hide(words)
        before = self._down
        self._keep_away(state, f"the provider {self.name} is down: {words}")
        if self._down == before:
            return False
        self._say("provider.down", attempt=attempt, reason=words)
        return True

    def _keep_away(self, state: State, message: str) -> None:
        """Have calls end at once, with this message."""
        if self._state != state:
            self._into(state)
        self._calls.close(message)
        if self._down != message:
            self._down = message
            self._show(self._mark)

    def _into(self, state: State) -> None:
        self._state, self._since = state, self._clock.time()

    def _take(self, specs: Sequence[ToolSpec], provider: Any = None) -> None:
        self._entries, refused = entries_of(specs, self._calls.execute, self.owner)
        self._refused = [*refused, *map(str, getattr(provider, "problems", ()))]

    def _show(self, mark: Unavailable | None) -> None:
        try:
            problems = self._publish([entry.marked(mark) for entry in self._entries])
        except Exception:
            _log.exception("the tools of provider %s could not be published", self.name)
            return
        said = tuple(map(self._hide, (*self._refused, *(problems or ()))))
        for problem in set(said) - set(self._problems):
            _log.warning("provider %s: %s", self.name, problem)
        self._problems = said

    def _hide(self, text: str) -> str:
        """Words about errors made harmless: no secrets, and nothing that a terminal obeys."""
        return escape(self._secrets(text))

    def _say(self, event: str, **data: Any) -> None:
        about = {"provider": self.name, "tools": len(self._entries), "since": self._since}
        try:
            self._announce(event, about | data)
        except Exception:
            _log.exception("%s of provider %s could not be announced", event, self.name)

    def _words(self, error: Exception) -> str:
        """What happened, in words that come from us, from the provider or from the system."""
        if isinstance(error, TimeoutError):
            up = self._state == "up"
            limit = self.settings.health_timeout if up else self.settings.start_timeout
            return f"it did not {'answer' if up else 'start'} within {format_duration(limit)}"
        if isinstance(error, ToolcribError):
            return str(error)
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        return f"{type(error).__name__}; the log has the details"

    def _report(self, what: str, words: str, error: Exception) -> None:
        if not isinstance(error, ToolcribError | TimeoutError):
            words = "".join(traceback.format_exception(error)).rstrip()
            words = "\n".join(map(self._hide, words.split("\n")))
        else:
            words = self._hide(words)
        _log.warning("provider %s %s: %s", self.name, what, words)
