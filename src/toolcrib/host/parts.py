"""What a started host consists of, joined together."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.core.clock import SYSTEM, Clock
from toolcrib.core.events import Event
from toolcrib.core.settings import HostSettings
from toolcrib.errors import ConfigError, StoreError
from toolcrib.observe.log import escape
from toolcrib.observe.redact import Redactor
from toolcrib.observe.trail import Trail
from toolcrib.pipeline.pipeline import Pipeline

if TYPE_CHECKING:
    from toolcrib.approvals.inbox import Inbox
    from toolcrib.core.context import ToolContext
    from toolcrib.core.protocols import Approver, Exporter, Store
    from toolcrib.host.host import ToolHost

    Schemes = Mapping[str, Callable[[str], Store]]

_log = logging.getLogger("toolcrib")


class _Default(str):
    """The store of a host that was told nothing; a configuration may name another one."""

    __slots__ = ()


DEFAULT_STORE = _Default("memory")


class Parts:
    """Store, trail, inbox and pipeline of one host."""

    def __init__(
        self,
        host: ToolHost,
        store: Store,
        trail: Trail,
        pipeline: Pipeline,
        approver: Approver | None,
        exporters: Sequence[Exporter],
        key: bytes,
    ) -> None:
        self.host = host
        self.key = key
        """What signs the trail."""
        self.store = store
        self.trail = trail
        self.pipeline = pipeline
        self._approver = approver
        self._exporters = exporters
        self.opened = False
        self._lock = threading.Lock()
        self._opening: Future[None] | None = None
        """Done when the task that opens the store just now has finished with it."""

    @cached_property
    def inbox(self) -> Inbox:
        """What waits for people; there from the first question on, or the first look at them."""
        from toolcrib.approvals import inbox

        return inbox.Inbox(
            self.store,
            approver=self._approver,
            announce=self._announce,
            clock=self.host.clock.time,
            new_id=lambda: f"g{os.urandom(6).hex()}",
        )

    def _announce(self, type: str, call_id: str | None, data: dict[str, Any]) -> None:
        shown = self.host.redactor.value(data)
        self.trail.fact(type, call_id, shown)
        self.host.bus.tell(Event(id="", type=type, time=time.time(), call_id=call_id, data=shown))
        if type == "approval.decided":
            self.host.metrics.approved(str(data.get("answer")), float(data.get("wait_s") or 0.0))

    async def open(self) -> bool:
        """Open the store and start the exporters, once; whoever comes meanwhile waits for it.
        True for the one who did it."""
        while not self.opened:
            mine: Future[None] = Future()
            with self._lock:
                other = self._opening
                if other is None:
                    self._opening = mine
            if other is not None:
                await asyncio.shield(asyncio.wrap_future(other))
                continue
            try:
                if not self.opened:
                    await self._open()
                    return True
            finally:
                with self._lock:
                    self._opening = None
                mine.set_result(None)
        return False

    async def _open(self) -> None:
        await self.store.open()
        for exporter in self._exporters:
            self.host.bus.add_exporter(exporter)
        await self.host.bus.start()
        self.host.metrics.follow(lambda: self.pipeline.in_flight, lambda: self.trail.written)
        self.trail.fact("host.started", None, {"tools": len(self.host.catalog)})
        self.store.poke(now=True)
        await self.pipeline.leases.sweep()
        self.opened = True

    def renew(self, settings: HostSettings, redactor: Redactor) -> None:
        """Take over changed settings."""
        self.pipeline.take(settings, redactor)
        self.pipeline.record.settings = settings
        self.pipeline.record.hider = redactor

    def new_call_id(self) -> str:
        """A call id that no other call has."""
        return self.pipeline.new_id()

    async def drain(self, seconds: float) -> None:
        """Wait for running calls; those that take too long are cancelled. What waits for a person
        ends at once: the question stays, and an equal call finds its answer."""
        for wheel in list(self.pipeline.wheels.values()):
            for flight in list(wheel.running):
                if flight.decision.verdict == "ask" and not flight.attempt:
                    wheel.stop(flight, "host_stopping")
        await self._quiet(seconds)
        for wheel in list(self.pipeline.wheels.values()):
            for flight in list(wheel.running):
                wheel.stop(flight, "host_stopping")
        await self._quiet(1.0)
        self.pipeline.give_up()

    async def _quiet(self, seconds: float) -> None:
        # Calls may run in several loops, so there is no one event to wait for.
        for _ in range(int(seconds / 0.01)):
            if not self.pipeline.in_flight:
                return
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        """Write what is left and close."""
        if "inbox" in vars(self):
            await self.inbox.close()
        self.pipeline.leases.close()
        self.trail.fact("host.stopped", None, {})
        await self.host.bus.stop(5.0)
        await self.store.close()
        self.trail.finish()

    def say(self, ctx: ToolContext, type: str, data: dict[str, Any]) -> None:
        """Something a running tool has to say: its own facts are kept, the rest only told."""
        shown = self.host.redactor.value(data)
        if type == "tool.emitted":
            self.pipeline.record.note(ctx, type, {**shown, "tool": ctx.tool})
            return
        if type == "tool.log" and _log.isEnabledFor(logging.INFO):
            _log.info("%s: %s", ctx.tool, escape(str(shown.get("message", ""))))
        bus = self.host.bus
        if type == "approval.joined":
            # Only for who follows this call: the question is on the trail, with the call that
            # asked it.
            now, asked = time.time(), "approval.requested"
            bus.tell(Event(id="", type=asked, time=now, call_id=ctx.call_id, data=shown))
            return
        if bus.heard:
            told = {**shown, "tool": ctx.tool}
            event = Event(id="", type=type, time=time.time(), call_id=ctx.call_id, data=told)
            bus.tell(event)
            if bus.active:
                bus.publish(event)

    async def follow(self, after: str | None) -> AsyncIterator[Event]:
        """Events as they happen; with `after`, first those on the trail behind that event id."""
        subscription = self.host.bus.subscribe()
        last, own, lost = after, after, 0
        try:
            while after is not None:
                async for event in self.replay(last or ""):
                    last = event.id
                    if event.id.startswith(f"{self.trail.run}."):
                        own = event.id
                    yield event
                if subscription.dropped == lost:
                    break
                # More happened meanwhile than was kept for this reader: the trail has it.
                lost = subscription.dropped
            async for event in subscription:
                if own and event.id and self._not_behind(event.id, own):
                    continue
                yield event
        finally:
            subscription.close()

    async def replay(self, after: str) -> AsyncIterator[Event]:
        """The stored events behind an event id, in writing order; all of them for an empty one.
        Raises `NotFound`."""
        from toolcrib.host.history import History

        await self.store.flush()
        history = History(self.store)
        found = history.behind(await history.find(after)) if after else history.events()
        async for event in found:
            yield event

    def _not_behind(self, event_id: str, last: str) -> bool:
        """Whether an event of this run is not behind `last`."""
        run, seq, index = event_id.rsplit(".", 2)
        other, last_seq, last_index = last.rsplit(".", 2)
        return run == other and (int(seq), int(index)) <= (int(last_seq), int(last_index))

    async def read_trail(self, *, call_id: str | None, limit: int) -> list[Event]:
        """The newest events, oldest first."""
        from toolcrib.host.history import History, Wanted

        await self.store.flush()
        return await History(self.store).search(Wanted(call_id=call_id), limit=limit)


def start_parts(
    host: ToolHost,
    *,
    store: str | Store,
    settings: HostSettings,
    approver: Approver | None,
    exporters: Sequence[Exporter],
) -> Parts:
    """Build the parts; nothing is opened yet."""
    kept = open_store(store, settings, host.clock, host.registrar.stores)
    key = _key(kept, settings)
    trail = Trail(
        kept,
        key,
        run=f"{int(time.time()):x}{os.urandom(3).hex()}",
        anchor=settings.audit_anchor,
        bus=host.bus,
    )

    pipeline = Pipeline(
        settings=settings,
        trail=trail,
        hider=host.redactor,
        asker=lambda: parts.inbox,
        clock=host.clock,
        keep=host.artifacts.keep,
        replan=host.calling.replan,
        runtime=host,
        ledger=kept,
    )
    parts = Parts(host, kept, trail, pipeline, approver, exporters, key)
    return parts


def open_store(
    store: str | Store, settings: HostSettings, clock: Clock = SYSTEM, known: Schemes | None = None
) -> Store:
    """The store that is named, or given."""
    if not isinstance(store, str):
        return store
    name = settings.store if store is DEFAULT_STORE and settings.store is not None else store
    kind, _, path = name.partition(":")
    if name == "memory":
        from toolcrib.stores.memory import MemoryStore

        return MemoryStore(clock=clock.time)
    if kind == "sqlite" and path:
        from toolcrib.stores.sqlite import SqliteStore

        return SqliteStore(path, clock=clock.time)
    if known and kind in known:
        return known[kind](path)
    raise ConfigError(f"{name!r} is not a store", cure="Use memory or sqlite:PATH")


def _key(store: Store, settings: HostSettings) -> bytes:
    """The key that signs the trail; one that is not kept signs only for this process."""
    path = settings.audit_key
    if path is None:
        if not store.durable:
            return os.urandom(32)
        if store.path is None:
            raise ConfigError(
                f"the store {store.name} does not say where its trail's key is kept",
                cure="Name a file with host: {audit: {key: FILE}}",
            )
        path = f"{store.path}.key"
        if store.path.exists() and store.path.stat().st_size and not Path(path).exists():
            raise StoreError(
                f"the store {store.path} has a trail and its key {path} is missing. Restore the "
                "key, or move the store away to begin anew"
            )
    from toolcrib.stores.keys import load_key

    return load_key(Path(path))
