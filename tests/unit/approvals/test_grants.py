"""How far answers reach and what they are bound to."""

from __future__ import annotations

import pytest

from toolcrib.core.approval import binding_key, offered_reaches
from toolcrib.core.profile import ApprovalRules

EVERY = ApprovalRules(remember=("always", "1h", "session", "once"))


@pytest.mark.parametrize(
    ("effects", "session", "offered"),
    [
        (("read",), "s", ("once", "session", "1h", "always")),
        (("write",), "s", ("once", "session", "1h", "always")),
        (("read", "egress"), None, ("once", "1h", "always")),
        (("write", "egress"), "s", ("once", "session", "1h")),
        (("destructive",), "s", ("once", "session", "1h")),
        (None, "s", ("once", "session", "1h")),
        (None, None, ("once", "1h")),
    ],
)
def test_what_is_offered_follows_effects_and_session(
    effects: tuple[str, ...] | None, session: str | None, offered: tuple[str, ...]
) -> None:
    assert offered_reaches(EVERY, effects, session) == offered


def test_once_is_offered_even_when_the_profile_does_not_list_it() -> None:
    assert offered_reaches(ApprovalRules(remember=()), ("read",), "s") == ("once",)
    assert offered_reaches(ApprovalRules(remember=("1h",)), ("read",), "s") == ("once", "1h")


def test_every_part_of_the_binding_changes_the_key() -> None:
    base = {
        "digest": "d",
        "arguments_hash": "a",
        "principal": "p",
        "session": "s",
        "door": "http",
        "revision": "r",
    }
    parts = ("digest", "arguments_hash", "principal", "session", "revision")
    keys = {binding_key(**(base | {part: "other"})) for part in parts}
    assert len(keys | {binding_key(**base)}) == len(parts) + 1


def test_without_a_lasting_session_the_door_takes_its_place() -> None:
    base = {"digest": "d", "arguments_hash": "a", "principal": "p", "revision": "r"}
    http = binding_key(**base, session=None, door="http")
    assert http == binding_key(**base, session=None, door="http")
    assert http != binding_key(**base, session=None, door="stdio")
    assert http != binding_key(**base, session="http", door="http")
    # With a session the door does not matter: the caller may come back through another one.
    assert binding_key(**base, session="s", door="http") == binding_key(
        **base, session="s", door="stdio"
    )


def test_parts_cannot_be_shifted_into_each_other() -> None:
    rest = {"session": "s", "door": "d", "revision": "r"}
    assert binding_key(digest="ab", arguments_hash="c", principal="p", **rest) != binding_key(
        digest="a", arguments_hash="bc", principal="p", **rest
    )
