"""Who sees what: every event type, for every kind of viewer, live and replayed."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from onlookers import caller, decoded, look, take, types, until, watched
from toolcrib import ToolHost
from toolcrib.core.events import EVENTS, Event, FactRecord
from toolcrib.transports.crowd import Crowd
from toolcrib.transports.events import Hub, View
from toolcrib.transports.faults import Fault
from toolcrib.transports.viewing import BELONGS, Look


class Row(NamedTuple):
    """An event of ann's, and who sees it beside the auditor."""

    data: dict[str, Any]
    owner: bool
    other: bool
    approver: bool


ANN: dict[str, Any] = {"principal": "ann", "session": "s1", "tool": "deploy"}
CALL: dict[str, Any] = {**ANN, "profile": None, "arguments": {"to": "prod"}}
OWN = (True, False, False)
ASKED = (True, False, True)
NOBODY = (False, False, False)
EVERYBODY = (True, True, True)

TABLE: dict[str, Row] = {
    "host.started": Row({"tools": 3}, *EVERYBODY),
    "host.stopped": Row({}, *EVERYBODY),
    "config.loaded": Row({"files": ["toolcrib.yaml"]}, *NOBODY),
    "config.rejected": Row({"message": "wrong"}, *NOBODY),
    "catalog.changed": Row({"change": "added", "tool": "hidden", "version": "0"}, *EVERYBODY),
    "provider.up": Row({"provider": "billing"}, *NOBODY),
    "provider.down": Row({"provider": "billing"}, *NOBODY),
    "provider.drift": Row({"provider": "billing", "changed": ["billing-pay"]}, *NOBODY),
    "provider.accepted": Row({"provider": "billing", "by": "ann"}, *NOBODY),
    "provider.rejected": Row({"provider": "billing", "by": "ann"}, *NOBODY),
    "session.opened": Row(ANN, *OWN),
    "session.closed": Row(ANN, *OWN),
    "call.received": Row(CALL, *OWN),
    "call.decided": Row({"verdict": "allow", "gate": "profile"}, *OWN),
    "call.denied": Row({**ANN, "status": "denied"}, *OWN),
    "call.started": Row({"wait_s": 0.0}, *OWN),
    "call.progress": Row({"fraction": 0.5, "message": None, "principal": "bob"}, *OWN),
    "call.attempt": Row({"attempt": 2}, *OWN),
    "call.late": Row({"tool": "deploy", "principal": "bob"}, *OWN),
    "call.finished": Row({**ANN, "status": "ok"}, *OWN),
    "approval.requested": Row({**ANN, "request": "r1"}, *ASKED),
    "approval.decided": Row({**ANN, "request": "r1"}, *ASKED),
    "approval.used": Row({"request": "r1", "by": "bob", "note": None}, *ASKED),
    "grant.created": Row({**ANN, "grant": "g1"}, *OWN),
    "grant.used": Row({**ANN, "grant": "g1"}, *OWN),
    "grant.revoked": Row({**ANN, "grant": "g1"}, *OWN),
    "tool.emitted": Row({"name": "x", "data": {}, "principal": "bob"}, *OWN),
    "tool.log": Row({"message": "hi", "principal": "bob", "tool": "deploy"}, *OWN),
}
VIEWERS = {
    "owner": caller("ann"),
    "other": caller("bob"),
    "approver": caller("carl", "approve"),
    "auditor": caller("eve", "audit"),
}


def test_every_event_type_has_a_row() -> None:
    assert set(TABLE) == set(EVENTS) == set(BELONGS)


@pytest.mark.parametrize("kind", TABLE)
async def test_live_each_viewer_sees_what_it_may(kind: str) -> None:
    row = TABLE[kind]
    async with watched() as (host, hub):
        views = {name: hub.view(who) for name, who in VIEWERS.items()}
        host.bus.publish(Event(id="", type="call.received", time=1.0, call_id="c1", data=CALL))
        host.bus.publish(Event(id="", type=kind, time=2.0, call_id="c1", data=row.data))
        assert await _seers(hub, views, host, kind, 2.0) == _expected(row)


@pytest.mark.parametrize("kind", TABLE)
async def test_replayed_each_viewer_sees_the_same(kind: str) -> None:
    row = TABLE[kind]
    async with watched() as (host, hub):
        trail = (await host.start()).trail
        trail.append(FactRecord(1.0, "call.received", "c1", CALL))
        trail.append(FactRecord(2.0, kind, "c1", row.data))
        views = {name: hub.view(who, after="") for name, who in VIEWERS.items()}
        assert await _seers(hub, views, host, kind, 2.0) == _expected(row)


def _expected(row: Row) -> dict[str, bool]:
    return {"owner": row.owner, "other": row.other, "approver": row.approver, "auditor": True}


async def _seers(
    hub: Hub, views: dict[str, View], host: ToolHost, kind: str, time: float
) -> dict[str, bool]:
    """Which views got the event of a time."""
    mark = Event(id="", type="host.started", time=99.0)
    for view in views.values():
        await view.open()
    host.bus.publish(mark)
    seen: dict[str, bool] = {}
    for name, view in views.items():
        found = [decoded(each) for each in await until(view, lambda event: event.time == 99.0)]
        seen[name] = any(event.type == kind and event.time == time for event in found)
    return seen


@pytest.mark.parametrize("kind", [kind for kind, to in BELONGS.items() if to == "call"])
async def test_what_belongs_to_an_unknown_call_is_for_auditors(kind: str) -> None:
    async with watched() as (host, hub):
        views = {name: hub.view(who) for name, who in VIEWERS.items()}
        data = {**TABLE[kind].data, "principal": "ann"}
        host.bus.publish(Event(id="", type=kind, time=2.0, call_id="cold", data=data))
        asked = kind == "approval.used"
        assert await _seers(hub, views, host, kind, 2.0) == {
            "owner": False,
            "other": False,
            "approver": asked,
            "auditor": True,
        }


async def test_an_event_of_an_unknown_type_is_for_auditors() -> None:
    async with watched() as (host, hub):
        views = {name: hub.view(who) for name, who in VIEWERS.items()}
        host.bus.publish(Event(id="", type="plug.ged", time=2.0, data={"principal": "ann"}))
        seen = await _seers(hub, views, host, "plug.ged", 2.0)
        assert seen == {"owner": False, "other": False, "approver": False, "auditor": True}


async def test_a_changed_catalog_names_no_tool_to_those_who_may_not_know_it() -> None:
    async with watched() as (host, hub):
        mine, all_of_it = hub.view(caller("ann")), hub.view(caller("eve", "audit"))
        host.unregister("look")
        (shown,) = await take(mine, 1)
        (whole,) = await take(all_of_it, 1)
        assert decoded(shown).data == {"change": "removed"}
        assert b"look" not in shown.data
        assert decoded(whole).data["tool"] == "look"
        assert shown.id == whole.id


async def test_a_session_of_somebody_else_is_not_told_of() -> None:
    async with watched() as (host, hub):
        ann, bob = hub.view(caller("ann")), hub.view(caller("bob"))
        async with host.session(principal="ann") as session:
            session.register(_named("own"))
        mark = Event(id="", type="host.started", time=99.0)
        host.bus.publish(mark)
        mine = await until(ann, lambda event: event.time == 99.0)
        theirs = await until(bob, lambda event: event.time == 99.0)
        assert types(mine) == ["session.opened", "catalog.changed", "session.closed", mark.type]
        assert types(theirs) == [mark.type]


def _named(name: str) -> Any:
    async def function() -> None:
        """Do nothing."""

    function.__name__ = name
    return function


CONCEALING = {"profiles": {"shy": {"rules": [], "conceal": True}}}


async def test_a_concealed_tool_looks_like_one_that_does_not_exist() -> None:
    async with watched(look, config=CONCEALING) as (host, hub):
        ann, eve = hub.view(caller("ann")), hub.view(caller("eve", "audit"))
        there = await host.call("look", {"path": "x"}, principal="ann")
        nowhere = await host.call("nope", {"path": "x"}, principal="ann")
        first, second = await take(ann, 3), await take(ann, 3)
        assert types(first) == ["call.received", "call.decided", "call.finished"]
        assert [_alike(each, "look", there.call_id) for each in first] == [
            _alike(each, "nope", nowhere.call_id) for each in second
        ]
        assert (await take(eve, 3))[-1].type == "call.denied"
        for view in (
            hub.view(caller("ann"), call_id=there.call_id),
            hub.view(ann.caller, after=""),
        ):
            replayed = [each for each in await take(view, 3) if each.type != "host.started"]
            assert [each.data for each in replayed] == [e.data for e in first[: len(replayed)]]


def _alike(seen: Any, tool: str, call_id: str) -> dict[str, Any]:
    """What is left of an event without what differs from call to call."""
    text = seen.data.decode().replace(call_id, "ID").replace(tool, "TOOL")
    event = decoded(msgspec.structs.replace(seen, data=text.encode()))
    return {"type": event.type, "call_id": event.call_id, **event.data}


async def test_who_asks_for_a_call_is_given_nothing_of_somebody_elses() -> None:
    async with watched() as (_, hub):
        crowd, event = (
            Crowd(),
            Event(id="", type="call.received", time=1.0, call_id="c1", data=CALL),
        )
        views = {name: hub.view(who, call_id="c1") for name, who in VIEWERS.items()}
        for view in views.values():
            crowd.add(view)
        who = dict(crowd.who(event, Look("ann", False, event)))
        assert who == {views["owner"]: False, views["auditor"]: True}
        for view in views.values():
            crowd.discard(view)
        assert len(crowd) == 0


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        pytest.param(["call.startd"], "Did you mean call.started?", id="misspelt"),
        pytest.param(["cal.*"], "Did you mean call.*?", id="misspelt family"),
        pytest.param(["call.finished", ""], "there are no events ''", id="empty"),
    ],
)
async def test_types_that_stand_for_nothing_are_refused(wanted: list[str], words: str) -> None:
    async with watched() as (host, hub):
        with pytest.raises(Fault, match=r"there are no events") as refused:
            hub.view(caller("ann"), types=wanted)
        assert refused.value.reason == "invalid_request"
        assert words in refused.value.message
        assert len(hub) == 0
        assert not host.bus.active


async def test_types_choose_what_is_seen() -> None:
    async with watched() as (host, hub):
        view = hub.view(caller("ann"), types=["call.*", "tool.log"])
        narrow = hub.view(caller("ann"), types=["call.finished"])
        await host.call("work", {"steps": 1}, principal="ann")
        assert types(await take(view, 6)) == [
            "call.received",
            "call.decided",
            "call.started",
            "call.progress",
            "tool.log",
            "call.finished",
        ]
        assert types(await take(narrow, 1)) == ["call.finished"]
