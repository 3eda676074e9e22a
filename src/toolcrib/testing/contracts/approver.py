"""What an approver promises."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from toolcrib.core.approval import ApprovalDecision
from toolcrib.core.protocols import Approver
from toolcrib.testing.contracts.material import request
from toolcrib.testing.contracts.promise import promise, undefined
from toolcrib.testing.hosts import make_host
from toolcrib.testing.mocks import MockTool

Wanted = Literal["allow", "deny"]
_WANTED: tuple[Wanted, ...] = ("allow", "deny")


class ApproverContract:
    """Inherit, and say how to make an approver whose person says yes, and one who says no."""

    def make(self, answer: Wanted) -> Approver:
        """A new approver that gives this answer to whatever it is asked."""
        undefined(self, "make")

    async def test_it_answers_with_a_decision(self) -> None:
        for answer in _WANTED:
            said: Any = await self.make(answer).ask(request())
            promise(type(said) is ApprovalDecision, "an approver gives an ApprovalDecision", said)
            promise(said.answer == answer, f"the person's {answer} is the approver's", said.answer)

    async def test_it_stays_within_what_is_offered(self) -> None:
        for answer in _WANTED:
            asked = request(offered=("once",), session=None, edit=False)
            said = await self.make(answer).ask(asked)
            promise(said.reach in asked.offered, "an answer reaches as far as offered", said.reach)
            promise(
                said.arguments is None, "arguments are changed only where that is permitted", said
            )

    async def test_it_leaves_the_request_alone(self) -> None:
        asked = request()
        await self.make("allow").ask(asked)
        promise(asked == request(), "an approver changes nothing about the question", asked)

    async def test_a_yes_lets_one_call_run(self) -> None:
        mock = MockTool("deploy", return_value="done")
        profile = {"default": "ask"}
        async with make_host([mock], profile=profile, approver=self.make("allow")) as host:
            result = await host.call("deploy", timeout=10)
        promise(result.status == "ok", "a yes lets the call run", result.error)
        promise(mock.call_count == 1, "a yes lets the call run once", mock.call_count)

    async def test_a_no_lets_nothing_run(self) -> None:
        mock = MockTool("deploy")
        profile = {"default": "ask"}
        async with make_host([mock], profile=profile, approver=self.make("deny")) as host:
            result = await host.call("deploy", timeout=10)
        promise(mock.call_count == 0, "a no lets nothing run", mock.call_count)
        promise(result.reason == "approval_rejected", "a no is a rejection", result.reason)

    async def test_questions_at_the_same_time_are_answered_each(self) -> None:
        approver = self.make("deny")
        asked = [request(f"r{n}", key=f"k{n}") for n in range(5)]
        said = await asyncio.gather(*(approver.ask(each) for each in asked))
        promise(
            [each.answer for each in said] == ["deny"] * 5,
            "an approver that is asked several things at once answers each of them",
            said,
        )
