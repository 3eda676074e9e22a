"""Reading the configuration again: all of it or nothing, and no call is lost."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Principal, ToolHost, tool
from toolcrib.errors import ConfigError
from toolcrib.host.load import read_config
from toolcrib.testing import EventRecorder

TOOLS = '''
from toolcrib import tool

@tool(effects=["read"])
async def one() -> str:
    """The first."""
    return "{one}"

@tool(effects=["write"])
async def two() -> str:
    """The second."""
    return "{two}"
'''


class Project:
    """A folder with a configuration and a file of tools."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "toolcrib.yaml"
        self.source = folder / "tools.py"
        self.tools()
        self.write()

    def tools(self, one: str = "one", two: str = "two", more: str = "") -> None:
        """Write the tools; what they return tells which ones run."""
        self.source.write_text(TOOLS.format(one=one, two=two) + more)

    def write(self, profile: str = "rules: [{allow: '*'}]", more: str = "") -> None:
        """Write the configuration."""
        self.file.write_text(
            f"version: 1\ntools:\n  - python: tools.py\nprofiles:\n  p: {{{profile}}}\n{more}"
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that works."""
    return Project(tmp_path)


def _state(host: ToolHost) -> Any:
    return (
        {tool.name: tool.spec.digest for tool in host.tools()},
        {name: profile.revision for name, profile in host.config.profiles.items()},
        host.settings,
        host.configured,
        host.config.principals,
    )


async def test_reload_adds_replaces_and_removes_tools(project: Project) -> None:
    recorder = EventRecorder()
    async with ToolHost.from_config(project.file) as host:
        recorder.attach(host)
        assert (await host.call("one")).output == "one"
        three = '\n@tool(effects=["read"])\nasync def three() -> str:\n    return "three"\n'
        project.tools("ONE, and longer", more=three)
        await host.reload()
        assert (await host.call("one")).output == "ONE, and longer"
        assert (await host.call("three")).output == "three"
        project.tools("back again")
        await host.reload()
        assert (await host.call("three")).reason == "unknown_tool"
        assert {tool.name for tool in host.tools()} == {"one", "two"}
        assert recorder.types.count("config.loaded") == 2
        assert recorder.only("config.loaded")[0].data["files"] == [str(project.file)]


async def test_reload_sees_an_edit_of_the_same_length_at_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where Python keeps compiled files, which it tells apart by second and size."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    async with ToolHost.from_config(project.file) as host:
        for text in ("aaa", "bbb", "ccc"):
            project.tools(text)
            await host.reload()
            assert (await host.call("one")).output == text


async def test_reload_changes_rules_for_live_sessions(project: Project) -> None:
    async with ToolHost.from_config(project.file) as host, host.session() as session:
        assert (await session.call("two")).success
        project.write("rules: [{allow: '*'}, {deny: two}]")
        await host.reload()
        assert (await session.call("two")).reason == "denied_by_rule"
        assert (await host.call("two")).reason == "denied_by_rule"
        assert [tool.name for tool in session.tools()] == ["one"]
        project.write()
        await host.reload()
        assert (await session.call("two")).success


BROKEN = [
    ("yaml", "rules: [", ""),
    ("typo", "ruels: [{allow: one}]", ""),
    ("unknown tool", "rules: [{allow: onne}]", ""),
    ("unset variable", "rules: [{allow: '*'}]", "host: {profile: '${NOT_SET_ANYWHERE}'}\n"),
    ("second tool file missing", "rules: [{allow: '*'}]", ""),
    ("settings", "rules: [{allow: '*'}]", "host: {timeout: soon}\n"),
]


@pytest.mark.parametrize(("profile", "more"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
async def test_broken_file_changes_nothing(
    profile: str, more: str, project: Project, request: pytest.FixtureRequest
) -> None:
    recorder = EventRecorder()
    async with ToolHost.from_config(project.file) as host:
        recorder.attach(host)
        assert (await host.call("one")).output == "one"
        before = _state(host)
        project.tools("changed")
        project.write(profile, more)
        if "missing" in request.node.name:
            text = project.file.read_text()
            broken = text.replace("tools:\n", "tools:\n  - python: nowhere.py\n")
            project.file.write_text(broken)
        with pytest.raises(ConfigError) as caught:
            await host.reload()
        assert caught.value.file is not None
        assert Path(caught.value.file).name == "toolcrib.yaml"
        assert caught.value.line
        assert _state(host) == before
        assert (await host.call("one")).output == "one"
        assert (await host.call("two")).output == "two"
        (event,) = recorder.only("config.rejected")
        assert "toolcrib.yaml" in event.data["message"]
        assert "config.loaded" not in recorder.types

        project.write()
        await host.reload()
        assert (await host.call("one")).output == "changed"


@pytest.mark.parametrize(
    "text",
    ["def broken(:\n", "raise RuntimeError('at import')\n", "import nowhere_at_all\n", "x = 1\n"],
    ids=["syntax", "raises", "import", "no tools"],
)
async def test_broken_tools_file_changes_nothing(text: str, project: Project) -> None:
    async with ToolHost.from_config(project.file) as host:
        before = _state(host)
        project.source.write_text(text)
        with pytest.raises(ConfigError) as caught:
            await host.reload()
        assert "tools.py" in str(caught.value)
        assert caught.value.line
        assert _state(host) == before
        assert (await host.call("one")).output == "one"


async def test_configuration_that_vanished_changes_nothing(project: Project) -> None:
    recorder = EventRecorder()
    async with ToolHost.from_config(project.file) as host:
        recorder.attach(host)
        before = _state(host)
        project.file.unlink()
        with pytest.raises(ConfigError, match=r"toolcrib\.yaml"):
            await host.reload()
        assert _state(host) == before
        assert recorder.types.count("config.rejected") == 1
        assert (await host.call("one")).success


@pytest.mark.parametrize("clash", ["same name", "look-alike"])
async def test_reload_that_clashes_with_a_registered_tool_changes_nothing(
    clash: str, project: Project
) -> None:
    """The clash shows only when the new tools meet those that the program registered itself."""
    name = "three" if clash == "same name" else "Three"

    @tool(name=name, effects=["read"])
    async def own() -> str:
        return "own"

    async with ToolHost.from_config(project.file) as host:
        host.register(own)
        before = _state(host)
        entries = dict(host.catalog.snapshot())
        project.tools("changed", more='\n@tool\nasync def three() -> str:\n    return "three"\n')
        project.write("rules: [{allow: '*'}, {deny: two}]")
        with pytest.raises(ConfigError):
            await host.reload()
        assert _state(host) == before
        assert dict(host.catalog.snapshot()) == entries
        assert (await host.call("one")).output == "one"
        assert (await host.call("two")).output == "two"
        assert (await host.call(name)).output == "own"


async def test_running_calls_finish_on_what_they_began_with(project: Project, until: Any) -> None:
    slow = (
        "\nimport asyncio\nBEGAN = []\n"
        '@tool(effects=["write"])\nasync def slow() -> str:\n'
        '    BEGAN.append(1)\n    await asyncio.sleep(0.15)\n    return "{}"\n'
    )
    recorder = EventRecorder()
    async with ToolHost.from_config(project.file) as host:
        recorder.attach(host)
        project.tools(more=slow.format("old"))
        await host.reload()
        call = asyncio.create_task(host.call("slow"))
        await recorder.wait_for("call.started")
        project.tools("x", "y", more=slow.format("new one"))
        project.write("rules: [{allow: one}, {deny: slow}]")
        await host.reload()
        assert (await host.call("slow")).reason == "denied_by_rule"
        assert not call.done()
        result = await call
        assert (result.status, result.output) == ("ok", "old")
        project.write()
        await host.reload()
        assert (await host.call("slow")).output == "new one"


async def test_reload_under_load_loses_no_call(project: Project, place: Any) -> None:
    host = ToolHost.from_config(project.file, store=f"sqlite:{place.db}")
    key = f"host: {{audit: {{key: {place.key}}}}}\n"
    project.write(more=key)
    await host.reload()
    made: list[str] = []
    stop = False
    seen: set[str | None] = set()

    async def caller(number: int) -> None:
        while not stop:
            result = await host.call("one" if number % 2 else "two")
            made.append(result.call_id)
            seen.add(result.output if result.success else result.reason)
            await asyncio.sleep(0)

    async with host:
        callers = [asyncio.create_task(caller(number)) for number in range(50)]
        for turn in range(20):
            project.tools("o" * (turn + 1), "t" * (turn + 1))
            if turn % 4 == 3:
                project.write("rules: [", key)
                with pytest.raises(ConfigError):
                    await host.reload()
                project.write(more=key)
            else:
                await host.reload()
            await asyncio.sleep(0.005)
        stop = True
        await asyncio.gather(*callers)
        assert (await host.call("one")).output == "o" * 19
    assert all(answer and set(answer) in ({"o"}, {"t"}, set("one"), set("two")) for answer in seen)
    found = await place.look()
    found.assert_whole()
    assert set(made) <= found.ids("call.finished")
    assert len(set(made)) == len(made)
    assert len(found.reports) == 1


def test_reload_from_a_thread_while_others_call(project: Project) -> None:
    """Rules that are in force after a reload are in force for everybody, in every loop."""
    host = ToolHost.from_config(project.file)
    problems: list[BaseException] = []
    over = threading.Event()

    async def hammer() -> None:
        while not over.is_set():
            result = await host.call("two")
            assert result.reason in (None, "denied_by_rule"), result

    def main() -> None:
        try:
            asyncio.run(hammer())
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=main) for _ in range(4)]
    for thread in threads:
        thread.start()

    async def change() -> None:
        for _ in range(12):
            project.write("rules: [{allow: one}, {deny: two}]")
            await host.reload()
            await asyncio.sleep(0.002)
            assert (await host.call("two")).reason == "denied_by_rule"
            project.write()
            await host.reload()
            await asyncio.sleep(0.002)
            assert (await host.call("two")).success

    try:
        asyncio.run(change())
    finally:
        over.set()
        for thread in threads:
            thread.join(20)
        asyncio.run(host.stop())
    assert problems == []


async def test_profiles_that_a_principal_may_use_hold_after_a_reload(project: Project) -> None:
    async with ToolHost.from_config(project.file) as host:
        ada = Principal("ada")
        assert (await host.call("two", principal=ada, profile="p")).success
        strict = "  q: {rules: [{allow: one}]}\nprincipals: {ada: {profiles: [q]}}\n"
        project.write(more=strict)
        await host.reload()
        assert (await host.call("two", principal=ada, profile="p")).reason == "not_in_profile"
        assert (await host.call("two", principal=ada, profile="q")).reason == "not_in_profile"
        assert (await host.call("one", principal=ada, profile="q")).success


async def test_listing_under_a_profile_that_does_not_exist_lends_no_rights(
    project: Project,
) -> None:
    project.write("rules: [{allow: one}, {deny: two}]")
    async with ToolHost.from_config(project.file) as host:
        for name in ("nothing", "", "P"):
            with contextlib.suppress(ConfigError):
                assert host.tools(profile=name) == []
            for profile in (None, "p", name):
                result = await host.call("two", profile=profile)
                assert result.status == "denied", (name, profile)


async def test_session_of_a_profile_that_was_removed_has_no_rights(project: Project) -> None:
    async with ToolHost.from_config(project.file) as host, host.session(profile="p") as session:
        assert (await session.call("two")).success
        text = project.file.read_text().replace("  p: ", "  q: ").replace("'*'", "one")
        project.file.write_text(text)
        await host.reload()
        assert (await session.call("two")).reason == "not_in_profile"
        assert session.tools() == []
        # What the session's listing left behind serves nobody else.
        assert (await host.call("two")).reason == "not_in_profile"
        assert (await session.call("two")).reason == "not_in_profile"


async def test_plan_made_while_the_rules_change_is_not_kept(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reload of another thread, put exactly between looking up the rules and the plan."""
    async with ToolHost.from_config(project.file) as host:
        project.write("rules: [{allow: one}, {deny: two}]")
        strict = read_config(project.file)
        find = host.catalog.get

        def find_late(name: str) -> Any:
            monkeypatch.undo()
            host.apply(strict)
            return find(name)

        monkeypatch.setattr(host.catalog, "get", find_late)
        await host.call("two")
        assert (await host.call("two")).reason == "denied_by_rule"
        assert host.explain("two").verdict == "deny"
