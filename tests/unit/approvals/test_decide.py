"""Which answers are taken, and what is remembered of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib.core.approval import ApprovalRequest
from toolcrib.errors import NotFound


async def put(desk: Any, request: ApprovalRequest) -> None:
    await desk.store.put_request(request)


@pytest.mark.parametrize(
    ("changes", "answer", "words"),
    [
        ({}, {"allow": 1}, "allow must be True or False, not 1"),
        ({}, {"allow": "yes"}, "allow must be True or False, not 'yes'"),
        ({}, {"allow": None}, "allow must be True or False, not None"),
        ({}, {"allow": 0}, "allow must be True or False, not 0"),
        ({}, {"allow": True, "reach": "always"}, "'always' is not offered here; offered: once, s"),
        ({}, {"allow": True, "reach": "allow_always"}, "is not offered here"),
        ({}, {"allow": True, "reach": ""}, "is not offered here"),
        ({}, {"allow": True, "reach": None}, "reach None is not offered"),
        ({}, {"allow": True, "reach": ["once"]}, "reach list is not offered"),
        ({}, {"allow": False, "reach": "session"}, "a refusal is for one call"),
        ({"edit": True}, {"allow": False, "arguments": {}}, "a refusal changes no arguments"),
        ({"session": None}, {"allow": True, "reach": "session"}, "needs a lasting session"),
        ({}, {"allow": True, "arguments": {"a": 1}}, "does not let approvers change arguments"),
        ({"edit": True}, {"allow": True, "arguments": [1]}, "arguments must be an object"),
        ({"edit": True}, {"allow": True, "arguments": {"a": object()}}, "plain JSON values"),
        ({}, {"allow": True, "note": 3}, "note must be text"),
        ({}, {"allow": True, "by": 3}, "by must be text"),
        ({"via": ("console",)}, {"allow": True}, "via 'host' do not count .* lists: console"),
        ({}, {"allow": True, "via": "smoke signals"}, "via 'smoke signals' do not count"),
        ({"via": ()}, {"allow": True}, "lists: nobody"),
        ({"via": ("console",)}, {"allow": False}, "via 'host' do not count"),
    ],
)
async def test_an_answer_that_does_not_fit_changes_nothing(
    desk: Any, make_request: Any, changes: dict[str, Any], answer: dict[str, Any], words: str
) -> None:
    request = make_request(**changes)
    await put(desk, request)
    inbox = desk.inbox()
    with pytest.raises(ValueError, match=words):
        await inbox.decide(request.id, **answer)
    assert await inbox.get(request.id) == request
    assert desk.events == []
    assert await inbox.grants() == []


async def test_an_unknown_id_is_not_found(desk: Any) -> None:
    with pytest.raises(NotFound, match="no approval 'nope'"):
        await desk.inbox().decide("nope", allow=True)
    with pytest.raises(NotFound):
        await desk.inbox().get("nope")


async def test_an_answer_stands(desk: Any, make_request: Any) -> None:
    request = make_request()
    await put(desk, request)
    inbox = desk.inbox()
    await inbox.decide(request.id, allow=False, by="ana")
    with pytest.raises(ValueError, match="is denied by 'ana' already"):
        await inbox.decide(request.id, allow=True, by="bob")
    assert (await inbox.get(request.id)).by == "ana"


async def test_of_many_answers_at_once_one_is_taken(desk: Any, make_request: Any) -> None:
    request = make_request()
    await put(desk, request)
    inbox = desk.inbox()
    answers = (inbox.decide(request.id, allow=n % 2 == 0, by=str(n)) for n in range(20))
    outcomes = await asyncio.gather(*answers, return_exceptions=True)
    taken = [o for o in outcomes if isinstance(o, ApprovalRequest)]
    assert len(taken) == 1
    assert all(isinstance(o, ValueError) for o in outcomes if o is not taken[0])
    assert desk.types() == ["approval.decided"]


async def test_changed_arguments_are_kept_as_they_were_when_approved(
    desk: Any, make_request: Any
) -> None:
    request = make_request(edit=True)
    await put(desk, request)
    inbox = desk.inbox()
    arguments = {"path": ["tests/unit"]}
    await inbox.decide(request.id, allow=True, arguments=arguments)
    arguments["path"].append("/etc")
    kept = await inbox.get(request.id)
    assert kept.edited == {"path": ["tests/unit"]}
    assert kept.arguments == {"path": "tests/integration"}
    assert desk.data("approval.decided")["edited"] is True


async def test_a_batch_tells_the_fate_of_every_answer(desk: Any, make_request: Any) -> None:
    good, narrow, last = make_request(), make_request(offered=("once",)), make_request()
    for request in (good, narrow, last):
        await put(desk, request)
    inbox = desk.inbox()
    ids = [good.id, "nope", narrow.id, good.id, last.id]
    fates = await inbox.decide_many(ids, allow=True, reach="session", by="ana")
    assert [fate.id for fate in fates] == ids
    assert [fate.request is not None for fate in fates] == [True, False, False, False, True]
    assert "no approval 'nope'" in fates[1].error
    assert "not offered" in fates[2].error
    assert "is allowed by 'ana' already" in fates[3].error
    assert (await inbox.get(narrow.id)).state == "pending"
    with pytest.raises(ValueError, match="not one text"):
        await inbox.decide_many(good.id, allow=True)


async def test_listing_a_state_that_does_not_exist_is_a_mistake(desk: Any) -> None:
    with pytest.raises(ValueError, match=r"no state 'open'; the states are pending"):
        await desk.inbox().list(state="open")


async def test_list_gives_requests_of_one_state_or_all(desk: Any, make_request: Any) -> None:
    late, soon, answered = make_request(expires=9e9), make_request(), make_request()
    for request in (late, soon, answered):
        await put(desk, request)
    inbox = desk.inbox()
    await inbox.decide(answered.id, allow=False)
    assert [r.id for r in await inbox.list()] == [soon.id, late.id]
    assert [r.id for r in await inbox.list(state="denied")] == [answered.id]
    assert len(await inbox.list(state=None)) == 3
    assert [r.id for r in await inbox.list(limit=1)] == [soon.id]


EVERY = ("once", "session", "1h", "always")


def wanted(request: ApprovalRequest, **changes: Any) -> dict[str, Any]:
    fields = {
        "tool": request.tool,
        "digest": request.digest,
        "principal": request.principal,
        "session": request.session,
        "revision": request.revision,
    }
    return fields | changes


@pytest.mark.parametrize("reach", ["session", "1h", "always"])
async def test_a_grant_covers_its_tool_principal_and_rules_only(
    desk: Any, make_request: Any, reach: str
) -> None:
    request = make_request(offered=EVERY)
    await put(desk, request)
    inbox = desk.inbox()
    await inbox.decide(request.id, allow=True, reach=reach, by="ana")
    grant = await inbox.find_grant(**wanted(request))
    assert grant is not None
    assert (grant.reach, grant.by, grant.request) == (reach, "ana", request.id)
    for part in ("tool", "digest", "principal", "revision"):
        assert await inbox.find_grant(**wanted(request, **{part: "other"})) is None
    elsewhere = await inbox.find_grant(**wanted(request, session="another"))
    assert (elsewhere is None) == (reach == "session")
    assert (await inbox.find_grant(**wanted(request, session=None)) is None) == (reach == "session")
    desk.clock.now += 3600
    assert (await inbox.find_grant(**wanted(request)) is None) == (reach == "1h")
    assert (await inbox.grants() == []) == (reach == "1h")


async def test_once_leaves_no_grant(desk: Any, make_request: Any) -> None:
    request = make_request(offered=EVERY)
    await put(desk, request)
    inbox = desk.inbox()
    await inbox.decide(request.id, allow=True)
    assert await inbox.find_grant(**wanted(request)) is None
    assert await inbox.grants(live=False) == []


async def test_use_is_announced_for_calls_and_not_for_questions(
    desk: Any, make_request: Any
) -> None:
    request = make_request()
    await put(desk, request)
    inbox = desk.inbox()
    await inbox.decide(request.id, allow=True, reach="session")
    await inbox.find_grant(**wanted(request))
    assert desk.types() == ["approval.decided", "grant.created"]
    await inbox.find_grant(**wanted(request), call_id="c9")
    assert desk.types()[-1] == "grant.used"
    assert desk.events[-1][1] == "c9"
    assert desk.data("grant.used")["request"] == request.id


async def test_a_revoked_grant_is_not_used_again_by_any_inbox(desk: Any, make_request: Any) -> None:
    request = make_request()
    await put(desk, request)
    inbox, other = desk.inbox(), desk.inbox()
    await inbox.decide(request.id, allow=True, reach="session")
    grant = await other.find_grant(**wanted(request))
    assert await inbox.revoke(grant.id, by="ana")
    assert await other.find_grant(**wanted(request)) is None
    assert desk.data("grant.revoked")["by"] == "ana"
    assert not await inbox.revoke(grant.id)
    assert not await inbox.revoke("nope")
    assert desk.types().count("grant.revoked") == 1
    assert await inbox.grants() == []
    assert [g.id for g in await inbox.grants(live=False)] == [grant.id]
