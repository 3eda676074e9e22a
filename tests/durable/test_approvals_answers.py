"""What a person's answer may say, how far it reaches, and what is checked after the wait."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any

import msgspec
import pytest

from toolcrib import ApprovalDecision, ConfigError, Principal, ToolHost, tool
from toolcrib.host.approvals import UnfitArguments

REACHES = ["once", "session", "1h", "always"]


class Shop:
    """Tools that write down what they did."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def buy(self, description: str = "Buy something.") -> Any:
        """A tool that can be undone."""
        ran = self.ran

        @tool(name="buy", description=description, effects=["write"])
        async def buy(what: str, price: int) -> str:
            ran.append((what, price))
            return what

        return buy

    def burn(self, effects: list[str] | None) -> Any:
        """A tool that cannot be undone, or of which nothing is known."""
        ran = self.ran

        @tool(name="burn", effects=effects)
        async def burn() -> str:
            ran.append("burned")
            return "ash"

        return burn


def _rules(*rules: dict[str, Any], **approval: Any) -> dict[str, Any]:
    said = {"timeout": "10s", "remember": REACHES, "edit": True, **approval}
    return {"version": 1, "profiles": {"shop": {"rules": list(rules), "approval": said}}}


ASK = _rules({"ask": "buy"})
CHEAP = _rules(
    {"ask": "buy"},
    {"deny": "buy", "when": {"arguments": {"price": {"min": 100}}}, "reason": "too_dear"},
)
TEA = {"what": "tea", "price": 5}


async def _asked(host: ToolHost, until: Any) -> Any:
    return (await until(host.approvals.list))[0]


async def _still_asks(host: ToolHost, call: Any, until: Any) -> None:
    """The call waits for a person; it is given up then, and answered with no."""
    task = asyncio.create_task(call)
    request = await _asked(host, until)
    assert not task.done()
    await host.approvals.decide(request.id, allow=False, by="bo")
    assert (await task).reason == "approval_rejected"


async def test_edited_arguments_run_and_the_caller_is_told(until: Any) -> None:
    shop = Shop()
    async with ToolHost([shop.buy()], config=ASK) as host:
        call = asyncio.create_task(host.call("buy", TEA))
        request = await _asked(host, until)
        changed = {"what": "tea", "price": 4}
        await host.approvals.decide(request.id, arguments=changed, by="bo", note="haggled")
        changed["price"] = 400  # what was approved does not change any more
        result = await call
    assert result.status == "ok"
    assert shop.ran == [("tea", 4)]
    assert result.metadata["arguments_edited"] is True
    assert result.metadata["arguments"] == {"what": "tea", "price": 4}
    assert result.metadata["approval"] == {"by": "bo", "note": "haggled"}


@pytest.mark.parametrize(
    ("edited", "reason"),
    [
        ({"what": "tea", "price": 500}, "too_dear"),
        ({"what": "tea", "price": "five"}, "invalid_arguments"),
        ({"what": "tea"}, "invalid_arguments"),
        ({"what": "tea", "price": 5, "tip": 1}, "invalid_arguments"),
    ],
)
async def test_edited_arguments_are_checked_like_any_others(
    edited: dict[str, Any], reason: str
) -> None:
    shop = Shop()
    answer = ApprovalDecision(answer="allow", arguments=edited, by="bo")
    async with ToolHost([shop.buy()], config=CHEAP, approver=lambda request: answer) as host:
        result = await host.call("buy", TEA)
    assert result.reason == reason
    assert shop.ran == []


@pytest.mark.parametrize(
    ("edited", "words"),
    [
        ({"what": "tea", "price": "five"}, "price 'five' is not an integer"),
        ({"what": "tea"}, "price is required"),
        ({"what": 1, "price": 5, "tip": 1}, r"and 1 more"),
    ],
    ids=["type", "missing", "two"],
)
async def test_an_answer_whose_arguments_do_not_fit_is_refused_and_the_request_waits(
    edited: dict[str, Any], words: str, until: Any
) -> None:
    shop = Shop()
    async with ToolHost([shop.buy()], config=ASK) as host:
        call = asyncio.create_task(host.call("buy", TEA))
        request = await _asked(host, until)
        with pytest.raises(UnfitArguments, match=words) as caught:
            await host.approvals.decide(request.id, arguments=edited, by="bo")
        assert isinstance(caught.value, ConfigError | ValueError)
        assert len(caught.value.problems) == (2 if "tip" in edited else 1)
        assert caught.value.cure == f"Approval {request.id} stays pending: answer again"
        (fate,) = await host.approvals.decide_many([request.id], arguments=edited, by="bo")
        assert fate.request is None
        assert "do not fit buy" in str(fate.error)
        assert [r.id for r in await host.approvals.list()] == [request.id]
        assert not call.done()
        await host.approvals.decide(request.id, arguments={"what": "tea", "price": 4}, by="bo")
        assert (await call).status == "ok"
    assert shop.ran == [("tea", 4)]


async def test_the_mask_of_a_secret_is_no_unfit_argument(until: Any) -> None:
    ran: list[Any] = []

    @tool(name="buy", effects=["write"])
    async def buy(
        token: Annotated[str, re.compile("^tok-[0-9]+$")], price: Annotated[int, msgspec.Meta(le=9)]
    ) -> None:
        ran.append((token, price))

    async with ToolHost([buy], config=ASK) as host:
        call = asyncio.create_task(host.call("buy", {"token": "tok-123", "price": 5}))
        request = await _asked(host, until)
        assert request.arguments["token"] != "tok-123"
        with pytest.raises(UnfitArguments, match="price") as caught:
            await host.approvals.decide(request.id, arguments={**request.arguments, "price": 10})
        assert [problem.path for problem in caught.value.problems] == ["price"]
        with pytest.raises(UnfitArguments, match="token"):
            await host.approvals.decide(request.id, arguments={**request.arguments, "token": "x"})
        await host.approvals.decide(request.id, arguments={**request.arguments, "price": 4})
        await call
    assert ran == [("tok-123", 4)]


async def test_the_calls_before_a_request_are_those_of_its_session(until: Any) -> None:
    @tool(effects=["read"])
    async def look(n: int) -> int:
        return n

    shop = Shop()
    rules = _rules({"ask": "buy"}, {"allow": "look", "when": {"arguments": {"n": {"max": 5}}}})
    async with ToolHost([shop.buy(), look], config=rules) as host, host.session() as session:
        await host.call("look", {"n": 1})
        for n in (2, 3, 4, 9):
            await session.call("look", {"n": n})
        call = asyncio.create_task(session.call("buy", TEA))
        request = await _asked(host, until)
        past = await host.approvals.past(request)
        assert [(p.tool, p.ending) for p in past] == [
            ("look", "ok"),
            ("look", "ok"),
            ("look", "denied, argument_not_allowed"),
        ]
        assert len(await host.approvals.past(request, limit=9)) == 4
        await host.approvals.decide(request.id, allow=False)
        await call


async def test_arguments_are_not_edited_where_the_profile_does_not_permit_it(until: Any) -> None:
    shop = Shop()
    async with ToolHost([shop.buy()], config=_rules({"ask": "buy"}, edit=False)) as host:
        call = asyncio.create_task(host.call("buy", TEA))
        request = await _asked(host, until)
        with pytest.raises(ValueError, match="does not let approvers change arguments"):
            await host.approvals.decide(request.id, arguments={"what": "x", "price": 1}, by="bo")
        assert not call.done()
        await host.approvals.decide(request.id, by="bo")
        assert (await call).status == "ok"
    assert shop.ran == [("tea", 5)]


@pytest.mark.parametrize("effects", [["destructive"], ["write", "egress"], None])
async def test_always_is_not_offered_for_what_cannot_be_undone_or_is_unknown(
    effects: list[str] | None, until: Any
) -> None:
    shop = Shop()
    async with ToolHost([shop.burn(effects)], config=_rules({"ask": "burn"})) as host:
        call = asyncio.create_task(host.call("burn"))
        request = await _asked(host, until)
        assert request.offered == ("once", "1h")
        for reach in ("always", "session", "forever", ""):
            with pytest.raises(ValueError, match="not offered"):
                await host.approvals.decide(request.id, reach=reach, by="bo")
        assert not call.done()
        await host.approvals.decide(request.id, allow=False, by="bo")
        assert (await call).reason == "approval_rejected"
        assert await host.approvals.grants(live=False) == []
    assert shop.ran == []


async def test_session_grant_holds_in_its_session_only(until: Any) -> None:
    shop = Shop()
    async with ToolHost([shop.buy()], config=ASK) as host:
        async with host.session(principal="ada") as here, host.session(principal="ada") as there:
            call = asyncio.create_task(here.call("buy", TEA))
            request = await _asked(host, until)
            assert request.offered == ("once", "session", "1h", "always")
            await host.approvals.decide(request.id, reach="session", by="bo")
            assert (await call).status == "ok"
            assert (await here.call("buy", {"what": "ink", "price": 1})).status == "ok"
            await _still_asks(host, there.call("buy", TEA), until)
            await _still_asks(host, host.call("buy", TEA, principal="ada"), until)
        async with host.session(principal="ada") as later:
            await _still_asks(host, later.call("buy", TEA), until)
    assert shop.ran == [("tea", 5), ("ink", 1)]


@pytest.mark.parametrize("reach", ["1h", "always"])
async def test_lasting_grant_binds_principal_tool_definition_and_rules(
    reach: str, until: Any, place: Any
) -> None:
    shop = Shop()
    config = place.config(profiles=ASK["profiles"])
    async with ToolHost([shop.buy()], config=config) as host:
        call = asyncio.create_task(host.call("buy", TEA, principal="ada"))
        request = await _asked(host, until)
        await host.approvals.decide(request.id, reach=reach, by="bo")
        assert (await call).status == "ok"
        assert (await host.call("buy", {"what": "ink", "price": 1}, principal="ada")).success
        await _still_asks(host, host.call("buy", TEA, principal="cy"), until)
        host.register(shop.buy("Buy something, quickly."), replace=True)
        await _still_asks(host, host.call("buy", TEA, principal="ada"), until)
        host.register(shop.buy(), replace=True)
        assert (await host.call("buy", TEA, principal="ada")).success
        (grant,) = await host.approvals.grants()
        assert (grant.reach, grant.expires is None) == (reach, reach == "always")
    assert len(shop.ran) == 3

    changed = _rules({"ask": "buy"}, timeout="9s")["profiles"]
    async with ToolHost([shop.buy()], config=place.config(profiles=changed)) as host:
        await _still_asks(host, host.call("buy", TEA, principal="ada"), until)
    # Back under the same rules the grant is what it was, also after a restart.
    async with ToolHost([shop.buy()], config=config) as host:
        assert (await host.call("buy", TEA, principal="ada")).success
        (grant,) = await host.approvals.grants()
        assert await host.approvals.revoke(grant.id, by="bo")
        assert not await host.approvals.revoke(grant.id, by="bo")
        await _still_asks(host, host.call("buy", TEA, principal="ada"), until)
    assert len(shop.ran) == 4
    found = await place.look()
    found.assert_whole()
    types = [event.type for event in found.events]
    assert types.count("grant.created") == 1
    assert types.count("grant.used") == 3
    assert types.count("grant.revoked") == 1


async def test_revoking_works_for_the_next_call_in_another_host(place: Any, until: Any) -> None:
    shop = Shop()
    config = place.config(profiles=ASK["profiles"])
    async with ToolHost([shop.buy()], config=config) as one, ToolHost(config=place.config()) as two:
        call = asyncio.create_task(one.call("buy", TEA))
        request = await _asked(one, until)
        await one.approvals.decide(request.id, reach="always", by="bo")
        assert (await call).success
        (grant,) = await two.approvals.grants()
        assert await two.approvals.revoke(grant.id)
        await _still_asks(one, one.call("buy", TEA), until)
    assert len(shop.ran) == 1


@pytest.mark.parametrize("how", ["replaced", "removed"])
async def test_tool_that_changed_while_the_call_waited_does_not_run(how: str, until: Any) -> None:
    shop = Shop()
    async with ToolHost([shop.buy()], config=ASK) as host:
        call = asyncio.create_task(host.call("buy", TEA))
        request = await _asked(host, until)
        if how == "replaced":
            host.register(shop.buy("Buy something for somebody else."), replace=True)
        else:
            host.unregister("buy")
        await host.approvals.decide(request.id, by="bo")
        result = await call
    assert (result.status, result.reason) == ("denied", "definition_changed")
    assert shop.ran == []


NOW_DENIED: list[tuple[str, dict[str, Any], str]] = [
    ("denied", _rules({"deny": "buy"}), "denied_by_rule"),
    ("not in the profile", _rules({"ask": "burn"}), "not_in_profile"),
    (
        "dearer than allowed",
        _rules(
            {"ask": "buy"},
            {"deny": "buy", "when": {"arguments": {"price": {"min": 2}}}, "reason": "too_dear"},
        ),
        "too_dear",
    ),
    (
        "for others only",
        _rules({"ask": "buy", "when": {"roles": ["buyer"]}}),
        "not_in_profile",
    ),
    (
        "another profile",
        {"version": 1, "profiles": {"stock": {"rules": [{"deny": "*"}]}}},
        "not_in_profile",
    ),
]


@pytest.mark.parametrize(
    ("config", "reason"), [(c, r) for _, c, r in NOW_DENIED], ids=[n for n, _, _ in NOW_DENIED]
)
async def test_rules_that_changed_while_the_call_waited_are_in_force(
    config: dict[str, Any], reason: str, until: Any
) -> None:
    shop = Shop()
    source = dict(ASK)
    async with ToolHost([shop.buy(), shop.burn(["write"])], config=source) as host:
        call = asyncio.create_task(host.call("buy", TEA, principal=Principal("ada")))
        request = await _asked(host, until)
        source.clear()
        source |= config
        await host.reload()
        await host.approvals.decide(request.id, by="bo")
        result = await call
        assert (result.status, result.reason) == ("denied", reason)
        assert shop.ran == []
        # What the recheck found out stays between it and its call.
        again = await host.call("buy", TEA, principal=Principal("ada"), profile="shop")
        assert (again.status, again.reason) == ("denied", reason)
        plain = await host.call("buy", TEA, principal=Principal("ada"))
        assert plain.status == "denied"
    assert shop.ran == []


async def test_cancel_from_outside_ends_a_waiting_call_and_keeps_the_request(until: Any) -> None:
    shop = Shop()
    async with ToolHost([shop.buy()], config=ASK) as host:
        call = asyncio.create_task(host.call("buy", TEA, call_id="mine"))
        request = await _asked(host, until)
        assert host.cancel("mine")
        result = await asyncio.wait_for(call, 5)
        assert (result.status, result.reason) == ("error", "cancelled")
        assert [r.id for r in await host.approvals.list()] == [request.id]
        await host.approvals.decide(request.id, by="bo")
        assert (await host.call("buy", TEA)).success
    assert shop.ran == [("tea", 5)]
