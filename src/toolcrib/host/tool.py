"""A tool as a caller sees it: bound to a host, a principal and a profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.core.principal import Principal
from toolcrib.core.result import ToolResult
from toolcrib.core.spec import ToolSpec

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost
    from toolcrib.host.session import Session


_NAMES = 6


class Tool:
    """A tool that can be called. Every call goes through the host's whole pipeline."""

    __slots__ = ("_host", "_principal", "_profile", "_session", "spec", "unavailable")

    def __init__(
        self,
        spec: ToolSpec,
        host: ToolHost,
        *,
        principal: Principal | str | None = None,
        profile: str | None = None,
        session: Session | None = None,
        unavailable: str | None = None,
    ) -> None:
        self.spec = spec
        self.unavailable = unavailable
        """Why it cannot be called now; None when it can."""
        self._host = host
        self._principal = principal
        self._profile = profile
        self._session = session

    def __repr__(self) -> str:
        # As one would write a call of it, and for whom it is bound.
        required = self.spec.input_schema.get("required") or ()
        names: list[str] = list(self.spec.input_schema.get("properties") or ())
        shown = [name if name in required else f"{name}=…" for name in names[:_NAMES]]
        words = f"{self.spec.name}({', '.join([*shown, '…'] if len(names) > _NAMES else shown)})"
        who = getattr(self._principal, "name", self._principal)
        words += f" for {who}" if who else ""
        words += f" under {self._profile}" if self._profile else ""
        return f"<Tool {words}{', unavailable' if self.unavailable else ''}>"

    @property
    def name(self) -> str:
        """The registered name."""
        return self.spec.name

    @property
    def wire_name(self) -> str:
        """The name shown to models."""
        return self.spec.wire_name

    @property
    def description(self) -> str:
        """What it does."""
        return self.spec.description

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return dict(self.spec.input_schema)

    async def call(
        self, arguments: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> ToolResult:
        """Call it; the result says how it ended."""
        return await self._host.call(
            self.spec.name,
            arguments,
            principal=self._principal,
            profile=self._profile,
            session=self._session,
            timeout=timeout,
        )

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Call it, spelled as agent frameworks spell it."""
        return await self.call(input)

    async def __call__(self, **arguments: Any) -> Any:
        """Call it like a function: gives the output, raises `CallError` otherwise."""
        return (await self.call(arguments)).unwrap()
