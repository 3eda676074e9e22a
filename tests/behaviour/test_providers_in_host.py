"""Providers of a configuration: they come, go, change and fail, and everything else goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support import assert_one_ending

from executing import children, descriptors, until
from toolcrib import ConfigError, ToolContext, ToolFailure, ToolHost, ToolSpec

SAY = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}


class Stage:
    """What the providers of one test are told to do, and what they did."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        """Those that cannot be entered."""
        self.open: dict[str, asyncio.Event] = {}
        """Those that hang until the test lets them in."""
        self.lists: dict[str, Any] = {}
        """What they list in place of two sound tools."""
        self.entered: list[str] = []
        self.left: list[str] = []
        self.forgot: list[tuple[str, str]] = []
        self.ran: list[str] = []
        self.call: Any = None


class Actor:
    """A provider that does what its stage says."""

    kind = "actor"

    def __init__(self, name: str, settings: Mapping[str, Any], stage: Stage) -> None:
        self.name = name
        self.stage = stage
        self.word = settings.get("word", "said")
        self.shy = settings.get("shy", False)

    def known_tools(self) -> Sequence[ToolSpec]:
        return () if self.shy else self._specs()

    def _specs(self) -> list[ToolSpec]:
        reads = frozenset({"read"})
        names = (f"{self.name}-say", f"{self.name}-ask")
        return [
            ToolSpec(name=n, kind="actor", input_schema=SAY, effects=reads) for n in names
        ]  # fmt: skip

    async def __aenter__(self) -> Actor:
        if self.name in self.stage.open:
            await self.stage.open[self.name].wait()
        if self.name in self.stage.down:
            raise ConnectionRefusedError(111, "Connection refused")
        self.stage.entered.append(self.name)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.stage.left.append(self.name)

    async def list_tools(self) -> Any:
        return self.stage.lists.get(self.name, self._specs())

    async def health(self) -> None:
        if self.name in self.stage.down:
            raise ConnectionResetError(104, "Connection reset by peer")

    async def forget(self, session_id: str) -> None:
        self.stage.forgot.append((self.name, session_id))

    async def execute(self, ctx: ToolContext) -> Any:
        self.stage.ran.append(ctx.tool)
        if self.stage.call is not None:
            return await self.stage.call(ctx)
        return f"{self.word}: {ctx.arguments.get('text')}"


@pytest.fixture
def stage() -> Stage:
    return Stage()


def actors(*names: str, **settings: Any) -> dict[str, Any]:
    alive = {"restart_first": "10ms", "restart_most": "20ms", "stop_timeout": "200ms"}
    return {"providers": {name: {"type": "actor", **alive, **settings} for name in names}}


def make(config: Mapping[str, Any], stage: Stage, folder: Path | None = None) -> ToolHost:
    given: Any = dict(config)
    if folder is not None:
        given = folder / "toolcrib.yaml"
        given.write_text(json.dumps({"version": 1, **config}))
    host = ToolHost(config=given)
    host.registrar.provider("actor", lambda name, settings, _: Actor(name, settings, stage))
    return host


@asynccontextmanager
async def playing(
    config: Mapping[str, Any], stage: Stage, folder: Path | None = None
) -> AsyncIterator[ToolHost]:
    async with make(config, stage, folder) as host:
        yield host


def states(host: ToolHost) -> dict[str, str]:
    return {status.name: status.state for status in host.sources.status()}


def listed(host: ToolHost) -> dict[str, str | None]:
    return {tool.name: tool.unavailable for tool in host.tools()}


async def facts(host: ToolHost, name: str) -> list[str]:
    found = [e for e in await host.trail() if e.type in ("provider.up", "provider.down")]
    return [event.type for event in found if event.data["provider"] == name]


# Coming up.


async def test_its_tools_are_there_when_the_host_is(stage: Stage) -> None:
    async with playing(actors("a", "b"), stage) as host:
        assert states(host) == {"a": "up", "b": "up"}
        result = await host.call("a-say", {"text": "hello"})
        assert result.output == "said: hello"
        await assert_one_ending(host, result.call_id)
        assert await facts(host, "a") == ["provider.up"]
        assert stage.entered == ["a", "b"]  # and not once for each call
    assert sorted(stage.left) == ["a", "b"]


async def test_starting_waits_no_longer_than_it_is_told(stage: Stage) -> None:
    stage.open["slow"] = asyncio.Event()
    config = {**actors("slow", "quick"), "host": {"ready": "50ms"}}
    async with asyncio.timeout(20), playing(config, stage) as host:
        assert states(host) == {"slow": "starting", "quick": "up"}
        assert "is starting" in str(listed(host)["slow-say"])
        assert (await host.call("quick-say")).status == "ok"


async def test_a_call_waits_for_its_own_provider_only(stage: Stage) -> None:
    stage.open |= {"slow": asyncio.Event(), "never": asyncio.Event()}
    stage.down.add("broken")
    config = {**actors("slow", "never", "broken", "quick"), "host": {"ready": "50ms"}}
    async with asyncio.timeout(20), playing(config, stage) as host:
        down = await host.call("broken-say")  # known to be down: nobody waits
        assert down.reason == "tool_unavailable"
        assert (await host.call("quick-say")).status == "ok"
        waiting = asyncio.ensure_future(host.call("slow-say"))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        stage.open["slow"].set()
        assert (await waiting).status == "ok"
        assert states(host)["never"] == "starting"
        late = await host.call("never-say", timeout=0.05)
        assert (late.status, late.reason) == ("error", "tool_unavailable")
    assert stage.ran == ["quick-say", "slow-say"]


async def test_a_call_waits_for_a_tool_that_nobody_knows_yet(stage: Stage) -> None:
    stage.open |= {"shy": asyncio.Event(), "never": asyncio.Event()}
    config = {**actors("shy", "never", shy=True), "host": {"ready": "50ms"}}
    async with asyncio.timeout(20), playing(config, stage) as host:
        assert listed(host) == {}
        waiting = asyncio.ensure_future(host.call("shy-say"))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        stage.open["shy"].set()
        assert (await waiting).status == "ok"
        assert (await host.call("nobodys", timeout=0.05)).reason == "unknown_tool"


# Going down.


async def test_one_that_is_down_takes_nobody_along(stage: Stage) -> None:
    stage.down.add("bad")
    async with playing(actors("bad", "good"), stage) as host:
        assert states(host)["good"] == "up"
        assert (await host.call("good-say")).status == "ok"
        result = await host.call("bad-say")
        assert (result.status, result.reason) == ("error", "tool_unavailable")
        assert "Connection refused" in result.error.message
        assert result.error.retryable
        assert result.error.details["since"] > 0
        assert host.explain("bad-say").reason == "tool_unavailable"
        await assert_one_ending(host, result.call_id)
        assert set(listed(host)) == {"bad-say", "bad-ask", "good-say", "good-ask"}


async def test_tools_stay_listed_while_their_provider_is_away_and_come_back(stage: Stage) -> None:
    async with playing(actors("a", health_every="10ms"), stage) as host:
        assert listed(host) == {"a-say": None, "a-ask": None}
        stage.down.add("a")
        await until(lambda: states(host)["a"] == "down")
        assert set(listed(host)) == {"a-say", "a-ask"}
        assert (await host.call("a-say")).reason == "tool_unavailable"
        stage.down.clear()
        await until(lambda: states(host)["a"] == "up")
        assert listed(host) == {"a-say": None, "a-ask": None}
        assert (await host.call("a-say")).status == "ok"
        story = await facts(host, "a")
        assert (story[0], story[1], story[-1]) == ("provider.up", "provider.down", "provider.up")
        # Attempt after attempt failed in between; the same reason was told once.
        assert len(story) <= 4


async def test_a_restart_by_a_person(stage: Stage) -> None:
    async with playing(actors("a", "b"), stage) as host:
        status = await host.sources.restart("a")
        assert (status.state, status.restarts) == ("up", 1)
        assert (stage.entered, stage.left) == (["a", "b", "a"], ["a"])
        assert (await host.call("a-say")).status == "ok"


@pytest.mark.parametrize(
    "wrong",
    [None, 7, "x", [None], [{"name": "bad-say"}], {"bad-say": 1}],
    ids=["none", "number", "text", "nothings", "dicts", "mapping"],
)
async def test_nonsense_in_a_list_harms_nobody(stage: Stage, wrong: Any) -> None:
    stage.lists["bad"] = wrong
    async with playing(actors("bad", "good", restart_first="60s"), stage) as host:
        assert (await host.call("good-say")).status == "ok"
        result = await host.call("bad-say")
        assert result.reason in ("tool_unavailable", "unknown_tool")
        [status] = [s for s in host.sources.status() if s.name == "bad"]
        assert status.error or status.problems
    assert stage.ran == ["good-say"]


@pytest.mark.parametrize("how", ["nonsense", "breaks", "fails", "refuses"])
async def test_what_a_provider_answers_is_held_to_the_same(
    stage: Stage, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def call(ctx: ToolContext) -> Any:
        if how == "breaks":
            raise RuntimeError("inner workings")
        if how == "fails":
            raise ToolFailure("no such page", reason="upstream_error")
        if how == "refuses":
            ctx.deny("too_many_files", "seven is enough")
        return object()

    stage.call = call
    reasons = {
        "nonsense": ("error", "invalid_output"),
        "breaks": ("error", "unexpected_failure"),
        "fails": ("error", "upstream_error"),
        "refuses": ("denied", "too_many_files"),
    }
    async with playing(actors("a"), stage) as host:
        result = await host.call("a-say")
        assert (result.status, result.reason) == reasons[how]
        assert "inner workings" not in repr(result)
        await assert_one_ending(host, result.call_id)
        assert states(host) == {"a": "up"}


# A new configuration.


async def test_a_reload_leaves_unchanged_ones_running_and_replaces_the_rest(
    stage: Stage, tmp_path: Path
) -> None:
    async with playing(actors("kept", "changed", "gone"), stage, tmp_path) as host:
        stage.entered.clear()
        config = actors("kept", "changed", "new")
        config["providers"]["changed"]["word"] = "changed"
        (tmp_path / "toolcrib.yaml").write_text(json.dumps({"version": 1, **config}))
        await host.reload()
        await until(lambda: set(states(host).values()) == {"up"})
        assert sorted(stage.left) == ["changed", "gone"]
        assert sorted(stage.entered) == ["changed", "new"]
        assert (await host.call("changed-say", {"text": "x"})).output == "changed: x"
        assert (await host.call("kept-say", {"text": "x"})).output == "said: x"
        assert (await host.call("new-say")).status == "ok"
        assert (await host.call("gone-say")).reason == "unknown_tool"
    assert sorted(stage.left) == ["changed", "changed", "gone", "kept", "new"]


async def test_a_call_that_runs_goes_on_while_its_provider_is_kept(
    stage: Stage, tmp_path: Path
) -> None:
    go, begun = asyncio.Event(), asyncio.Event()

    async def call(ctx: ToolContext) -> str:
        begun.set()
        await go.wait()
        return "late"

    stage.call = call
    async with playing(actors("a"), stage, tmp_path) as host:
        running = asyncio.ensure_future(host.call("a-say"))
        await begun.wait()
        await host.reload()
        go.set()
        assert (await running).output == "late"


async def test_a_wrong_file_changes_no_provider(stage: Stage, tmp_path: Path) -> None:
    async with playing(actors("a"), stage, tmp_path) as host:
        config = {"providers": {"a": {"type": "actro"}, "b": {"type": "storage", "bakend": "x"}}}
        (tmp_path / "toolcrib.yaml").write_text(json.dumps({"version": 1, **config}))
        with pytest.raises(ConfigError) as raised:
            await host.reload()
        words = " ".join(map(str, raised.value.all()))
        assert "Did you mean actor?" in words
        assert "Did you mean backend?" in words
        assert states(host) == {"a": "up"}
        assert (await host.call("a-say")).status == "ok"
    assert stage.entered == ["a"]


@pytest.mark.parametrize("built", [KeyError("secret-thing"), None, 7], ids=str)
def test_a_type_that_builds_nonsense_is_a_mistake_of_the_configuration(built: Any) -> None:
    def factory(*given: Any) -> Any:
        if isinstance(built, Exception):
            raise built
        return built

    host = ToolHost(config={"providers": {"odd": {"type": "odd"}}})
    host.registrar.provider("odd", factory)
    with pytest.raises(ConfigError, match="the provider odd") as raised:
        host.load()
    assert "secret-thing" not in str(raised.value)


# Rules, sessions, names.


def test_rules_may_name_tools_that_are_not_there_yet(stage: Stage) -> None:
    rules = [{"allow": ["a-say", "kv-read"]}, {"deny": "a-ask"}]
    stores = {"store": {"type": "storage", "prefix": "kv"}}
    providers = {**actors("a")["providers"], **stores}
    make({"providers": providers, "profiles": {"only": {"rules": rules}}}, stage).load()
    rules = [{"allow": "b-say"}]
    with pytest.raises(ConfigError, match="'b-say', which does not exist"):
        make({"providers": providers, "profiles": {"only": {"rules": rules}}}, stage).load()


async def test_rules_hold_for_its_tools_up_or_down(stage: Stage) -> None:
    rules = [{"allow": "a-*"}, {"deny": "a-ask"}]
    config = {**actors("a", health_every="10ms"), "profiles": {"only": {"rules": rules}}}
    async with playing(config, stage) as host:
        assert list(listed(host)) == ["a-say"]
        assert (await host.call("a-ask")).reason == "denied_by_rule"
        stage.down.add("a")
        await until(lambda: states(host)["a"] == "down")
        assert list(listed(host)) == ["a-say"]
        assert (await host.call("a-ask")).reason == "denied_by_rule"
    assert stage.ran == []


async def test_names_with_dashes_belong_to_whoever_listed_them(stage: Stage) -> None:
    reads = frozenset({"read"})

    def listing(*names: str) -> list[ToolSpec]:
        return [ToolSpec(name=n, kind="actor", input_schema=SAY, effects=reads) for n in names]

    stage.lists = {"a": listing("a-b-say"), "a-b": listing("a-b-say", "a-b-ask")}
    async with playing(actors("a", "a-b", shy=True), stage) as host:
        assert set(listed(host)) == {"a-b-say", "a-b-ask"}
        problems = [problem for s in host.sources.status() for problem in s.problems]
        assert len(problems) == 1
        assert "a-b-say" in problems[0]
        assert "taken" in problems[0]


@pytest.mark.parametrize("prefix", ["", "git_"], ids=["none", "own"])
def test_rules_may_name_what_a_provider_with_another_prefix_brings(prefix: str) -> None:
    rules = {"p": {"rules": [{"allow": f"{prefix}read_file"}]}}
    source = {"type": "mcp", "command": ["server"], "prefix": prefix}
    ToolHost([], config={"providers": {"up": source}, "profiles": rules}).load()


async def test_a_provider_does_not_take_the_place_of_a_tool(stage: Stage) -> None:
    async def mine() -> str:
        return "mine"

    host = make(actors("a"), stage)
    host.register(ToolSpec(name="a-say", config={"function": mine}, effects=frozenset({"read"})))
    async with host:
        assert (await host.call("a-say")).output == "mine"
        assert (await host.call("a-ask")).status == "ok"
        assert "a-say: the name is taken" in host.sources.status()[0].problems[0]


async def test_providers_are_told_of_sessions_that_ended(stage: Stage) -> None:
    async with playing(actors("a", "b"), stage) as host:
        async with host.session() as session:
            await session.call("a-say")
        assert sorted(stage.forgot) == [("a", session.id), ("b", session.id)]


async def test_what_a_session_kept_ends_with_it(stage: Stage) -> None:
    stores = {"providers": {"mine": {"type": "storage", "scope": "session"}}}
    async with playing(stores, stage) as host:
        async with host.session() as session:
            assert (await session.call("mine-write", {"key": "k", "value": 1})).status == "ok"
        assert (await host.call("mine-read", {"key": "k"})).reason == "session_required"
        async with host.session() as other:
            assert (await other.call("mine-read", {"key": "k"})).reason == "key_not_found"


@pytest.mark.parametrize("state", ["up", "down", "hanging"])
async def test_nothing_is_left_when_the_host_stops(stage: Stage, state: str) -> None:
    before = children(), descriptors(), len(asyncio.all_tasks())
    if state == "down":
        stage.down.add("a")
    if state == "hanging":
        stage.open["a"] = asyncio.Event()
    async with playing({**actors("a"), "host": {"ready": "20ms"}}, stage):
        pass
    assert (children(), descriptors(), len(asyncio.all_tasks())) == before
