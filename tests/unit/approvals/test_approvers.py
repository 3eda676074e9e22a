"""Approvers in the program, through the inbox."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from toolcrib.approvals.approvers import (
    AutomaticApprover,
    CallbackApprover,
    ChainApprover,
    as_approver,
)
from toolcrib.core.approval import ApprovalDecision, ApprovalRequest
from toolcrib.errors import ConfigError, ToolcribError


class Says:
    """Answers whatever it was given, and counts."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked = 0

    async def ask(self, request: ApprovalRequest) -> Any:
        self.asked += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def decision(answer: Any, **more: Any) -> ApprovalDecision:
    return ApprovalDecision(answer=answer, **more)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (None, "answered with NoneType"),
        ("yes", "answered with str"),
        ("allow", "answered with str"),
        (1, "answered with int"),
        ({"answer": "allow"}, "answered with dict"),
        (object(), "answered with object"),
        (decision("allow_always"), "malformed"),
        (decision("Allow"), "malformed"),
        (decision(True), "malformed"),
        (decision("allow", reach=None), "malformed"),
        (decision("allow", note=1), "malformed"),
        (decision("allow", by=None), "malformed"),
        (decision("allow", arguments=[1]), "malformed"),
        (decision("allow", arguments={"a": object()}), "malformed"),
        (decision("allow", reach="always"), "'always' is not offered"),
        (decision("allow", reach="forever"), "'forever' is not offered"),
        (decision("allow", arguments={}), "does not let approvers change arguments"),
        (RuntimeError("password=hunter2"), "the approver raised RuntimeError"),
        (ToolcribError("the gatekeeper sleeps"), "the gatekeeper sleeps"),
        (TimeoutError(), "did not answer in time"),
        (asyncio.CancelledError(), "cancelled from within"),
    ],
)
async def test_what_is_not_clearly_a_yes_is_a_no(
    desk: Any, make_request: Any, answer: Any, fault: str
) -> None:
    inbox = desk.inbox(Says(answer))
    final = await inbox.ask(make_request())
    assert (final.state, final.by, final.note, final.reach) == ("denied", "approver", None, None)
    assert fault in desk.data("approval.decided")["fault"]
    assert "hunter2" not in str(desk.events)
    assert await inbox.grants(live=False) == []
    assert not await inbox.redeem(final, "c1")


async def test_an_approver_that_is_not_async_is_a_no(desk: Any, make_request: Any) -> None:
    class Plain:
        def ask(self, request: ApprovalRequest) -> bool:
            return True

    assert (await desk.inbox(Plain()).ask(make_request())).state == "denied"


@pytest.mark.parametrize(
    ("answer", "state", "by"),
    [
        (True, "allowed", "approver"),
        (False, "denied", "approver"),
        (decision("allow", by="ana"), "allowed", "ana"),
        (decision("deny", by="ana", note="no"), "denied", "ana"),
    ],
)
async def test_proper_answers_are_taken_without_fault(
    desk: Any, make_request: Any, answer: Any, state: str, by: str
) -> None:
    final = await desk.inbox(Says(answer)).ask(make_request())
    assert (final.state, final.by) == (state, by)
    assert "fault" not in desk.data("approval.decided")


async def test_an_approver_may_reach_as_far_as_offered(desk: Any, make_request: Any) -> None:
    inbox = desk.inbox(Says(decision("allow", reach="session", by="ana")))
    final = await inbox.ask(make_request())
    assert final.reach == "session"
    [grant] = await inbox.grants()
    assert grant.session == "s1"
    assert desk.types() == ["approval.requested", "approval.decided", "grant.created"]


async def test_an_approver_that_never_answers_lets_the_request_expire(
    desk: Any, make_request: Any
) -> None:
    ended = asyncio.Event()

    class Silent:
        async def ask(self, request: ApprovalRequest) -> bool:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return True

    inbox = desk.inbox(Silent())
    waiting = asyncio.create_task(inbox.ask(make_request()))
    await desk.pending(inbox)
    desk.clock.now += 300
    await inbox.list()
    assert (await waiting).state == "expired"
    await asyncio.wait_for(ended.wait(), 5)


async def test_a_person_may_be_faster_than_the_approver(desk: Any, make_request: Any) -> None:
    stopped = asyncio.Event()

    class Slow:
        async def ask(self, request: ApprovalRequest) -> bool:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.set()
                raise
            return True

    inbox = desk.inbox(Slow())
    waiting = asyncio.create_task(inbox.ask(make_request()))
    found = await desk.pending(inbox)
    await inbox.decide(found[0].id, allow=False, by="ana", via="console")
    assert (await waiting).by == "ana"
    await asyncio.wait_for(stopped.wait(), 5)
    assert desk.types() == ["approval.requested", "approval.decided"]


async def test_passing_on_leaves_it_to_people_and_asks_once(desk: Any, make_request: Any) -> None:
    approver = Says(decision("escalate"))
    inbox = desk.inbox(approver)
    waits = [asyncio.create_task(inbox.ask(make_request(key="same"))) for _ in range(3)]
    found = await desk.pending(inbox)
    await asyncio.sleep(0.02)
    late = asyncio.create_task(inbox.ask(make_request(key="same")))
    await asyncio.sleep(0.02)
    assert (await inbox.get(found[0].id)).state == "pending"
    assert approver.asked == 1
    await inbox.decide(found[0].id, allow=True, by="ana")
    assert {r.by for r in await asyncio.gather(*waits, late)} == {"ana"}


async def test_an_approver_whose_answers_do_not_count_is_not_asked(
    desk: Any, make_request: Any
) -> None:
    approver = Says(True)
    inbox = desk.inbox(approver)
    request = make_request(via=("console",))
    waiting = asyncio.create_task(inbox.ask(request))
    await desk.pending(inbox)
    await asyncio.sleep(0.01)
    await inbox.decide(request.id, allow=False, via="console")
    assert (await waiting).state == "denied"
    assert approver.asked == 0


async def test_functions_answer_in_a_thread_or_in_the_loop(make_request: Any) -> None:
    here = threading.current_thread()
    where: list[threading.Thread] = []

    def plain(request: ApprovalRequest) -> bool:
        where.append(threading.current_thread())
        return request.tool == "run_tests"

    async def in_loop(request: ApprovalRequest) -> ApprovalDecision:
        where.append(threading.current_thread())
        return decision("deny", note="no")

    class Object:
        async def __call__(self, request: ApprovalRequest) -> bool:
            where.append(threading.current_thread())
            return True

    assert (await CallbackApprover(plain).ask(make_request())).answer == "allow"
    assert (await CallbackApprover(in_loop).ask(make_request())).note == "no"
    assert (await CallbackApprover(Object()).ask(make_request())).answer == "allow"
    assert (await CallbackApprover(lambda r: in_loop(r)).ask(make_request())).answer == "deny"
    assert [thread is here for thread in where] == [False, True, True, True]


async def test_a_function_that_fails_in_its_thread_raises_in_the_loop(make_request: Any) -> None:
    def broken(request: ApprovalRequest) -> bool:
        raise KeyError("x")

    def quits(request: ApprovalRequest) -> bool:
        raise SystemExit(3)

    with pytest.raises(KeyError):
        await CallbackApprover(broken).ask(make_request())
    with pytest.raises(RuntimeError, match="SystemExit"):
        await CallbackApprover(quits).ask(make_request())
    with pytest.raises(ToolcribError, match="NoneType"):
        await CallbackApprover(lambda request: None).ask(make_request())


async def test_a_chain_asks_until_one_answers(make_request: Any) -> None:
    first, second, third = Says(decision("escalate")), Says(False), Says(True)
    assert (await ChainApprover([first, second, third]).ask(make_request())).answer == "deny"
    assert (first.asked, second.asked, third.asked) == (1, 1, 0)
    nobody = ChainApprover([first, lambda request: decision("escalate")])
    assert (await nobody.ask(make_request())).answer == "escalate"


async def test_a_broken_link_is_a_no_and_not_a_way_round(desk: Any, make_request: Any) -> None:
    for broken in (ValueError("x"), None, "escalate"):
        willing = Says(True)
        inbox = desk.inbox(ChainApprover([Says(broken), willing]))
        assert (await inbox.ask(make_request())).state == "denied"
        assert willing.asked == 0


async def test_a_chain_skips_links_whose_answers_do_not_count(desk: Any, make_request: Any) -> None:
    host, terminal = Says(True), Says(False)
    terminal.via = "cli"  # pyright: ignore[reportAttributeAccessIssue]
    inbox = desk.inbox(ChainApprover([host, terminal]))
    assert (await inbox.ask(make_request(via=("cli",)))).state == "denied"
    assert (host.asked, terminal.asked) == (0, 1)
    assert desk.data("approval.decided")["via"] == "cli"


@pytest.mark.parametrize(
    ("effects", "answer"),
    [(("read",), "allow"), ((), "allow"), (("read", "write"), "escalate"), (None, "escalate")],
)
async def test_the_automatic_approver_keeps_to_its_effects(
    make_request: Any, effects: tuple[str, ...] | None, answer: str
) -> None:
    approver = AutomaticApprover("allow", only={"read"}, otherwise="escalate")
    got = await approver.ask(make_request(effects=effects))
    assert (got.answer, got.by) == (answer, "automatic")


async def test_the_automatic_approver_says_what_it_was_told(make_request: Any) -> None:
    assert (await AutomaticApprover("deny").ask(make_request())).answer == "deny"
    assert (await AutomaticApprover("allow").ask(make_request())).answer == "allow"
    denied = await AutomaticApprover("allow", only={"read"}).ask(make_request(effects=("write",)))
    assert denied.answer == "deny"


@pytest.mark.parametrize(
    "build",
    [
        lambda: AutomaticApprover("yes"),  # pyright: ignore[reportArgumentType]
        lambda: AutomaticApprover("allow", only={"reed"}),  # pyright: ignore[reportArgumentType]
        lambda: AutomaticApprover("allow", only="read"),  # pyright: ignore[reportArgumentType]
        lambda: AutomaticApprover("allow", otherwise="no"),  # pyright: ignore[reportArgumentType]
        lambda: ChainApprover([]),
        lambda: as_approver("allow"),
        lambda: as_approver(AutomaticApprover),
        lambda: as_approver(3),
    ],
)
def test_what_cannot_approve_is_a_mistake(build: Any) -> None:
    with pytest.raises(ConfigError):
        build()


def test_approvers_are_made_of_what_is_given() -> None:
    assert as_approver(None) is None
    says = Says(True)
    assert as_approver(says) is says
    assert isinstance(as_approver(lambda request: True), CallbackApprover)
