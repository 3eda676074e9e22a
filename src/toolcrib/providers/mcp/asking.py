"""What a server wants to know from whoever made the call: put on, if the operator granted it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from toolcrib.core.link import CallerLink, InputRefused, UpstreamError
from toolcrib.errors import ToolFailure
from toolcrib.protocol.jsonrpc import Request
from toolcrib.protocol.mcp.codes import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    URL_ELICITATION_REQUIRED,
)
from toolcrib.protocol.mcp.keys import TASKS
from toolcrib.providers.mcp.exchange import Behalf

CAPABILITY: Mapping[str, str] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
GRANTS = tuple(CAPABILITY.values())
_DECLARED: Mapping[str, Mapping[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}
_REJECTED = -1
"""What a client answers to a request for sampling that a person turned down."""


class Asking:
    """What one provider may ask of its callers. `roots` of its own are told without asking."""

    def __init__(self, grants: frozenset[str], roots: tuple[Mapping[str, str], ...] = ()) -> None:
        self._grants = grants
        self._roots = roots

    def declared(self) -> dict[str, Any]:
        """What the handshake says can be asked, of whichever caller."""
        made = {name: dict(_DECLARED[name]) for name in GRANTS if name in self._grants}
        if self._roots:
            made["roots"] = {}
        return made

    def mirrored(self, link: CallerLink | None) -> dict[str, Any]:
        """What one caller can be asked, by its own word and as far as it is granted."""
        made: dict[str, Any] = {}
        if link is not None:
            told = link.capabilities
            made = {name: told[name] for name in GRANTS if name in self._grants and name in told}
            extensions = told.get("extensions")
            if isinstance(extensions, Mapping) and TASKS in extensions:
                made["extensions"] = {TASKS: cast("Mapping[str, Any]", extensions)[TASKS]}
        if self._roots:
            made["roots"] = {}
        return made

    def reachable(self, method: str, link: CallerLink | None) -> bool:
        """Whether this caller can be asked such a thing."""
        name = CAPABILITY.get(method)
        return link is not None and name in self._grants and name in link.capabilities

    def check(self, requests: object, link: CallerLink | None) -> None:
        """Refuse questions that a server puts into an answer for the caller itself to find, as
        tasks do, where it may not ask them. Raises `ToolFailure`."""
        if requests is None:
            return
        named = cast("dict[str, Any]", requests) if isinstance(requests, dict) else {"": None}
        for value in named.values():
            method: Any = cast("Any", value).get("method") if isinstance(value, dict) else None
            if not isinstance(method, str) or not self.reachable(method, link):
                raise _nobody(str(method))

    def check_error(self, error: UpstreamError, link: CallerLink | None) -> None:
        """Refuse an error that sends the caller to an address, where the server may not do that.
        Raises `ToolFailure`."""
        if error.code != URL_ELICITATION_REQUIRED:
            return
        can: Any = None if link is None else link.capabilities.get("elicitation")
        if "elicitation" not in self._grants or not isinstance(can, Mapping) or "url" not in can:
            raise _nobody("elicitation by URL") from error

    async def answers(self, requests: Mapping[str, Any], behalf: Behalf) -> dict[str, Any]:
        """What a modern server needs before it goes on. Raises `ToolFailure`."""
        link = behalf.link
        found: dict[str, Any] = {}
        asked: dict[str, Mapping[str, Any]] = {}
        for key, value in requests.items():
            method: Any = cast("Any", value).get("method") if isinstance(value, dict) else None
            if method == "roots/list" and self._roots:
                found[key] = {"roots": list(self._roots)}
            elif not isinstance(method, str) or not self.reachable(method, link):
                raise _nobody(str(method))
            else:
                asked[key] = cast("Mapping[str, Any]", value)
        if asked and link is not None:
            try:
                with behalf.waiting():
                    found |= await link.ask(asked)
            except InputRefused as error:
                text = f"the tool asked for something, and got no answer: {error}"
                raise ToolFailure(text) from error
        return found

    async def answer(self, request: Request, behalf: Behalf) -> dict[str, Any]:
        """The result of a request that a handshake server sent. Raises `UpstreamError`."""
        method, link = request.method, behalf.link
        if method == "roots/list" and self._roots:
            return {"roots": list(self._roots)}
        name = CAPABILITY.get(method)
        if name is None or name not in self._grants:
            raise UpstreamError(METHOD_NOT_FOUND, f"{method} is not available")
        if link is None or name not in link.capabilities:
            raise UpstreamError(METHOD_NOT_FOUND, f"the caller does not offer {name}")
        given: Any = request.params
        params = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        self._check(name, params, link)
        try:
            with behalf.waiting():
                found = await link.ask({method: {"method": method, "params": params}})
        except InputRefused as error:
            return _unanswered(method, error)
        result = found.get(method)
        if not isinstance(result, dict):
            return _unanswered(method, InputRefused("the caller gave no answer"))
        return cast("dict[str, Any]", result)

    def _check(self, name: str, params: Mapping[str, Any], link: CallerLink) -> None:
        """Refuse what this caller cannot do, though it can do something of the kind."""
        can: Any = link.capabilities[name]
        if name == "elicitation" and params.get("mode") == "url" and "url" not in can:
            raise UpstreamError(INVALID_PARAMS, "the caller does not offer elicitation by URL")
        if name == "sampling" and "tools" in params and "tools" not in can:
            raise UpstreamError(INVALID_PARAMS, "the caller does not offer sampling with tools")


def _unanswered(method: str, error: InputRefused) -> dict[str, Any]:
    said: Any = error.__cause__
    if type(getattr(said, "code", None)) is int:  # the caller's own error, which is an answer
        raise UpstreamError(said.code, str(said.message), said.data) from error
    if method == "elicitation/create":
        return {"action": "cancel"}
    code = _REJECTED if method == "sampling/createMessage" else INTERNAL_ERROR
    raise UpstreamError(code, str(error)) from error


def _nobody(method: str) -> ToolFailure:
    return ToolFailure(
        f"the tool needs an answer ({method[:60]}) from whoever called it, who cannot be asked; "
        "the caller has to offer it, and the provider's setting `grants` has to name it"
    )
