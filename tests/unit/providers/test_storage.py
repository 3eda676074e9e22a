"""What a store does, wherever it keeps things."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postgres import shared_postgres
from toolcrib import ToolContext, ToolHost
from toolcrib.host.publishing import Publisher, entries_of
from toolcrib.providers.storage.provider import StorageProvider, factory
from toolcrib.testing import make_host

BACKENDS = ("memory", "sqlite", "postgres")


class Folder:
    """What a provider is lent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sandbox(self, name: str | None = None) -> Any:
        raise AssertionError("a store runs no commands")

    def file(self, path: str) -> Path:
        return self.folder / path


class Shop:
    """Stores of one backend in one place, and a host that calls their tools."""

    def __init__(self, place: dict[str, Any], folder: Path, stack: AsyncExitStack) -> None:
        self._place = place
        self._folder = folder
        self._stack = stack
        self.host: ToolHost = make_host()

    async def open(self, name: str = "notes", **settings: Any) -> StorageProvider:
        store = factory(name, self._place | settings, Folder(self._folder))
        entered = await self._stack.enter_async_context(store)
        made, problems = entries_of(await entered.list_tools(), entered.execute, f"store {name}")
        assert not [*problems, *Publisher(self.host.catalog)(made)]
        return store

    async def call(self, tool: str, *, at: Any = None, **arguments: Any) -> Any:
        """The output of a call, or its failure."""
        ended = await (at or self.host).call(tool, arguments)
        return ended.output if ended.success else ended.error


@pytest.fixture(params=BACKENDS)
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    place: dict[str, Any] = {"backend": request.param}
    if request.param == "sqlite":
        place["path"] = "stores.db"
    if request.param == "postgres":
        place["url"] = await shared_postgres().new_database()
    async with AsyncExitStack() as stack:
        made = Shop(place, tmp_path, stack)
        stack.push_async_callback(made.host.stop)
        yield made


VALUES = [
    None,
    True,
    0,
    -1.5,
    2**80,
    "",
    "text \x00 \u2028 ü 😀",
    [],
    [1, [2]],
    {"a": {"b": [None]}},
]


async def test_what_is_written_is_read_as_it_was(shop: Shop) -> None:
    await shop.open()
    for number, value in enumerate(VALUES, 1):
        assert await shop.call("notes-write", key="k", value=value) == {"version": number}
        assert await shop.call("notes-read", key="k") == {"value": value, "version": number}
        assert await shop.call("notes-read", key="k") == {"value": value, "version": number}


async def test_a_missing_key_is_a_failure_and_nothing_else(shop: Shop) -> None:
    await shop.open()
    assert (await shop.call("notes-read", key="k")).reason == "key_not_found"
    assert await shop.call("notes-delete", key="k") == {"deleted": False}
    await shop.call("notes-write", key="k", value=1)
    assert await shop.call("notes-delete", key="k") == {"deleted": True}
    assert (await shop.call("notes-read", key="k")).reason == "key_not_found"


async def test_conditions_are_held_to(shop: Shop) -> None:
    await shop.open()
    assert await shop.call("notes-write", key="k", value=1, if_version=0) == {"version": 1}
    taken = await shop.call("notes-write", key="k", value=2, if_version=0)
    assert (taken.reason, taken.details["version"]) == ("version_conflict", 1)
    assert "it exists, in version 1" in taken.message
    assert await shop.call("notes-write", key="k", value=2, if_version=1) == {"version": 2}
    late = await shop.call("notes-write", key="k", value=3, if_version=1)
    assert (late.reason, late.details["version"]) == ("version_conflict", 2)
    late = await shop.call("notes-delete", key="k", if_version=1)
    assert (late.reason, late.details["version"]) == ("version_conflict", 2)
    assert await shop.call("notes-read", key="k") == {"value": 2, "version": 2}
    assert await shop.call("notes-delete", key="k", if_version=2) == {"deleted": True}
    gone = await shop.call("notes-write", key="k", value=4, if_version=2)
    assert (gone.reason, gone.details["version"]) == ("version_conflict", 0)
    gone = await shop.call("notes-delete", key="k", if_version=2)
    assert gone.reason == "version_conflict"


async def test_a_version_is_never_given_twice(shop: Shop) -> None:
    await shop.open()
    first = (await shop.call("notes-write", key="k", value="mine"))["version"]
    await shop.call("notes-delete", key="k")
    await shop.call("notes-write", key="k", value="theirs")
    late = await shop.call("notes-write", key="k", value="mine again", if_version=first)
    assert late.reason == "version_conflict"


async def test_of_fifty_conditional_writers_one_wins(shop: Shop) -> None:
    await shop.open()
    await shop.call("notes-write", key="k", value="start")
    ended = await asyncio.gather(
        *(shop.call("notes-write", key="k", value=n, if_version=1) for n in range(50))
    )
    [winner] = [n for n, one in enumerate(ended) if one == {"version": 2}]
    others = [one.reason for one in ended if one != {"version": 2}]
    assert others == ["version_conflict"] * 49
    assert await shop.call("notes-read", key="k") == {"value": winner, "version": 2}


async def test_of_fifty_deleters_one_deletes(shop: Shop) -> None:
    await shop.open()
    await shop.call("notes-write", key="k", value="start")
    ended = await asyncio.gather(*(shop.call("notes-delete", key="k") for _ in range(50)))
    assert ended.count({"deleted": True}) == 1
    assert ended.count({"deleted": False}) == 49


KEYS = ["", "a", "a/1", "a/2", "a/10", "A", "aa", "b", "é", "z", "ﬀ", "😀", "%", "a%", "a_"]


async def test_lists_are_in_order_and_in_pages(shop: Shop) -> None:
    await shop.open()
    keys = [key for key in KEYS if key]
    for key in keys:
        await shop.call("notes-write", key=key, value=key)

    async def pages(**arguments: Any) -> list[list[str]]:
        found, cursor = [], None
        while True:
            page = await shop.call("notes-list", cursor=cursor, **arguments)
            found.append([item["key"] for item in page["items"]])
            cursor = page["cursor"]
            if cursor is None:
                return found

    assert await pages() == [sorted(keys)]
    by_three = await pages(limit=3)
    assert [key for page in by_three for key in page] == sorted(keys)
    assert {len(page) for page in by_three[:-1]} == {3}
    assert await pages(limit=len(keys)) == [sorted(keys)]
    for prefix in ("a", "a/", "%", "a%", "a_", "é", "nothing", "\x00"):
        expected = sorted(key for key in keys if key.startswith(prefix))
        assert await pages(prefix=prefix) == [expected], prefix
    first = (await shop.call("notes-list", prefix="a/1"))["items"]
    assert first == [{"key": "a/1", "version": 2}, {"key": "a/10", "version": 4}]


async def test_a_search_takes_its_text_as_it_is(shop: Shop) -> None:
    await shop.open()
    values: dict[str, Any] = {
        "one": "100% of it",
        "two": "100 per cent",
        "three": ["under_score", {"deep": "Straße"}],
        "four": "underXscore",
        "five": r"back\slash 'quoted' \"double\"",
        "six": {"number": 42, "key-name": "value"},
        "SEVEN": 7,
        "eight": "ends",
        "nine": ["with", "null\x00byte"],
    }
    for key, value in values.items():
        await shop.call("notes-write", key=key, value=value)

    async def found(text: str) -> set[str]:
        return {item["key"] for item in (await shop.call("notes-search", text=text))["items"]}

    assert await found("100%") == {"one"}
    assert await found("%") == {"one"}
    assert await found("under_score") == {"three"}
    assert await found("_") == {"three"}
    assert await found("\\") == {"five"}
    assert await found("'quoted'") == {"five"}
    assert await found('"') == {"five"}
    assert await found("STRASSE") == {"three"}
    assert await found("seven") == {"SEVEN"}
    assert await found("42") == set()  # a number is no text
    assert await found("key-name") == set()
    assert await found("eightends") == set()  # not across two texts
    assert await found(".*") == set()
    assert await found("null\x00byte") == {"nine"}
    assert await found("e") == set(values)


async def test_a_search_says_when_there_is_more(shop: Shop) -> None:
    await shop.open()
    for n in range(5):
        await shop.call("notes-write", key=f"k{n}", value="same")
    some = await shop.call("notes-search", text="same", limit=2)
    assert [item["key"] for item in some["items"]] == ["k0", "k1"]
    assert some["more"]
    every = await shop.call("notes-search", text="same", limit=5)
    assert (len(every["items"]), every["more"]) == (5, False)


async def test_limits_have_their_reasons(shop: Shop) -> None:
    await shop.open(max_key=5, max_value="20B", max_items=2, max_total="30B")

    async def reason(**arguments: Any) -> str | None:
        return getattr(await shop.call("notes-write", **arguments), "reason", None)

    for key in ("", "123456", "a\nb", "a\x00b", "a\x7f", "a\x85"):
        assert await reason(key=key, value=1) == "key_invalid", ascii(key)
        assert (await shop.call("notes-read", key=key)).reason == "key_invalid"
        assert (await shop.call("notes-delete", key=key)).reason == "key_invalid"
    assert await reason(key="12345", value="x" * 18) is None
    assert await reason(key="a", value="x" * 19) == "value_too_large"
    assert await reason(key="a", value="ü" * 10) == "value_too_large"  # bytes, not characters
    assert await reason(key="a", value="x" * 9) == "storage_full"
    assert await reason(key="a", value="x" * 8) is None
    assert await reason(key="b", value=1) == "storage_full"
    assert await reason(key="a", value="x" * 9) == "storage_full"
    assert await reason(key="12345", value=1) is None  # what is replaced makes room
    assert await reason(key="a", value="x" * 9) is None
    await shop.call("notes-delete", key="a")
    assert await reason(key="b", value="x" * 18) is None
    items = (await shop.call("notes-list"))["items"]
    assert [item["key"] for item in items] == ["12345", "b"]


async def test_the_number_of_keys_holds_for_writers_at_the_same_time(shop: Shop) -> None:
    await shop.open(max_items=3)
    ended = await asyncio.gather(
        *(shop.call("notes-write", key=f"k{n}", value=n) for n in range(20))
    )
    reasons = [getattr(one, "reason", None) for one in ended]
    assert sorted(filter(None, reasons)) == ["storage_full"] * 17
    assert len((await shop.call("notes-list"))["items"]) == 3


async def test_stores_whose_names_overlap_never_mix(shop: Shop) -> None:
    names = ["a", "a-b", "b", "a-list", "a-read-read"]
    for name in names:
        await shop.open(name)
    tools = [tool.name for tool in shop.host.tools()]
    assert len(tools) == len(set(tools)) == 5 * len(names)
    for name in names:
        await shop.call(f"{name}-write", key="k", value=name)
        await shop.call(f"{name}-write", key=f"only {name}", value=name)
    for name in names:
        assert (await shop.call(f"{name}-read", key="k"))["value"] == name
        keys = [item["key"] for item in (await shop.call(f"{name}-list"))["items"]]
        assert keys == ["k", f"only {name}"]
        found = await shop.call(f"{name}-search", text="only")
        assert [item["key"] for item in found["items"]] == [f"only {name}"]
    await shop.call("a-delete", key="k")
    assert (await shop.call("a-b-read", key="k"))["value"] == "a-b"


async def sees_nothing(shop: Shop, at: Any) -> None:
    """Nothing that others wrote can be reached from here, by any key, cursor or text."""
    for key in ("k", "principal:ann", "global", "session:x", "../ann/k", "ann"):
        assert (await shop.call("notes-read", at=at, key=key)).reason == "key_not_found"
        assert await shop.call("notes-delete", at=at, key=key) == {"deleted": False}
    for cursor in (None, "", "ann", "principal:"):
        assert (await shop.call("notes-list", at=at, cursor=cursor))["items"] == []
    assert (await shop.call("notes-search", at=at, text="secret"))["items"] == []
    assert await shop.call("notes-write", at=at, key="k", value="own") == {"version": 1}


async def test_principals_do_not_see_each_other(shop: Shop) -> None:
    await shop.open(scope="principal")
    host = shop.host
    async with (
        host.session(principal="ann") as ann,
        host.session(principal="bob") as bob,
        host.session(principal="ann") as later,
    ):
        await shop.call("notes-write", at=ann, key="k", value="secret of ann")
        await sees_nothing(shop, bob)
        assert (await shop.call("notes-read", at=later, key="k"))["value"] == "secret of ann"


async def test_sessions_do_not_see_each_other_and_their_data_goes_with_them(shop: Shop) -> None:
    store = await shop.open(scope="session")
    nobody = await shop.call("notes-read", key="k")
    assert nobody.reason == "session_required"
    assert "Call it within a session" in nobody.message
    async with shop.host.session() as one, shop.host.session() as other:
        await shop.call("notes-write", at=one, key="k", value="secret of one")
        await sees_nothing(shop, other)
        await store.forget(other.id)
        assert (await shop.call("notes-read", at=other, key="k")).reason == "key_not_found"
        assert (await shop.call("notes-read", at=one, key="k"))["value"] == "secret of one"


async def test_only_sessions_are_forgotten(shop: Shop) -> None:
    store = await shop.open(scope="principal")
    await shop.call("notes-write", key="k", value=1)
    await store.forget("local")
    assert (await shop.call("notes-read", key="k"))["value"] == 1


async def test_its_tools_say_what_they_do(shop: Shop) -> None:
    store = await shop.open("shop-notes", description="What customers said.")
    specs = {spec.name: spec for spec in await store.list_tools()}
    assert {name: sorted(spec.effects) for name, spec in specs.items()} == {
        "shop-notes-read": ["read"],
        "shop-notes-write": ["write"],
        "shop-notes-list": ["read"],
        "shop-notes-delete": ["destructive", "write"],
        "shop-notes-search": ["read"],
    }
    assert {name for name, spec in specs.items() if spec.idempotent} == {
        "shop-notes-read",
        "shop-notes-list",
        "shop-notes-search",
    }
    assert "What customers said." in specs["shop-notes-read"].description


async def test_a_store_has_the_tools_it_was_given(shop: Shop) -> None:
    await shop.open("facts", tools=["list", "read"], prefix="world.facts")
    assert [tool.name for tool in shop.host.tools()] == ["world.facts-list", "world.facts-read"]
    assert (await shop.call("world.facts-read", key="k")).reason == "key_not_found"


async def test_it_stays_usable_after_a_cancelled_call(shop: Shop) -> None:
    store = await shop.open()
    await shop.call("notes-write", key="k", value=0)
    write = {spec.name: spec for spec in await store.list_tools()}["notes-write"]
    for n in range(10):
        ctx = ToolContext(spec=write, arguments={"key": "k", "value": n})
        task = asyncio.create_task(store.execute(ctx))
        for _ in range(n):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
    ended = await shop.call("notes-write", key="k", value="last")
    assert await shop.call("notes-read", key="k") == {"value": "last", **ended}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
@settings(max_examples=20)
@given(value=JSON)
def test_any_json_comes_back(backend: str, value: Any, tmp_path_factory: Any) -> None:
    async def main() -> Any:
        place = {"backend": backend}
        if backend == "sqlite":
            place["path"] = str(tmp_path_factory.mktemp("any") / "any.db")
        async with factory("any", place, Folder(Path())) as store:
            run: Callable[..., Any] = _caller(store)
            await run("any-write", key="k", value=value)
            return (await run("any-read", key="k"))["value"]

    assert asyncio.run(main()) == value


def _caller(store: StorageProvider) -> Callable[..., Any]:
    def run(tool: str, **arguments: Any) -> Any:
        return store.execute(ToolContext(tool=tool, arguments=arguments))

    return run
