"""The line from a running call back to an MCP client: what its request said, and how to ask it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Container, Mapping
from typing import Any, cast

from toolcrib.core.link import Era, InputRefused
from toolcrib.transports.mcp.asked import Asked, Channel
from toolcrib.transports.mcp.faults import McpFault
from toolcrib.transports.mcp.home import Home
from toolcrib.transports.mcp.levels import reaches

Hide = Callable[[Any], Any]
PROGRESS = "notifications/progress"
MESSAGE = "notifications/message"
_PASSED_ON = frozenset((PROGRESS, MESSAGE, "notifications/elicitation/complete"))
_NEEDS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class Ask:
    """Requests that a call put to its client, until all of them are answered."""

    __slots__ = ("answers", "future", "requests")

    def __init__(self, requests: Mapping[str, Mapping[str, Any]]) -> None:
        self.requests = dict(requests)
        """By the key that the call gave them; those that wait for an answer."""
        self.answers: dict[str, Any] = {}
        self.future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()


class Link:
    """The line of one call. In the modern era it outlives the request that made the call: each
    retry attaches its own."""

    # Few calls use these, so the defaults stand on the class.
    _asks: list[Ask] | None = None
    _early: dict[str, Any] | None = None
    _shown: dict[str, tuple[Ask, str]] | None = None
    _last = -math.inf
    _over: str | None = None
    hide: Hide | None = None
    """Gives a value without secrets; unset where there are none."""

    def __init__(self, asked: Asked, channel: Channel, home: Home) -> None:
        self._asked = asked
        self._channel: Channel | None = channel
        self._home = home

    def wake(self) -> None:
        """A client of the modern era has to be asked: for whoever answers its request."""
        raise NotImplementedError

    # What the request says.

    @property
    def era(self) -> Era:
        """How the client speaks."""
        return self._asked.era

    @property
    def version(self) -> str:
        """The revision that it speaks."""
        return self._asked.version

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What it says it can do."""
        return self._asked.capabilities

    @property
    def client(self) -> Mapping[str, Any] | None:
        """Its program, by its own word."""
        return self._asked.client

    @property
    def meta(self) -> Mapping[str, Any]:
        """What else its request says."""
        return self._asked.meta

    @property
    def log_level(self) -> str | None:
        """From which level on it wants to read log messages."""
        return self._asked.log_level

    @property
    def wants_progress(self) -> bool:
        """Whether the client's request came with a token for it."""
        return self._asked.progress_token is not None

    # What the call does.

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Put requests to the client and give its results by the same keys. Raises
        `InputRefused`; its cause says what the client answered instead, if it did."""
        for request in requests.values():
            self._check(request)
        if self._over is not None:
            raise InputRefused(self._over)
        if self.hide is not None:
            requests = {key: self.hide(dict(request)) for key, request in requests.items()}
        if self.era == "handshake":
            return await self._ask_now(requests)
        one = Ask(requests)
        early = self._early or {}
        for key in [key for key in one.requests if key in early]:
            one.answers[key] = early.pop(key)
            del one.requests[key]
        if not one.requests:
            return one.answers
        self._asks = [*(self._asks or ()), one]
        self.wake()
        try:
            return await one.future
        finally:
            self._asks = [each for each in self._asks or () if each is not one]

    def can(self, method: str) -> bool:
        """Whether the client can be asked for this, in the plain form."""
        try:
            self._check({"method": method, "params": {}})
        except InputRefused:
            return False
        return self._over is None

    def _check(self, request: Mapping[str, Any]) -> None:
        """Nobody is asked for what it did not say that it can do."""
        method = request.get("method")
        name = _NEEDS.get(method) if isinstance(method, str) else None
        if name is None:
            raise InputRefused(f"clients cannot be asked for {method!r}")
        said: Any = self.capabilities.get(name)
        if not isinstance(said, Mapping):
            raise InputRefused(f"the client does not say that it can do {name}")
        params: Any = request.get("params")
        if name == "elicitation" and isinstance(params, Mapping):
            modes = cast("Mapping[str, Any]", said)
            mode = cast("Mapping[str, Any]", params).get("mode", "form")
            if mode != "form" and mode not in modes:
                raise InputRefused(f"the client does not say that it can do elicitation by {mode}")
            if mode == "form" and modes and "form" not in modes and "url" in modes:
                raise InputRefused("the client does not say that it can do elicitation by form")

    async def _ask_now(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        channel = self._channel
        if channel is None:
            raise InputRefused("the client went away")
        if len(requests) == 1:
            ((key, request),) = requests.items()
            try:
                return {key: await channel.ask(request["method"], request.get("params") or {})}
            except McpFault as fault:
                raise InputRefused(fault.message) from fault
        asking = [
            asyncio.ensure_future(channel.ask(each["method"], each.get("params") or {}))
            for each in requests.values()
        ]
        try:
            found = await asyncio.gather(*asking, return_exceptions=True)
        finally:
            for task in asking:
                task.cancel()
        for given in found:
            if isinstance(given, BaseException) and not isinstance(given, McpFault):
                raise given
        answers = zip(requests, found, strict=True)
        return {key: given for key, given in answers if not isinstance(given, McpFault)}

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the client something about this call; what it did not ask for is left out."""
        if not self._home.inside:
            self._home.do(self.notify, method, params)
            return
        channel = self._channel
        if channel is None or method not in _PASSED_ON:
            return
        if method == PROGRESS:
            if not self.wants_progress:
                return
            params = {**params, "progressToken": self._asked.progress_token}
        elif method == MESSAGE and not self._wants(params.get("level")):
            return
        if self.hide is not None:
            params = self.hide(dict(params))
        channel.notify(method, params)

    def progress(self, fraction: float | None, message: str | None) -> None:
        """How far a tool of ours is. The value has to grow, whatever the tool says."""
        if not self.wants_progress:
            return
        params: dict[str, Any] = {}
        if fraction is not None and fraction > self._last:
            self._last = fraction
            params["total"] = 1.0
        elif message is None:
            return
        else:
            self._last = 0.0 if self._last < 0 else math.nextafter(self._last, math.inf)
        params["progress"] = self._last
        if message is not None:
            params["message"] = message
        self.notify(PROGRESS, params)

    def _wants(self, level: Any) -> bool:
        if self.log_level is None:
            return self.era == "handshake"
        return isinstance(level, str) and reaches(level, self.log_level)

    # What the door does.

    @property
    def wanting(self) -> bool:
        """Whether something has to be asked of a client of the modern era."""
        return bool(self._asks)

    def attach(self, asked: Asked, channel: Channel) -> None:
        """The client came back with another request for the same call."""
        self._asked = asked
        self._channel = channel

    def detach(self) -> None:
        """The request has been answered: until the next one, nobody listens."""
        self._channel = None

    def give_early(self, answers: Mapping[str, Any]) -> None:
        """Answers that came with the first request, to questions that nobody asked yet. Each counts
        once."""
        self._early = dict(answers)

    def requests(self, taken: Container[str] = ()) -> dict[str, Mapping[str, Any]]:
        """What to ask, each under a key of its own and under none of those that are taken."""
        found: dict[str, Mapping[str, Any]] = {}
        shown: dict[str, tuple[Ask, str]] = {}
        for one in self._asks or ():
            for key, request in one.requests.items():
                name, count = key, 2
                while name in shown or name in taken:
                    name, count = f"{key}-{count}", count + 1
                found[name], shown[name] = request, (one, key)
        self._shown = shown
        return found

    def take(self, answers: Mapping[str, Any]) -> None:
        """Hand over what the client answered to `requests`; what it left out stays open."""
        shown, self._shown = self._shown or {}, None
        for name, (one, key) in shown.items():
            if key in one.requests and name in answers:
                one.answers[key] = answers[name]
                del one.requests[key]
        asks, self._asks = self._asks or (), None
        for one in asks:
            if one.requests:
                self._asks = [*(self._asks or ()), one]
            elif not one.future.done():
                one.future.set_result(one.answers)

    def refuse(self, why: str, *, for_good: bool = False) -> None:
        """Nothing will be answered; with `for_good`, neither to what is asked later."""
        if for_good:
            self._over = why
        for one in self._asks or ():
            if not one.future.done():
                one.future.set_exception(InputRefused(why))
        self._asks = None
