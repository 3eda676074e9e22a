"""Looking on at the store of the project here, which other processes write to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from toolcrib.cli.output import say
from toolcrib.cli.project import Project, me
from toolcrib.core.events import Event, decode_record, events_of
from toolcrib.core.protocols import Store

if TYPE_CHECKING:
    from toolcrib.approvals.rendering import PastCall
    from toolcrib.core.approval import ApprovalDecision, ApprovalRequest
    from toolcrib.core.chain import Block
    from toolcrib.host.host import ToolHost

_PAUSE = 1.0
"""Seconds after which is looked again, whether or not something is said to have changed."""
_BLOCKS = 100


@asynccontextmanager
async def follow_here(project: Project) -> AsyncGenerator[AsyncGenerator[Event]]:
    """The events that any process writes from now on."""
    from toolcrib.host.parts import DEFAULT_STORE, open_store

    file = project.store
    new = file is None or not file.exists()
    if new:
        # Opening a store would begin it, and whoever only looks begins nothing.
        say("Nothing is on the trail yet. Waiting for the first call; Ctrl-C stops.")
        while file is None or not file.exists():  # noqa: ASYNC110 - no process says when
            await asyncio.sleep(_PAUSE / 10)
    store = open_store(DEFAULT_STORE, project.config.settings)
    await store.open()
    try:
        yield _events(store, 0 if new else await _end(store))
    finally:
        await store.close()


async def _end(store: Store) -> int:
    position = 0
    while blocks := await store.blocks(after=position, limit=_BLOCKS):
        position = blocks[-1][0]
    return position


async def _events(store: Store, position: int) -> AsyncGenerator[Event]:
    while True:
        for reached, block in await store.blocks(after=position, limit=_BLOCKS):
            position = reached
            for event in _read(block):
                yield event
        await store.wait(timeout=_PAUSE)


def _read(block: Block) -> Sequence[Event]:
    import msgspec

    found: list[Event] = []
    for index, line in enumerate(block.lines.split(b"\n")):
        try:
            found += events_of(decode_record(line), block.run, block.first + index)
        except msgspec.DecodeError:
            say(f"record {block.first + index} of run {block.run} cannot be read")
    return found


@asynccontextmanager
async def watch_here(project: Project) -> AsyncGenerator[_Here]:
    """What waits for a person in the store."""
    project.prepare()
    async with project.desk() as host:
        yield _Here(project, host, (await host.start()).store)


class _Here:
    """Requests in the store of a project."""

    def __init__(self, project: Project, desk: ToolHost, store: Store) -> None:
        self._project = project
        self._desk = desk
        self._store = store
        self._tools: ToolHost | None = None

    async def pending(self) -> Sequence[ApprovalRequest]:
        return await self._desk.approvals.list()

    async def get(self, id: str) -> ApprovalRequest:
        return await self._desk.approvals.get(id)

    async def decide(self, id: str, decision: ApprovalDecision) -> ApprovalRequest:
        return await self._desk.approvals.decide(
            id,
            decision.answer == "allow",
            note=decision.note,
            reach=decision.reach,
            arguments=decision.arguments,
            by=me(),
            via="cli",
        )

    def problems(self, request: ApprovalRequest, arguments: dict[str, Any]) -> Sequence[str]:
        """The project's tools are loaded for this and not before: whoever only answers runs none
        of their code."""
        if self._tools is None:
            self._tools = self._project.host()
        return self._tools.approvals.problems(request, arguments)

    async def past(self, request: ApprovalRequest) -> Sequence[PastCall]:
        return await self._desk.approvals.past(request)

    async def changed(self) -> None:
        await self._store.wait(timeout=_PAUSE)
