"""Rates, quotas, budgets, loops and concurrency: how much may be used, and by whom."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from toolcrib.core.decision import Decision
from toolcrib.core.profile import Limit, Rate
from toolcrib.core.spec import ToolSpec
from toolcrib.pipeline.patterns import any_glob

Clock = Callable[[], float]
_GIL: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


class Refusal(msgspec.Struct, frozen=True):
    """Why a limit refuses, and when to come back."""

    decision: Decision
    retry_after: float | None


class Repeatable(Protocol):
    """A call that may be the same as one before."""

    def fingerprint(self) -> str: ...


class Meter:
    """The use of one limit by one counted party (a principal, a session, …)."""

    __slots__ = (
        "_budget_used",
        "_clock",
        "_burst",
        "_lock",
        "_places",
        "_period",
        "_period_used",
        "_repeats",
        "_speed",
        "_stamp",
        "_sweep_at",
        "_tokens",
        "_waiting",
        "limit",
        "running",
    )

    def __init__(self, limit: Limit, clock: Clock) -> None:
        self.limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = float(limit.calls.count) if limit.calls else 0.0
        self._speed = self._burst = 0.0
        """Tokens a second and their most, when the limit is a rate and perhaps places to run."""
        if limit.calls and not (limit.quota or limit.budget or limit.repeat) and _GIL:
            self._speed = limit.calls.count / limit.calls.seconds
            self._burst = float(limit.calls.count)
        self._places = limit.concurrent if limit.concurrent is not None else float("inf")
        self._stamp = clock()
        self._period: int = -1
        self._period_used = 0
        self._budget_used = 0
        self._repeats: dict[str, deque[float]] = {}
        self._sweep_at = 10_000
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self.running = 0

    def begin(self) -> bool:
        """Use one call and take a running place in one step, where the limit is that simple and
        both are free. False says that `take` and `enter` have to look."""
        speed = self._speed
        if not speed:
            return False
        # No lock: between the clock and the last line there is no call at which CPython could
        # switch threads. Free-threaded builds take the careful way.
        clock = self._clock
        now = clock()
        tokens = self._tokens + (now - self._stamp) * speed
        if tokens > self._burst:
            tokens = self._burst
        if tokens < 1.0 or self.running >= self._places or self._waiting:
            return False
        self.running += 1
        self._stamp = now
        self._tokens = tokens - 1.0
        return True

    def take(self, fingerprint: str | None) -> Refusal | None:
        """Use one call of the limit, or say why not. All or nothing."""
        with self._lock:
            now = self._clock()
            refusal = self._look(now, fingerprint)
            if refusal is not None:
                return refusal
            if self.limit.calls is not None:
                self._tokens -= 1.0
            if self.limit.quota is not None:
                self._period_used += 1
            self._budget_used += 1
            if self.limit.repeat is not None and fingerprint is not None:
                self._repeats.setdefault(fingerprint, deque()).append(now)
            return None

    def peek(self, fingerprint: str | None) -> Refusal | None:
        """Whether `take` would refuse now; uses nothing."""
        with self._lock:
            return self._look(self._clock(), fingerprint)

    def refund(self) -> None:
        """Give back what a call took that never started."""
        with self._lock:
            if self.limit.calls is not None:
                most = float(self.limit.calls.count)
                self._tokens += 1.0
                if self._tokens > most:
                    self._tokens = most
            self._period_used = max(0, self._period_used - 1)
            self._budget_used = max(0, self._budget_used - 1)

    def describe(self) -> str:
        """How much is used, in words."""
        limit, parts = self.limit, list[str]()
        with self._lock:
            if limit.calls is not None:
                self._refill(limit.calls, self._clock())
                used = limit.calls.count - int(self._tokens)
                span = _span(limit.calls).replace("a ", "the last ").replace("an ", "the last ")
                parts.append(f"{used} of {limit.calls.count} calls in {span}")
            if limit.quota is not None:
                self._turn(limit.quota, self._clock())
                parts.append(f"{self._period_used} of {limit.quota.count} in {_span(limit.quota)}")
            if limit.budget is not None:
                parts.append(f"{self._budget_used} of a budget of {limit.budget}")
            if limit.concurrent is not None:
                parts.append(f"{self.running} of {limit.concurrent} running")
        return ", ".join(parts)

    def _look(self, now: float, fingerprint: str | None) -> Refusal | None:
        limit = self.limit
        if limit.calls is not None:
            self._refill(limit.calls, now)
            if self._tokens < 1.0:
                wait = (1.0 - self._tokens) * limit.calls.seconds / limit.calls.count
                text = f"more than {limit.calls.count} calls in {_span(limit.calls)}"
                return self._refuse("rate_limited", text, wait)
        if limit.quota is not None:
            self._turn(limit.quota, now)
            if self._period_used >= limit.quota.count:
                text = f"the quota of {limit.quota.count} in {_span(limit.quota)} is used up"
                return self._refuse("quota_exceeded", text, None)
        if limit.budget is not None and self._budget_used >= limit.budget:
            text = f"the budget of {limit.budget} calls is used up"
            return self._refuse("quota_exceeded", text, None)
        if limit.repeat is not None and fingerprint is not None:
            seen = self._repeats.get(fingerprint)
            if seen is not None:
                while seen and seen[0] <= now - limit.repeat.seconds:
                    seen.popleft()
                if len(seen) >= limit.repeat.count:
                    text = f"the same call {limit.repeat.count} times in {_span(limit.repeat)}"
                    return self._refuse("loop_detected", text, None)
            if len(self._repeats) > self._sweep_at:
                past = now - limit.repeat.seconds
                self._repeats = {k: v for k, v in self._repeats.items() if v and v[-1] > past}
                self._sweep_at = max(10_000, 2 * len(self._repeats))
        return None

    def _refuse(self, reason: str, text: str, wait: float | None) -> Refusal:
        rule = f"limit per {self.limit.per}"
        return Refusal(Decision.deny(reason, text, rule=rule, source=self.limit.source), wait)

    def _refill(self, rate: Rate, now: float) -> None:
        # As in `begin`: no call between reading and writing, or a begin in between is forgotten.
        speed, most = rate.count / rate.seconds, float(rate.count)
        tokens = self._tokens + (now - self._stamp) * speed
        if tokens > most:
            tokens = most
        self._tokens = tokens
        self._stamp = now

    def _turn(self, quota: Rate, now: float) -> None:
        period = int(now // quota.seconds)
        if period != self._period:
            self._period, self._period_used = period, 0

    def enter(self) -> bool:
        """Take a running place if one is free and nobody waits for it."""
        with self._lock:
            if self.running < self._places and not self._waiting:
                self.running += 1
                return True
            return False

    async def wait(self) -> Refusal | None:
        """Wait for a running place, in order of arrival."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        with self._lock:
            if self.running < self._places and not self._waiting:
                self.running += 1
                return None
            if len(self._waiting) >= self.limit.queue:
                return self._busy()
            self._waiting.append(future)
        timer = loop.call_later(self.limit.queue_timeout, _set_once, future, True)
        try:
            late = await future
        except asyncio.CancelledError:
            if self._forget(future):
                raise
            self.leave()  # the place was handed over in the moment of the cancel
            raise
        finally:
            timer.cancel()
        if late:
            if self._forget(future):
                return self._busy()
            return None
        return None

    def _forget(self, future: asyncio.Future[bool]) -> bool:
        with self._lock:
            try:
                self._waiting.remove(future)
            except ValueError:
                return False
            return True

    def _busy(self) -> Refusal:
        text = f"{self.limit.concurrent} calls run already and the queue does not move"
        return self._refuse("too_many_calls", text, self.limit.queue_timeout)

    def leave(self) -> None:
        """Give the running place back, or hand it to the first that waits."""
        if _GIL and not self._waiting:
            self.running -= 1
            if not self._waiting:
                return
            self.running += 1  # somebody began to wait in this moment: hand the place over
        with self._lock:
            while self._waiting:
                future = self._waiting.popleft()
                try:
                    future.get_loop().call_soon_threadsafe(_set_once, future, False)
                except RuntimeError:  # its loop is closed: nobody waits there any more
                    continue
                return
            self.running -= 1


def take(meters: Sequence[Meter], call: Repeatable) -> Refusal | None:
    """Use one call of all these meters, or of none and say why."""
    fingerprint = call.fingerprint() if any(meter.limit.repeat for meter in meters) else None
    taken = 0
    try:
        for meter in meters:
            over = meter.take(fingerprint)
            if over is not None:
                refund(meters[:taken])
                return over
            taken += 1
    except Exception:
        refund(meters[:taken])
        raise
    return None


def refund(meters: Sequence[Meter]) -> None:
    """Give back what a call took that never started."""
    for meter in meters:
        meter.refund()


def _set_once(future: asyncio.Future[bool], late: bool) -> None:
    if not future.done():
        future.set_result(late)


def _span(rate: Rate) -> str:
    names = {1: "a second", 60: "a minute", 3600: "an hour", 86400: "a day"}
    return names.get(int(rate.seconds), f"{rate.seconds:g} seconds")


class Limits:
    """All meters of a host; those of a session go with it, the others stay."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._meters: dict[tuple[object, ...], Meter] = {}
        self._lock = threading.Lock()

    def meter(self, key: tuple[object, ...], limit: Limit) -> Meter:
        """The meter of one limit for one counted party."""
        meter = self._meters.get(key)
        if meter is None or meter.limit is not limit:
            with self._lock:
                meter = self._meters.get(key)
                if meter is None or (meter.limit is not limit and meter.limit != limit):
                    meter = self._meters[key] = Meter(limit, self._clock)
                elif meter.limit is not limit:
                    meter.limit = limit
        return meter

    def forget_session(self, session: str) -> None:
        """Drop the meters of a session that has ended."""
        with self._lock:
            gone = [k for k in self._meters if k[0] == "session" and k[-1] == session]
            for key in gone:
                del self._meters[key]


def applies(limit: Limit, spec: ToolSpec) -> bool:
    """Whether a limit counts calls of this tool."""
    return not limit.tools or any_glob(limit.tools)(spec.name)


def meter_key(limit: Limit, profile: str, index: int, tool: str) -> tuple[str, ...]:
    """The fixed part of a meter's key; who is counted comes behind it."""
    return (limit.per, profile, str(index), tool if limit.per == "tool" else "")
