"""A tool of a remote host, bound to who calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.client.watching import OnApproval, OnProgress
from toolcrib.core.result import ToolResult
from toolcrib.core.spec import ToolSpec
from toolcrib.transports.models import ToolView

if TYPE_CHECKING:
    from toolcrib.client.client import Client


class Tool:
    """A tool that can be called, as `toolcrib.Tool`. A local host can register it too: then the
    rules of both hosts apply."""

    __slots__ = ("_client", "_profile", "_session", "spec")

    def __init__(
        self, spec: ToolView, client: Client, *, profile: str | None, session: str | None
    ) -> None:
        self.spec = spec
        """What the host tells of it; how it is run stays there."""
        self._client = client
        self._profile = profile
        self._session = session

    def __repr__(self) -> str:
        down = ", unavailable" if self.unavailable else ""
        return f"<Tool {self.spec.name} at {self._client.where}{down}>"

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

    @property
    def unavailable(self) -> str | None:
        """Why it cannot be called now; None when it can."""
        return self.spec.unavailable

    @property
    def effects(self) -> frozenset[str] | None:
        """What a call may do; None means unknown."""
        return None if self.spec.effects is None else frozenset(self.spec.effects)

    @property
    def idempotent(self) -> bool:
        """Whether calling twice has the effect of calling once."""
        return self.spec.idempotent

    @property
    def requires_approval(self) -> bool:
        """Whether a person is asked whatever the profile allows."""
        return self.spec.requires_approval

    async def call(
        self,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        patience: float | None = None,
        on_progress: OnProgress | None = None,
        on_approval: OnApproval | None = None,
    ) -> ToolResult:
        """Call it; the result says how it ended."""
        return await self._client.call(
            self.spec.name,
            arguments,
            profile=self._profile,
            session=self._session,
            timeout=timeout,
            patience=patience,
            on_progress=on_progress,
            on_approval=on_approval,
        )

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Call it, spelled as agent frameworks spell it."""
        return await self.call(input)

    async def __call__(self, **arguments: Any) -> Any:
        """Call it like a function: gives the output, raises `CallError` otherwise."""
        return (await self.call(arguments)).unwrap()


def as_spec(view: ToolView) -> ToolSpec:
    """What models are shown of a tool, for the formats of their providers."""
    return ToolSpec(
        name=view.name,
        description=view.description,
        title=view.title,
        kind=view.kind,
        input_schema=view.input_schema,
        output_schema=view.output_schema,
        effects=None if view.effects is None else frozenset(view.effects),  # pyright: ignore[reportArgumentType]
        idempotent=view.idempotent,
        version=view.version,
        category=view.category,
        tags=frozenset(view.tags),
        requires_approval=view.requires_approval,
    )
