"""Facts, written once. A call leaves one compact record; events are views of records."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import msgspec

from toolcrib.core.canonical import digest_bytes

EVENTS: dict[str, str] = {
    "host.started": "The host is ready.",
    "host.stopped": "The host has stopped; every call has ended.",
    "config.loaded": "A configuration was read and is in force.",
    "config.rejected": "A changed configuration was wrong; the old one stays in force.",
    "catalog.changed": "Tools were added, replaced or removed.",
    "provider.up": "A provider answers and its tools can be called.",
    "provider.down": "A provider does not answer; its tools stay listed as unavailable.",
    "provider.drift": "What a provider lists is not what was accepted; that much is quarantined.",
    "provider.accepted": "Tools of a provider were accepted: by a person, or on first use.",
    "provider.rejected": "A person does not want tools of a provider as they are.",
    "session.opened": "A session began.",
    "session.closed": "A session ended and its tools were closed.",
    "call.received": "A call arrived.",
    "call.decided": "The gates answered: verdict, reason, rule, and where it stands.",
    "call.denied": "The call was refused. The last event of a refused call.",
    "call.started": "The tool began to run.",
    "call.progress": "The tool told how far it is. Never stored.",
    "call.attempt": "An attempt failed and another one follows.",
    "call.late": "A call ended after it had been written off as `outcome_unknown`.",
    "call.finished": "The call ended: status, reason, timings, sizes. The last event of a call.",
    "approval.requested": "A person is asked.",
    "approval.decided": "A person, an approver or the clock answered.",
    "approval.used": "An answer let this call run; no other call can use it.",
    "grant.created": "An approval will be remembered.",
    "grant.used": "A remembered approval let a call pass.",
    "grant.revoked": "A remembered approval was taken back.",
    "tool.emitted": "A tool put a fact of its own on the trail.",
    "tool.log": "A tool wrote a log line. Never stored.",
}
"""Every event type and what it says."""


NOTHING = msgspec.Raw(b"null")
"""Stands in a record where there are no arguments or no output to show."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One fact. Never changed after it is published."""

    id: str
    """`run.seq.index`: the writer's run, the record's number in it, the event in the record.
    Events that are not stored have an empty id."""
    type: str
    time: float
    """Seconds since 1970."""
    call_id: str | None = None
    data: dict[str, Any] = {}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return msgspec.to_builtins(self)


class CallRecord(msgspec.Struct, array_like=True, tag="call", gc=False):
    """A whole call: what was asked, decided and done. Arguments and output are already redacted."""

    time: float
    call_id: str
    tool: str
    principal: str
    session: str | None
    profile: str | None
    door: str
    parent: str | None
    verdict: str
    gate: str
    rule: str | None
    source: str | None
    arguments: msgspec.Raw
    arguments_size: int
    arguments_hash: str | None
    """Only when `arguments` is not the whole truth: SHA-256 of what was really passed."""
    decide_s: float
    status: str
    reason: str | None
    message: str | None
    output: msgspec.Raw
    output_size: int
    output_hash: str | None
    attempts: int
    wait_s: float
    queue_s: float
    run_s: float
    total_s: float
    still_running: bool = False


class OkRecord(msgspec.Struct, array_like=True, tag="ok", gc=False):
    """A whole call that went the common way: allowed at once, one attempt, all of it kept.

    The short form of `CallRecord`; most records are these, so they hold only what differs.
    """

    time: int
    """Nanoseconds since 1970, when the call ended."""
    call_id: str
    about: msgspec.Raw
    """tool, principal, session, profile, door, gate, rule, source: equal for many calls."""
    arguments: msgspec.Raw
    output: msgspec.Raw
    """As JSON; whoever writes a number may leave it a number."""
    decide_ns: int
    run_ns: int
    total_ns: int


class BeginRecord(msgspec.Struct, array_like=True, tag="begin", gc=False):
    """The short form of `OpenRecord`: allowed at once, and all of it kept."""

    time: int
    """Nanoseconds since 1970, when the call was about to run."""
    call_id: str
    about: msgspec.Raw
    arguments: msgspec.Raw
    decide_ns: int
    since_ns: int
    """How long before that the call arrived."""


class DoneRecord(msgspec.Struct, array_like=True, tag="done", gc=False):
    """The short form of `CloseRecord`: it ended well, at the first attempt, without waiting."""

    time: int
    call_id: str
    about: msgspec.Raw
    output: float | int | bool | None
    run_ns: int
    total_ns: int


class OpenRecord(msgspec.Struct, array_like=True, tag="open", gc=False):
    """The first half of a call that is written in two: until it starts (verdict `allow`) or waits
    for a person (verdict `ask`)."""

    time: float
    call_id: str
    tool: str
    principal: str
    session: str | None
    profile: str | None
    door: str
    parent: str | None
    verdict: str
    gate: str
    rule: str | None
    source: str | None
    arguments: msgspec.Raw
    arguments_size: int
    arguments_hash: str | None
    decide_s: float


class StartRecord(msgspec.Struct, array_like=True, tag="start", gc=False):
    """A call that waited for a person began to run."""

    time: float
    call_id: str
    wait_s: float
    queue_s: float
    arguments: msgspec.Raw = NOTHING
    """Only when the approver changed them: what really ran."""
    arguments_size: int = 0
    arguments_hash: str | None = None


class CloseRecord(msgspec.Struct, array_like=True, tag="close", gc=False):
    """The second half of a call that is written in two: how it ended."""

    time: float
    call_id: str
    tool: str
    principal: str
    session: str | None
    status: str
    reason: str | None
    message: str | None
    output: msgspec.Raw
    output_size: int
    output_hash: str | None
    attempts: int
    wait_s: float
    queue_s: float
    run_s: float
    total_s: float
    still_running: bool = False


class FactRecord(msgspec.Struct, array_like=True, tag="fact", gc=False):
    """Any other event."""

    time: float
    event: str
    call_id: str | None
    data: dict[str, Any]


LongRecord = CallRecord | OpenRecord | StartRecord | CloseRecord | FactRecord
"""What a reader meets."""
Record = LongRecord | OkRecord | BeginRecord | DoneRecord
"""What a writer writes; the short forms say the same with less."""


@functools.cache
def _decoder() -> msgspec.json.Decoder[Record]:
    """Made when a trail is read for the first time: it takes long."""
    return msgspec.json.Decoder(Record)


def decode_record(line: bytes) -> LongRecord:
    """A record as it stands on the trail, in its long form."""
    return whole(_decoder().decode(line))


encode_record = msgspec.json.Encoder().encode


def events_of(record: Record, run: str, seq: int) -> Iterator[Event]:
    """The events of one stored record, in order."""
    for index, (type_, time, call_id, data) in enumerate(_facts(whole(record))):
        yield Event(id=f"{run}.{seq}.{index}", type=type_, time=time, call_id=call_id, data=data)


def whole(r: Record) -> LongRecord:
    """The long form of a record."""
    if not isinstance(r, OkRecord | BeginRecord | DoneRecord):
        return r
    tool, principal, session, profile, door, gate, rule, source = msgspec.json.decode(r.about)
    time = r.time / 1e9
    if isinstance(r, BeginRecord):
        return OpenRecord(
            time - r.since_ns / 1e9, r.call_id, tool, principal, session, profile, door, None,
            "allow", gate, rule, source, r.arguments, len(bytes(r.arguments)), None,
            r.decide_ns / 1e9,
        )  # fmt: skip
    said: Any = r.output
    output = said if isinstance(said, msgspec.Raw) else msgspec.Raw(encode_record(said))
    size = 0 if output == NOTHING else len(bytes(output))
    total, run = r.total_ns / 1e9, r.run_ns / 1e9
    if isinstance(r, DoneRecord):
        return CloseRecord(
            time, r.call_id, tool, principal, session, "ok", None, None, output, size, None,
            1, 0.0, 0.0, run, total,
        )  # fmt: skip
    return CallRecord(
        time - total, r.call_id, tool, principal, session, profile, door, None,
        "allow", gate, rule, source, r.arguments, len(bytes(r.arguments)), None, r.decide_ns / 1e9,
        "ok", None, None, output, size, None, 1, 0.0, 0.0, run, total,
    )  # fmt: skip


_Fact = tuple[str, float, str | None, dict[str, Any]]


def _facts(record: LongRecord) -> Iterator[_Fact]:
    if isinstance(record, FactRecord):
        yield record.event, record.time, record.call_id, record.data
    elif isinstance(record, StartRecord):
        data: dict[str, Any] = {"wait_s": record.wait_s}
        if record.arguments_size:
            data["arguments"] = _value(record.arguments)
            data["arguments_size"] = record.arguments_size
            kept = record.arguments_hash
            data["arguments_hash"] = _hash(record.arguments, record.arguments_size, kept)
        yield "call.started", record.time, record.call_id, data
    elif isinstance(record, CloseRecord):
        yield _ending(record, record.time)
    elif isinstance(record, OpenRecord):
        yield from _opening(record)
        if record.verdict == "allow":
            yield "call.started", record.time + record.decide_s, record.call_id, {"wait_s": 0.0}
    else:
        yield from _opening(record)
        if record.attempts:
            began = record.time + record.total_s - record.run_s
            yield "call.started", began, record.call_id, {"wait_s": record.wait_s}
        yield _ending(record, record.time + record.total_s)


def _opening(r: CallRecord | OpenRecord) -> Iterator[_Fact]:
    received: dict[str, Any] = {
        "tool": r.tool,
        "principal": r.principal,
        "session": r.session,
        "profile": r.profile,
        "door": r.door,
        "parent": r.parent,
        "arguments": _value(r.arguments),
        "arguments_size": r.arguments_size,
        "arguments_hash": _hash(r.arguments, r.arguments_size, r.arguments_hash),
    }
    yield "call.received", r.time, r.call_id, received
    if r.verdict == "abstain":
        return  # it ended before anybody was asked
    decided = {"verdict": r.verdict, "gate": r.gate, "rule": r.rule, "source": r.source}
    if isinstance(r, CallRecord) and r.verdict == "deny":
        decided |= {"reason": r.reason, "message": r.message}
    yield "call.decided", r.time + r.decide_s, r.call_id, decided


def _ending(r: CallRecord | CloseRecord, time: float) -> _Fact:
    data: dict[str, Any] = {
        "tool": r.tool,
        "principal": r.principal,
        "session": r.session,
        "status": r.status,
        "reason": r.reason,
        "message": r.message,
    }
    if r.status == "denied":
        return "call.denied", time, r.call_id, data | {"total_s": r.total_s, "wait_s": r.wait_s}
    data |= {
        "output": _value(r.output),
        "output_size": r.output_size,
        "output_hash": _hash(r.output, r.output_size, r.output_hash),
        "attempts": r.attempts,
        "still_running": r.still_running,
        "timings": {"wait": r.wait_s, "queue": r.queue_s, "run": r.run_s, "total": r.total_s},
    }
    return "call.finished", time, r.call_id, data


def _value(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)


def _hash(raw: msgspec.Raw, size: int, kept: str | None) -> str | None:
    """The hash of what was really passed; recomputed when the record has all of it."""
    if kept is not None or not size:
        return kept
    return digest_bytes(bytes(raw))
