"""Event streams, in whatever pieces they come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.protocol.mcp.sse import Event, EventParser, EventTooLarge

STREAM = (
    b"\xef\xbb\xbf: a comment\n\n"
    b"event: endpoint\r\ndata: /messages\r\n\r\n"
    b"id: 7\rdata: one\rdata:two\r\r"
    b"retry: 1500\nid: 8\ndata:\n\n"
    b'data: {"a":\ndata: 1}\nunknown: x\nretry: soon\n\n'
    b"data: not ended"
)
EVENTS = [
    Event("endpoint", "/messages", ""),
    Event("message", "one\ntwo", "7"),
    Event("message", '{"a":\n1}', "8"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_pieces_do_not_matter(cuts: list[int]) -> None:
    parser = EventParser(1000)
    places = [0, *sorted(cuts), len(STREAM)]
    found: list[Event] = []
    for start, end in pairwise(places):
        found += parser.feed(STREAM[start:end])
    assert found == EVENTS
    assert parser.last_id == "8"
    assert parser.retry == 1.5


@pytest.mark.parametrize("text", [b"data: " + b"x" * 50, b"data: 12345678\n" * 10], ids=len)
def test_an_event_without_end_is_refused(text: bytes) -> None:
    parser = EventParser(40)
    pieces = [text[start : start + 7] for start in range(0, len(text), 7)]
    with pytest.raises(EventTooLarge):
        list(map(parser.feed, pieces))


def test_many_small_events_are_no_large_one() -> None:
    parser = EventParser(40)
    assert len(parser.feed(b"data: 1234567890\n\n" * 50)) == 50
