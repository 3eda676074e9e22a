"""The client does what a `ToolHost` does, under the same names."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import toolcrib.client as public
import toolcrib.client.sync as sync_client
import toolcrib.host.sync as sync_host
from served import CONFIG, Gateway, gateway, until
from toolcrib import CallError, ConfigError, NotFound, ToolHost
from toolcrib.client import Client
from toolcrib.client.approvals import Approvals
from toolcrib.client.session import Session
from toolcrib.client.tool import Tool
from toolcrib.host import approvals as host_approvals
from toolcrib.host import session as host_session
from toolcrib.host import tool as host_tool

PAGE = Path(__file__).parents[3] / "docs" / "clients.md"

# What a client cannot have: it is about the host's own process, or who the caller is.
NOT_HERE = {
    "ToolHost": {
        "add_executor", "add_provider", "announce", "announce_fact", "apply", "config", "entries",
        "entry_for", "flight", "from_config", "load", "nested", "on_event", "session_changed",
        "settings",
    },
    "Session": {
        "entry", "facts", "instance", "over", "expires", "touch", "row", "used",
    },
    "Approvals": {"lend_to", "past", "problems"},
    "Tool": set(),
}  # fmt: skip
NO_PARAMETER = {
    "call": {"principal", "call_id"},
    "session": {"principal", "environment", "door", "ephemeral", "idle", "lifetime"},
    "output": {"principal"},
    "decide": {"by", "via"},
    "revoke": {"by"},
}

PAIRS = [
    pytest.param(ToolHost, Client, id="host"),
    pytest.param(sync_host.ToolHost, sync_client.Client, id="sync host"),
    pytest.param(host_session.Session, Session, id="session"),
    pytest.param(sync_host.Session, sync_client.Session, id="sync session"),
    pytest.param(host_approvals.Approvals, Approvals, id="approvals"),
    pytest.param(sync_host.Approvals, sync_client.Approvals, id="sync approvals"),
    pytest.param(host_tool.Tool, Tool, id="tool"),
]


def names_of(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("host", "client"), PAIRS)
def test_every_public_method_is_here_or_known_not_to_be(host: type, client: type) -> None:
    known = NOT_HERE[host.__name__]
    missing = names_of(host) - names_of(client) - known - {"inner"}
    assert not missing, f"{sorted(missing)} of {host.__name__} is neither here nor an exception"
    assert not known & names_of(client), "what is here needs no exception"


@pytest.mark.parametrize(("host", "client"), PAIRS)
def test_every_parameter_is_here_or_known_not_to_be(host: type, client: type) -> None:
    for name in sorted(names_of(host) & names_of(client)):
        there, here = getattr(host, name), getattr(client, name)
        if not inspect.isfunction(there):
            continue
        wanted = inspect.signature(there).parameters
        given = inspect.signature(here).parameters
        if any(each.kind is each.VAR_KEYWORD for each in wanted.values()):
            continue
        for parameter, spec in wanted.items():
            if parameter in NO_PARAMETER.get(name, set()):
                assert parameter not in given
                continue
            assert parameter in given, f"{client.__name__}.{name} lacks {parameter}"
            assert given[parameter].kind == spec.kind
            assert given[parameter].default == spec.default
        extra = [p for p in given.values() if p.name not in wanted]
        assert all(p.default is not p.empty for p in extra), f"{name} asks for more"


def test_the_exceptions_are_documented() -> None:
    text = PAGE.read_text()
    named = {*NOT_HERE["ToolHost"], *(p for each in NO_PARAMETER.values() for p in each)}
    internal = {
        "announce", "announce_fact", "apply", "entries", "entry_for", "flight", "load", "nested",
        "session_changed",
    }  # fmt: skip
    assert sorted(n for n in named - internal if f"`{n}`" not in text) == []


def test_everything_public_is_sorted_and_there() -> None:
    assert all(hasattr(public, name) for name in public.__all__)
    assert len(set(public.__all__)) == len(public.__all__)


def test_the_base_import_is_light() -> None:
    code = (
        "import sys, toolcrib.client, toolcrib.client.sync\n"
        "toolcrib.client.Client('http://127.0.0.1:1'); toolcrib.client.Client('ws://127.0.0.1:1')\n"
        "heavy = {'aiohttp', 'uvicorn', 'starlette', 'websockets', 'click', 'jwt'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(params=["http", "ws"])
def url(request: pytest.FixtureRequest, served: Gateway) -> str:
    return served.url.replace("http", request.param, 1)


async def test_tools_are_listed_bound_and_called(url: str, served: Gateway) -> None:
    async with Client(url) as host:
        tools = {each.name: each for each in await host.tools()}
        here = {each.name: each for each in served.host.tools(profile="worker")}
        assert list(tools) == list(here)
        for name, each in tools.items():
            assert each.description == here[name].description
            assert each.input_schema == here[name].input_schema
            assert each.wire_name == here[name].wire_name
            assert each.spec.digest == here[name].spec.digest
            assert each.effects == here[name].spec.effects
        assert await tools["add"](a=1, b=1) == 2
        assert (await tools["add"].call({"a": 1})).output == 3
        assert (await tools["add"].execute({"a": 1})).output == 3
        with pytest.raises(CallError, match="shop_closed"):
            await tools["failing"]()
        assert [each.name for each in await host.tools(profile="narrow")] == ["add"]
        for kind in ("openai", "anthropic", "mcp"):
            here = served.host.tools(profile="worker", format=kind)
            assert await host.tools(format=kind) == here
        view = await host.get("add")
        assert view is not None
        assert view.digest == tools["add"].spec.digest
        assert await host.get("wipe") is None
        assert [each.name for each in await host.search("add numbers", limit=1)] == ["add"]


async def test_the_client_s_own_profile_is_the_default(url: str) -> None:
    async with Client(url, profile="narrow") as host:
        assert [each.name for each in await host.tools()] == ["add"]
        assert (await host.call("steps")).reason == "not_in_profile"
        assert (await host.call("steps", profile="worker")).output == 3
        assert (await host.explain("steps")).verdict == "deny"
        async with host.session() as session:
            assert session.profile == "narrow"


async def test_explaining_is_the_host_s(url: str, served: Gateway) -> None:
    async with Client(url) as host:
        for name in ("add", "wipe", "deploy", "nothing"):
            there = await host.explain(name, {})
            assert there == served.host.explain(name, {}, profile="worker")
        assert (await host.explain("add", {"a": 1}, principal="bob")).principal == "bob"


async def test_a_session_stays_at_the_host(url: str, served: Gateway) -> None:
    async with Client(url) as host:
        async with host.session(profile="narrow", metadata={"ticket": 7}) as session:
            assert session.id in served.host.callers.sessions
            assert (session.metadata, session.profile) == ({"ticket": 7}, "narrow")
            assert (await session.call("add", {"a": 1})).output == 3
            assert [each.name for each in await session.tools()] == ["add"]
            assert (await host.call("add", {"a": 1}, session=session)).output == 3
            assert (await host.call("steps", session=session.id)).reason == "not_in_profile"
        assert session.id not in served.host.callers.sessions
        assert (await host.call("add", {"a": 1}, session=session)).reason == "unauthenticated"
        with pytest.raises(NotFound):
            await host.tools(session="s-none")


async def test_approvals_and_grants(url: str) -> None:
    async with Client(url) as host:
        calling = asyncio.ensure_future(host.call("deploy", {"env": "x"}))
        waiting: list[Any] = []
        while not waiting:
            waiting = await host.approvals.list()
            await asyncio.sleep(0.01)
        [request] = waiting
        assert await host.approvals.get(request.id) == request
        done = await host.approvals.decide(request.id, reach="1h", note="fine")
        assert (done.state, done.reach) == ("allowed", "1h")
        assert (await calling).output == "on x"
        with pytest.raises(ValueError, match=request.id):
            await host.approvals.decide(request.id)
        [fate] = await host.approvals.decide_many(["a-none"], allow=False)
        assert fate.error is not None
        assert await host.approvals.list(state=None) != []
        [grant] = await host.approvals.grants()
        assert grant.tool == "deploy"
        assert await host.approvals.revoke(grant.id)
        assert not await host.approvals.revoke(grant.id)
        assert await host.approvals.grants() == []


async def test_the_trail_and_whole_outputs(url: str, served: Gateway) -> None:
    async with Client(url) as host:
        result = await host.call("large")
        assert result.truncated is not None
        assert await host.output(result.call_id) == "0123456789" * 500
        there = await host.trail(call_id=result.call_id)
        assert there == await served.host.trail(call_id=result.call_id)
        assert (await host.trail(limit=1))[-1].id == there[-1].id
        with pytest.raises(NotFound):
            await host.output("c-none")
        assert (await host.health()).status == "ok"


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_reloading(scheme: str, tmp_path: Path) -> None:
    file = tmp_path / "toolcrib.yaml"
    file.write_text(json.dumps(CONFIG))

    async with (
        gateway(change=lambda _: file) as served,
        Client(served.url.replace("http", scheme, 1)) as host,
    ):
        assert (await host.reload()).tools == 8
        file.write_text(json.dumps({**CONFIG, "profils": {}}))
        with pytest.raises(ConfigError, match="profils"):
            await host.reload()
        assert (await host.call("add", {"a": 1})).output == 3


async def test_any_method_can_be_asked_for(url: str) -> None:
    async with Client(url) as host:
        page = await host.request("tools.list", {"limit": 2, "prefix": "a"})
        assert [each["name"] for each in page["tools"]] == ["add"]
        result = await host.request("tools.call", {"name": "add", "arguments": {"a": 1}})
        assert result["output"] == 3
        key = {"name": "add", "arguments": {"a": 1}, "key": "one", "wait": 5}
        first, again = await host.request("tools.call", key), await host.request("tools.call", key)
        assert first == again
        bad = await host.request("tools.call", {"name": "failing"})
        assert bad["error"]["reason"] == "shop_closed"
        assert await host.request("calls.get", {"id": bad["call_id"]}) is not None


async def test_a_remote_tool_in_a_host_of_one_s_own(url: str) -> None:
    async with Client(url) as remote:
        there = {each.name: each for each in await remote.tools()}
        async with ToolHost([there["add"], there["failing"]]) as host:
            spec = host.get("add")
            assert spec is not None
            assert spec.effects == {"read"}
            assert (await host.call("add", {"a": 1})).output == 3
            assert (await host.call("failing")).reason == "shop_closed"


async def test_the_first_request_starts_it(url: str) -> None:
    host = Client(url)
    results = await asyncio.gather(*(host.call("add", {"a": n}) for n in range(5)))
    assert [result.output for result in results] == [2, 3, 4, 5, 6]
    await host.stop()


# Without asyncio.


async def test_the_synchronous_twin(url: str, served: Gateway) -> None:
    """In a thread, beside the loop that runs the gateway."""

    def work() -> None:
        heard: list[Any] = []
        with sync_client.Client(url) as host:
            assert host.call("add", {"a": 1}).output == 3
            assert host.info().name == "toolcrib"
            assert host.explain("wipe").verdict == "deny"
            tools = {each.name: each for each in host.tools()}
            assert tools["add"](a=1) == 3
            assert tools["add"].call({"a": 5}).output == 7
            assert host.get("nothing") is None
            assert [each.name for each in host.search("numbers", limit=1)] == ["add"]
            with host.session(profile="narrow") as session:
                assert session.call("add", {"a": 2}).output == 4
                assert [each.name for each in session.tools()] == ["add"]
                assert host.call("add", {"a": 2}, session=session).output == 4
            assert host.call("steps", on_progress=lambda *said: heard.append(said)).output == 3
            assert len(heard) == 3
            assert host.call("deploy", {"env": "x"}, on_approval=lambda _: True).output == "on x"
            assert host.approvals.list() == []
            result = host.call("large")
            assert len(host.output(result.call_id)) == 5000
            assert host.trail(call_id=result.call_id)[-1].type == "call.finished"
            events = host.events("", types=["call.finished"])
            assert next(iter(events)).type == "call.finished"
            events.close()
            assert host.request("host.health")["status"] == "ok"
            assert not host.cancel("c-none")

    await asyncio.to_thread(work)
    await until(lambda: not _threads())


async def test_callbacks_of_the_synchronous_twin_may_use_it(url: str) -> None:
    def work() -> Any:
        with sync_client.Client(url) as host:
            return host.call(
                "deploy",
                {"env": "x"},
                on_approval=lambda request: host.approvals.decide(request.id) and None,
            )

    assert (await asyncio.to_thread(work)).output == "on x"


async def test_what_the_synchronous_twin_runs_itself_cannot_wait_for_it(
    served: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> Any:
        with sync_client.Client(served.socket) as host:

            async def nested() -> Any:
                return host.call("add", {"a": 1})

            host.register(nested)
            return host.call("nested", patience=5)

    assert (await asyncio.to_thread(work)).reason == "unexpected_failure"
    assert "cannot wait for the client" in caplog.text


async def test_the_synchronous_twin_where_a_loop_runs(tmp_path: Path, program: Path) -> None:
    with sync_client.Client("stdio:", command=[sys.executable, str(program)]) as host:
        assert host.call("add", {"a": 1}).output == 3
    assert not _threads()


def _threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "toolcrib-client"]


def test_a_synchronous_client_that_cannot_start_leaves_nothing(unused_tcp_port: int) -> None:
    with (
        pytest.raises(public.CannotConnect),
        sync_client.Client(f"http://127.0.0.1:{unused_tcp_port}"),
    ):
        pass
    assert not _threads()
