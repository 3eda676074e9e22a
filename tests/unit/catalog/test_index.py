"""The index of tools: whatever came and went, it finds what looking at every tool would find."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog import index as index_module
from toolcrib.catalog import ranking
from toolcrib.catalog.index import Index
from toolcrib.catalog.planes import Planes
from toolcrib.catalog.ranking import Seen, ranked
from toolcrib.catalog.words import MOST_WORDS, query_words, weights, words_of
from toolcrib.core.spec import ToolSpec

VOCABULARY = ["mail", "mailbox", "send", "sender", "file", "files", "list", "read", "reader", "x"]


def made(name: str, text: str, *tags: str, title: str | None = None, **parameters: str) -> ToolSpec:
    schema = {"type": "object", "properties": {key: {} for key in parameters}}
    return ToolSpec(
        name=name, description=text, title=title, tags=frozenset(tags), input_schema=schema
    )


def by_looking(tools: list[ToolSpec], query: str) -> list[tuple[float, str]]:
    """Every tool looked at, as the rule says it."""
    found = [0.0] * len(tools)
    held = [weights(tool) for tool in tools]
    for word in query_words(query):
        given = [
            max(
                2 * words.get(word, 0),
                *(
                    w
                    for other, w in words.items()
                    if len(word) >= 3 and other != word and other.startswith(word)
                ),
                0,
            )
            for words in held
        ]
        having = sum(1 for value in given if value)
        rarity = math.log(1 + (len(tools) - having + 0.5) / (having + 0.5))
        factor = round(16 * (1 + rarity))
        found = [so_far + factor * value for so_far, value in zip(found, given, strict=True)]
    hits = [(score / 480, tool.name) for score, tool in zip(found, tools, strict=True) if score]
    return sorted(((round(s, 4), n) for s, n in hits), key=lambda hit: (-hit[0], hit[1]))


def everything(index: Index, query: str, seen: set[str] | None = None) -> list[tuple[float, str]]:
    row = bytearray(name is not None and (seen is None or name in seen) for name in index.names)
    return list(ranked(index, query_words(query), Seen(row)))


WAYS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "one_by_one": lambda patch: patch.setattr(ranking, "_FEW", 1 << 30),
    "all_at_once": lambda patch: patch.setattr(ranking, "_FEW", -1),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    WAYS[request.param](monkeypatch)
    monkeypatch.setattr(ranking, "_FIRST", 2)
    monkeypatch.setattr(index_module, "FREQUENT", 3)
    monkeypatch.setattr(index_module, "_STRAGGLERS", 4)


def any_tool(chance: random.Random) -> ToolSpec:
    name = f"{chance.choice(VOCABULARY)}_{chance.choice('abcd')}"
    text = " ".join(chance.choices(VOCABULARY, k=chance.randrange(7)))
    title = chance.choice([None, " ".join(chance.choices(VOCABULARY, k=2))])
    return made(name, text, chance.choice(VOCABULARY), title=title)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.usefixtures("way")
def test_finds_what_looking_at_every_tool_would_find(seed: int) -> None:
    chance = random.Random(seed)
    index, kept = Index(), dict[str, ToolSpec]()
    for _ in range(chance.randrange(10, 80)):
        # What is kept from a search must not outlive a change.
        query = " ".join(chance.choices([*VOCABULARY, "mai", "sen"], k=chance.randrange(1, 5)))
        assert everything(index, query) == by_looking(list(kept.values()), query)
        spec = any_tool(chance)
        if chance.random() < 0.75:
            index.put(spec)
            kept[spec.name] = spec
        else:
            assert index.drop(spec.name) is (kept.pop(spec.name, None) is not None)
        if index.untidy():
            index = index.tidy()
            assert index.ordered == len(kept)
        # As if the others were not there: neither names nor scores tell of them.
        seen = {name for name in kept if chance.random() < 0.5}
        assert everything(index, query, seen) == by_looking([kept[n] for n in seen], query)


@pytest.mark.usefixtures("way")
def test_what_is_beside_the_index_is_found_in_order_and_counted() -> None:
    index = Index()
    index.put(made("b_mail", ""))
    seen = Seen(bytearray(b"\1"))
    extras = {name: weights(made(name, "")) for name in ("a_mail", "c_mail", "d_file")}
    tools = [made(name, "") for name in ("a_mail", "b_mail", "c_mail", "d_file")]
    assert list(ranked(index, ["mail"], seen, extras)) == by_looking(tools, "mail")


@pytest.mark.usefixtures("way")
def test_without_counting_a_score_does_not_depend_on_others() -> None:
    index = Index()
    index.put(made("a_mail", ""))
    alone = list(ranked(index, ["mail"], Seen(bytearray(b"\1")), counted=False))
    for number in range(9):
        index.put(made(f"mail_{number}", ""))
    among = {n: s for s, n in ranked(index, ["mail"], Seen(bytearray(b"\1" * 10)), counted=False)}
    assert among["a_mail"] == alone[0][0]


@pytest.mark.usefixtures("way")
def test_order_by_name_holds_for_those_that_come_later() -> None:
    index = Index()
    for name in ("b", "d", "f", "a", "e", "c"):
        index.put(made(f"{name}_mail", ""))
    assert index.ordered == 3
    assert [name for _, name in everything(index, "mail")] == [f"{n}_mail" for n in "abcdef"]


def test_the_same_spec_again_changes_nothing() -> None:
    index, spec = Index(), made("a", "mail")
    assert index.put(spec)
    assert not index.put(spec)
    assert index.put(made("a", "file"))
    assert everything(index, "mail") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("listFiles", ["list", "file"]),
        ("HTTPServer2", ["http", "server", "2"]),
        ("get_user-by.id", ["get", "user", "by", "id"]),
        ("Queries of classes", ["query", "of", "classe"]),
        ("die Größe", ["die", "größe"]),
        ("ﬁle", ["file"]),
        ("…!?", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_a_query_is_bounded() -> None:
    assert len(query_words(" ".join(f"w{n} " for n in range(100)))) == MOST_WORDS


@given(
    st.lists(st.lists(st.integers(0, 1000), min_size=12, max_size=12), max_size=5),
    st.integers(1, 14),
)
def test_planes_hold_sums_and_find_the_greatest(rows: list[list[int]], wanted: int) -> None:
    planes, sums = Planes(), [0] * 12
    for row in rows:
        planes.add([(value, 1 << at) for at, value in enumerate(row) if value])
        sums = [a + b for a, b in zip(sums, row, strict=True)]
    sure, equal = planes.best((1 << 12) - 1, wanted)
    chosen = [at for at in range(12) if sure >> at & 1]
    ties = [at for at in range(12) if equal >> at & 1]
    assert len(chosen) <= wanted
    assert len(chosen) + len(ties) >= min(wanted, 12)
    assert len({sums[at] for at in ties}) <= 1
    rest = [sums[at] for at in range(12) if at not in chosen and at not in ties]
    least = min((sums[at] for at in (*chosen, *ties)), default=0)
    assert all(value < least for value in rest)
    assert all(sums[at] > sums[tie] for at in chosen for tie in ties)


def test_only_as_much_is_looked_at_as_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    WAYS["all_at_once"](monkeypatch)
    index = Index()
    for number in range(300):
        index.put(made(f"mail_{number:03}", "mail " * (number % 7)))
    scored: list[int] = []
    score = ranking._score
    monkeypatch.setattr(ranking, "_score", lambda *a: (scored.append(1), score(*a))[1])
    assert len(list(islice(ranked(index, ["mail"], Seen(bytearray(b"\1" * 300))), 10))) == 10
    assert len(scored) < 100
