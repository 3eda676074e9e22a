"""Approvals: a question that waits in the inbox, an answer with a note, and a grant."""

from __future__ import annotations

import asyncio

from toolcrib import ApprovalRequest, Event, ToolHost, tool


@tool(effects=["write"], requires_approval=True)
async def transfer(to: str, amount: int) -> str:
    """Transfer money."""
    return f"{amount} went to {to}"


PROFILES = {
    "profiles": {
        "teller": {
            "rules": [{"allow": "transfer"}],
            "approval": {"timeout": "1m", "remember": ["once", "session"], "edit": True},
        }
    }
}


class Questions:
    """The questions of a host, one after the other."""

    def __init__(self, host: ToolHost) -> None:
        self._host = host
        self._ids: asyncio.Queue[str] = asyncio.Queue()
        host.on_event(self._note)

    def _note(self, event: Event) -> None:
        if event.type == "approval.requested":
            self._ids.put_nowait(event.data["request"])

    async def next(self) -> ApprovalRequest:
        """The next question, waiting for it if need be."""
        return await self._host.approvals.get(await self._ids.get())


async def main() -> None:
    """Three calls: an edited one, one that is remembered, and one that nobody is asked about."""
    async with ToolHost([transfer], config=PROFILES) as host, host.session(principal="ann") as ann:
        questions = Questions(host)
        call = asyncio.create_task(ann.call("transfer", {"to": "ben", "amount": 1000}))
        request = await questions.next()
        print(f"{request.principal} asks: {request.tool} {request.arguments}: {request.message}")
        await host.approvals.decide(
            request.id, arguments={"to": "ben", "amount": 100}, note="a tenth for now", by="carla"
        )
        result = await call
        print(f"{result.output}; {result.metadata['approval']['by']} said: a tenth for now")

        call = asyncio.create_task(ann.call("transfer", {"to": "ben", "amount": 5}))
        request = await questions.next()
        print(f"offered: {', '.join(request.offered)}")
        await host.approvals.decide(request.id, reach="session", by="carla")
        print((await call).output)

        print((await ann.call("transfer", {"to": "dan", "amount": 6})).output, "(nobody was asked)")
        for grant in await host.approvals.grants():
            print(f"remembered: {grant.tool} for {grant.principal}, reach {grant.reach}")
        decided = [e.data["answer"] for e in await host.trail() if e.type == "approval.decided"]
        print(f"on the trail: {', '.join(decided)}")


if __name__ == "__main__":
    asyncio.run(main())
