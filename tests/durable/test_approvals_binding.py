"""An answer fits one call: nothing that differs in any part may use it, and nothing twice."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import msgspec

from toolcrib import Principal, ToolHost, tool
from toolcrib.core.approval import ApprovalRequest, Grant, binding_key
from toolcrib.core.canonical import canonical, digest_bytes
from toolcrib.stores.memory import MemoryStore

FAR = 3600.0
SOON = "2ms"
"""Nobody answers the honest question, so it ends by itself."""

PROFILES: dict[str, Any] = {
    "careful": {"rules": [{"ask": "pay"}], "approval": {"timeout": SOON, "max_pending": 100_000}},
    "other": {
        "rules": [{"ask": "pay"}],
        "approval": {"timeout": SOON, "max_pending": 100_000},
        "limits": {"concurrent": 1000},
    },
}
CONFIG: dict[str, Any] = {"version": 1, "host": {"profile": "careful"}, "profiles": PROFILES}


class Till:
    """A tool that counts how often it really ran."""

    def __init__(self) -> None:
        self.ran: list[dict[str, Any]] = []

    def pay(self, description: str = "Pay somebody.") -> Any:
        """The tool; another description is another definition."""
        ran = self.ran

        @tool(name="pay", description=description, effects=["write"])
        async def pay(to: str, amount: int, urgent: bool = False) -> str:
            ran.append({"to": to, "amount": amount, "urgent": urgent})
            return "paid"

        return pay


ASKED = {"to": "bo", "amount": 5}
WHO = Principal("ada")


async def _genuine(host: ToolHost, store: MemoryStore) -> ApprovalRequest:
    """The request as the host itself makes it, said yes to and not yet used; not in the store."""
    result = await host.call("pay", ASKED, principal=WHO)
    assert result.reason == "approval_expired"
    made = (await store.requests())[-1]
    now = time.time()
    return msgspec.structs.replace(
        made, id="genuine", state="allowed", decided=now, by="bo", reach="once", expires=now + FAR
    )


def _rekeyed(row: ApprovalRequest, **parts: Any) -> ApprovalRequest:
    """The row as it would be for another call: its key covers the changed part."""
    known = {
        "digest": row.digest,
        "arguments_hash": digest_bytes(canonical({**ASKED, "urgent": False})),
        "principal": row.principal,
        "session": row.session,
        "door": row.door,
        "revision": row.revision,
    }
    assert binding_key(**known) == row.key
    fields = {k: v for k, v in parts.items() if k != "arguments_hash"}
    return msgspec.structs.replace(row, key=binding_key(**known | parts), **fields)


def _flipped(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text))
    other = chance.choice([c for c in "0123456789abcdef" if c != text[at]])
    return text[:at] + other + text[at + 1 :]


def _other_arguments(chance: random.Random) -> dict[str, Any]:
    return chance.choice(
        [
            {**ASKED, "amount": chance.randrange(6, 10**6)},
            {**ASKED, "to": f"bo{chance.randrange(10**6)}"},
            {**ASKED, "to": "bo\u200b"},
            {**ASKED, "urgent": True},
        ]
    )


Forge = Callable[[ApprovalRequest, random.Random], ApprovalRequest]
_set = msgspec.structs.replace

FORGED: dict[str, Forge] = {
    "key bit": lambda row, c: _set(row, key=_flipped(row.key, c)),
    "key cut": lambda row, c: _set(row, key=row.key[: c.randrange(len(row.key))]),
    "key case": lambda row, c: _set(row, key=row.key.upper()),
    "key space": lambda row, c: _set(row, key=row.key + c.choice(" \n\0")),
    "digest": lambda row, c: _rekeyed(row, digest=_flipped(row.digest, c)),
    "arguments": lambda row, c: _rekeyed(
        row, arguments_hash=digest_bytes(canonical({**_other_arguments(c), "x": c.random()}))
    ),
    "principal": lambda row, c: _rekeyed(row, principal=f"ada{c.randrange(10**9)}"),
    "session": lambda row, c: _rekeyed(row, session=f"s{c.randrange(10**9)}"),
    "door": lambda row, c: _rekeyed(row, door=f"door{c.randrange(10**9)}"),
    "revision": lambda row, c: _rekeyed(row, revision=_flipped(row.revision, c)),
    "state": lambda row, c: _set(row, state=c.choice(["denied", "expired", "used", "withdrawn"])),
    "not answered": lambda row, c: _set(row, state="pending", expires=time.time() + 0.002),
    "expiry": lambda row, c: _set(row, expires=time.time() - c.random() * 100),
}


async def _forge_rows(chance: random.Random, count: int) -> int:
    till = Till()
    store = MemoryStore()
    async with ToolHost([till.pay()], config=CONFIG, store=store) as host:
        genuine = await _genuine(host, store)
        for number in range(count):
            kind = list(FORGED)[number % len(FORGED)]
            forged = FORGED[kind](genuine, chance)
            await store.put_request(_set(forged, id=f"forged{number}"))
            result = await host.call("pay", ASKED, principal=WHO)
            assert result.status == "denied", (kind, result)
            assert till.ran == [], kind
        # The same row with nothing changed does let the call run: the test could have failed.
        await store.put_request(genuine)
        assert (await host.call("pay", ASKED, principal=WHO)).status == "ok"
        assert len(till.ran) == 1
        for number in range(count // 4):
            # Used rows brought back under their own id or another one are used rows.
            used = _set(genuine, state="used", id=f"used{number}")
            await store.put_request(used)
            assert not await store.redeem_request(
                genuine.id, key=genuine.key, call_id=f"x{number}", now=time.time()
            )
            assert not await store.answer_request(genuine)
            assert (await host.call("pay", ASKED, principal=WHO)).status == "denied"
        assert len(till.ran) == 1
    return count + count // 4


async def _change_calls(chance: random.Random, count: int) -> int:
    """One genuine yes lies ready all the time; no call but its own may take it."""
    till = Till()
    store = MemoryStore()
    changed = Till()
    async with ToolHost([till.pay()], config=CONFIG, store=store) as host:
        genuine = await _genuine(host, store)
        await store.put_request(genuine)
        async with host.session(principal=WHO) as session:
            for number in range(count):
                way = number % 5
                if way == 0:
                    call = host.call("pay", _other_arguments(chance), principal=WHO)
                elif way == 1:
                    call = host.call("pay", ASKED, principal=f"ada{chance.randrange(10**6)}")
                elif way == 2:
                    call = session.call("pay", ASKED)
                elif way == 3:
                    call = host.call("pay", ASKED, principal=WHO, profile="other")
                else:
                    words = f"Pay somebody {chance.random()}."
                    host.register(changed.pay(words), replace=True)
                    call = host.call("pay", ASKED, principal=WHO)
                result = await call
                assert result.status == "denied", (way, result)
                if way == 4:
                    host.register(till.pay(), replace=True)
        assert (till.ran, changed.ran) == ([], [])
        assert (await host.call("pay", ASKED, principal=WHO)).status == "ok"
        assert till.ran == [{**ASKED, "urgent": False}]
    return count


async def _forge_grants(chance: random.Random, count: int) -> int:
    till = Till()
    store = MemoryStore()
    async with ToolHost([till.pay()], config=CONFIG, store=store) as host:
        made = await _genuine(host, store)
        now = time.time()
        genuine = Grant(
            id="genuine", tool="pay", digest=made.digest, principal="ada", session=None,
            revision=made.revision, reach="always", by="bo", created=now, expires=None,
            request=made.id,
        )  # fmt: skip
        ways: list[Callable[[], dict[str, Any]]] = [
            lambda: {"tool": f"pay{chance.randrange(10**6)}"},
            lambda: {"digest": _flipped(made.digest, chance)},
            lambda: {"principal": f"Ada{chance.randrange(10**6)}"},
            lambda: {"revision": _flipped(made.revision, chance)},
            lambda: {"reach": "session", "session": f"s{chance.randrange(10**6)}"},
            lambda: {"reach": "session", "session": None},
            lambda: {"expires": now - chance.random()},
            lambda: {"revoked": now},
        ]
        for number in range(count):
            forged = _set(genuine, id=f"g{number}", **ways[number % len(ways)]())
            await store.put_grant(forged)
            result = await host.call("pay", ASKED, principal=WHO)
            assert result.status == "denied", forged
        assert till.ran == []
        await store.put_grant(genuine)
        assert (await host.call("pay", ASKED, principal=WHO)).status == "ok"
        assert len(till.ran) == 1
    return count


async def test_ten_thousand_mutated_or_replayed_approvals_execute_never() -> None:
    chance = random.Random(10_000)
    # Many small stores side by side: each call waits for a question that nobody answers.
    batches = [
        batch
        for _ in range(16)
        for batch in (
            _forge_rows(chance, 260),
            _change_calls(chance, 200),
            _forge_grants(chance, 104),
        )
    ]
    assert sum(await asyncio.gather(*batches)) >= 10_000


async def test_answers_to_other_requests_answer_nothing_here(until: Any) -> None:
    till = Till()
    profile = {"careful": {"rules": [{"ask": "pay"}], "approval": {"timeout": "10s"}}}
    async with ToolHost([till.pay()], config={"version": 1, "profiles": profile}) as host:
        mine = asyncio.create_task(host.call("pay", ASKED, principal=WHO))
        other = asyncio.create_task(host.call("pay", {"to": "cy", "amount": 1}, principal=WHO))

        async def both() -> bool:
            return len(await host.approvals.list()) == 2

        await until(both)
        by_arguments = {r.arguments["to"]: r for r in await host.approvals.list()}
        assert host._parts is not None
        store = host._parts.store
        # The yes to one, put into the store under the id of the other, with its key.
        forged = msgspec.structs.replace(
            by_arguments["cy"], id=by_arguments["bo"].id, state="allowed", decided=time.time()
        )
        assert not await store.answer_request(forged)
        await host.approvals.decide(by_arguments["cy"].id, by="bo")
        assert (await asyncio.wait_for(other, 5)).status == "ok"
        await asyncio.sleep(0.05)
        assert not mine.done()
        assert till.ran == [{"to": "cy", "amount": 1, "urgent": False}]
        mine.cancel()
        await asyncio.gather(mine, return_exceptions=True)


async def test_rows_forged_in_the_file_execute_never(place: Any) -> None:
    """Columns and body that contradict each other, as an editor of the file would leave them."""
    till = Till()
    chance = random.Random(3)
    careful = {
        "careful": {"rules": [{"ask": "pay"}], "approval": {"timeout": SOON, "max_pending": 9999}}
    }
    config = place.config(profiles=careful)
    async with ToolHost([till.pay()], config=config) as host:
        await host.call("pay", ASKED, principal=WHO)
        (made,) = await host.approvals.list(state="expired")
        file = sqlite3.connect(place.db, isolation_level=None)
        now = time.time()
        good = msgspec.structs.replace(
            made, state="allowed", decided=now, by="bo", reach="once", expires=now + FAR
        )
        bad_key = _flipped(made.key, chance)
        for number, (column, body, state, expires) in enumerate(
            [
                (made.key, {"key": bad_key}, "allowed", now + FAR),
                (bad_key, {}, "allowed", now + FAR),
                (made.key, {}, "used", now + FAR),
                (made.key, {}, "denied", now + FAR),
                (made.key, {}, "allowed", now - 1),
                (made.key, {"id": "else"}, "withdrawn", now + FAR),
            ]
        ):
            text = json.dumps(good.to_dict() | {"id": f"f{number}"} | body)
            file.execute("DELETE FROM requests")
            file.execute(
                "INSERT INTO requests(id, key, state, expires, principal, decided, body) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (f"f{number}", column, state, expires, "ada", now, text),
            )
            result = await host.call("pay", ASKED, principal=WHO)
            assert result.status == "denied", (number, result)
        file.close()
        assert till.ran == []
    (await place.look()).assert_whole()
