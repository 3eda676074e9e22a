"""Which sandboxes a profile accepts, what happens where one cannot be had, and which effects are
left under a policy."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support import assert_one_ending

from executing import until
from needs import needs
from toolcrib import ConfigError, ToolHost
from toolcrib.core.sandbox import Completed, SelfTest
from toolcrib.sandbox.once import forget

ROOM = {"type": "object", "properties": {}, "additionalProperties": False}


def command(name: str = "look", sandbox: str | None = None, **fields: Any) -> dict[str, Any]:
    """A shell tool that leaves a file behind."""
    config: dict[str, Any] = {"argv": ["sh", "-c", "touch ran; echo done"]}
    if sandbox is not None:
        config["sandbox"] = sandbox
    return {"name": name, "kind": "shell", "input_schema": ROOM, "config": config, **fields}


def allowing(**more: Any) -> dict[str, Any]:
    return {"profiles": {"only": {"rules": [{"allow": "*"}], **more}}}


class Room:
    """A sandbox of somebody's own, which does what the test tells it."""

    type = "room"
    isolates: frozenset[Any] = frozenset()
    ran = 0

    def __init__(self, name: str, settings: Mapping[str, Any], workshop: Any) -> None:
        self.name = name
        self.settings = settings

    async def probe(self) -> Any:
        if self.settings.get("probe") == "raises":
            raise RuntimeError("the inner workings")
        if self.settings.get("probe") == "nonsense":
            return True
        good = self.settings.get("probe") != "bad"
        return SelfTest(good, "it works" if good else "the room has no door")

    async def run(self, argv: Any, **options: Any) -> Any:
        Room.ran += 1
        how = self.settings.get("run")
        if how == "raises":
            raise RuntimeError("the inner workings")
        return "done" if how == "nonsense" else Completed(exit_code=0, stdout=b"in the room\n")

    async def spawn(self, argv: Any, **options: Any) -> Any:
        raise OSError(1, "no")


def rooms(config: Mapping[str, Any], folder: Path) -> ToolHost:
    """A host that knows sandboxes of type `room`, configured by a file in a folder."""
    file = folder / "toolcrib.yaml"
    file.write_text(json.dumps({"version": 1, **config}))
    host = ToolHost(config=file)
    host.registrar.sandbox("room", Room)
    host.load()
    Room.ran = 0
    return host


def listed(host: ToolHost) -> dict[str, str | None]:
    return {tool.name: tool.unavailable for tool in host.tools()}


@pytest.fixture
def without_bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A search path on which there is no bubblewrap, and no memory of there having been one."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    forget()
    yield
    forget()


# A profile accepts only some sandboxes.


@pytest.mark.parametrize(
    ("sandbox", "isolation", "good"),
    [
        (None, ["subprocess"], True),
        (None, ["room"], False),
        ("here", ["room"], True),
        ("here", ["subprocess", "room"], True),
        ("here", ["bubblewrap", "container"], False),
        ("here", None, True),
    ],
    ids=str,
)
async def test_commands_run_only_where_the_profile_accepts_it(
    sandbox: str | None, isolation: list[str] | None, good: bool, tmp_path: Path
) -> None:
    accepted = {} if isolation is None else {"isolation": isolation}
    config = {"sandboxes": {"here": {"type": "room"}}, "tools": [command(sandbox=sandbox)]}
    async with rooms({**config, **allowing(**accepted)}, tmp_path) as host:
        said = host.explain("look", {})
        result = await host.call("look", {})
        await assert_one_ending(host, result.call_id)
        if good:
            assert (said.verdict, result.status) == ("allow", "ok")
            assert list(listed(host)) == ["look"]
            return
        assert (said.reason, result.reason) == ("sandbox_not_allowed", "sandbox_not_allowed")
        assert result.status == "denied"
        assert result.error.details["rule"] == "profiles.only.isolation"
        assert result.error.details["source"].startswith("toolcrib.yaml:1")
        assert listed(host) == {}
    assert not (tmp_path / "ran").exists()
    assert Room.ran == 0


@pytest.mark.parametrize("isolation", [None, ["bubblewrap"], ["landlock"]], ids=str)
async def test_landlock_is_used_only_where_it_is_named(
    isolation: list[str] | None, tmp_path: Path
) -> None:
    accepted = {} if isolation is None else {"isolation": isolation}
    config = {"sandboxes": {"here": {"type": "landlock"}}, "tools": [command(sandbox="here")]}
    host = rooms({**config, **allowing(**accepted)}, tmp_path)
    said = host.explain("look", {})
    if isolation == ["landlock"]:
        assert said.verdict == "allow"
    else:
        assert (said.verdict, said.reason) == ("deny", "sandbox_not_allowed")
        assert listed(host) == {}


async def test_a_tool_without_commands_does_not_care(tmp_path: Path) -> None:
    config = {"tools": [{"template": "files"}], **allowing(isolation=["bubblewrap"])}
    async with rooms(config, tmp_path) as host:
        result = await host.call("files", {"action": "list"})
        assert result.status == "ok"


@pytest.mark.parametrize(
    ("knobs", "isolation", "words"),
    [
        ({"sandbox": "here"}, ["bubblewrap"], "is of type room"),
        ({"sandbox": "subprocess"}, ["room"], "is of type subprocess"),
        ({"sandbox": None}, ["room"], "no sandbox is named here"),
        ({"sandbox": "heer"}, ["room"], "Did you mean here?"),
        ({"sandbox": "walls"}, None, "isolation: [landlock]"),
        ({"sandbox": 7}, None, "must be text or null, not 7"),
    ],
    ids=str,
)
def test_a_profile_does_not_contradict_itself(
    knobs: dict[str, Any], isolation: list[str] | None, words: str, tmp_path: Path
) -> None:
    accepted = {} if isolation is None else {"isolation": isolation}
    config = {
        "sandboxes": {"here": {"type": "room"}, "walls": {"type": "landlock"}},
        "tools": [{"template": "git", "policy": {"sandbox": "here"}}],
        **allowing(**accepted, policies={"git": knobs}),
    }
    with pytest.raises(ConfigError) as raised:
        rooms(config, tmp_path)
    assert words in str(raised.value)
    assert str(raised.value).startswith("toolcrib.yaml:1")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (allowing(isolation=["bubblewarp"]), "Did you mean bubblewrap?"),
        (allowing(isolation=[]), "empty list"),
        ({"tools": [command(sandbox="heer")], "sandboxes": {"here": {"type": "room"}}}, "here"),
        ({"sandboxes": {"here": {"type": "rom"}}}, "Did you mean room?"),
        ({"sandboxes": {"strict": {"type": "room"}}}, "built-in"),
        ({"sandboxes": {"here": {"type": "bubblewrap", "memroy": "1GiB"}}}, "memory"),
        ({"tools": [{"template": "git", "policy": {"sandbox": "nowhere"}}]}, "nowhere"),
        ({"tools": [{"template": "shell", "policy": {"sandbox": "nowhere"}}]}, "nowhere"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names_that_nobody_knows_are_mistakes(
    config: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as raised:
        rooms(config, tmp_path)
    assert words in str(raised.value)


# A sandbox that cannot be had is never replaced by another.


async def test_without_bubblewrap_its_tools_are_listed_as_unavailable(
    without_bwrap: None, tmp_path: Path
) -> None:
    config = {
        "sandboxes": {"box": {"type": "bubblewrap"}},
        "tools": [
            command("boxed", "box"),
            command("strict", "strict"),
            command("plain"),
            {"template": "shell", "policy": {"programs": ["ls"]}},
        ],
    }
    async with rooms(config, tmp_path) as host:
        await until(lambda: sum(down is not None for down in listed(host).values()) == 3)
        found = listed(host)
        assert found["plain"] is None
        for name in ("boxed", "strict", "shell"):
            assert "apt-get install bubblewrap" in str(found[name])
        calls = {"boxed": {}, "strict": {}, "shell": {"program": "ls"}}
        for name, arguments in calls.items():
            result = await host.call(name, arguments)
            assert (result.status, result.reason) == ("error", "sandbox_unavailable")
            assert host.explain(name, arguments).reason == "sandbox_unavailable"
            await assert_one_ending(host, result.call_id)
    assert not (tmp_path / "ran").exists()


async def test_a_call_that_comes_before_the_self_test_does_not_run_elsewhere(
    without_bwrap: None, tmp_path: Path
) -> None:
    config = {"sandboxes": {"box": {"type": "bubblewrap"}}, "tools": [command("boxed", "box")]}
    host = rooms(config, tmp_path)
    result = await host.call("boxed", {})
    assert result.reason == "sandbox_unavailable"
    assert not (tmp_path / "ran").exists()
    await host.stop()


async def test_the_command_line_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "programs").mkdir()
    config = {"sandboxes": {"box": {"type": "bubblewrap"}}, "tools": [command("boxed", "box")]}
    (tmp_path / "toolcrib.yaml").write_text(json.dumps({"version": 1, **config}))
    for words, code in ((("tools",), 0), (("call", "boxed"), 5)):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "toolcrib", *words,
            cwd=tmp_path,
            env={**os.environ, "PATH": str(tmp_path / "programs"), "COLUMNS": "300"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await process.communicate()
        assert process.returncode == code, out.decode()
        assert b"bwrap is not installed" in out, out.decode()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ("bad", "the room has no door"),
        ("raises", "its self-test broke: RuntimeError"),
        ("nonsense", "its self-test gave a bool"),
    ],
)
async def test_a_self_test_that_goes_wrong_hides_no_other(
    probe: str, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {
        "sandboxes": {"bad": {"type": "room", "probe": probe}, "good": {"type": "room"}},
        "tools": [command("one", "bad"), command("two", "good")],
    }
    async with rooms(config, tmp_path) as host:
        await until(lambda: listed(host)["one"])
        assert words in str(listed(host)["one"])
        assert listed(host)["two"] is None
        assert (await host.call("one", {})).reason == "sandbox_unavailable"
        assert (await host.call("two", {})).output == "in the room\n"
    assert Room.ran == 1
    assert "the inner workings" not in caplog.text


@pytest.mark.parametrize("run", ["raises", "nonsense"])
async def test_a_sandbox_that_breaks_breaks_one_call(run: str, tmp_path: Path) -> None:
    config = {
        "sandboxes": {"bad": {"type": "room", "run": run}},
        "tools": [command("one", "bad"), command("two")],
    }
    async with rooms(config, tmp_path) as host:
        result = await host.call("one", {})
        assert (result.status, result.reason) == ("error", "unexpected_failure")
        assert "inner workings" not in repr(result)
        await assert_one_ending(host, result.call_id)
        assert (await host.call("two", {})).output == "done\n"


async def test_a_mended_sandbox_is_found_by_a_reload(tmp_path: Path) -> None:
    config = {"sandboxes": {"box": {"type": "room", "probe": "bad"}}}
    tools = {"tools": [command("one", "box")]}
    async with rooms({**config, **tools}, tmp_path) as host:
        await until(lambda: listed(host)["one"])
        fixed = {"sandboxes": {"box": {"type": "room"}}, **tools}
        (tmp_path / "toolcrib.yaml").write_text(json.dumps({"version": 1, **fixed}))
        await host.reload()
        assert (await host.call("one", {})).status == "ok"
        assert listed(host)["one"] is None


# What a policy leaves of a tool's effects.


@pytest.fixture
def repository(tmp_path: Path) -> None:
    subprocess.run([needs("git", "git"), "-C", tmp_path, "init", "-q"], check=True)


def git(**knobs: Any) -> dict[str, Any]:
    return {"template": "git", "policy": knobs}


@pytest.mark.parametrize(
    ("knobs", "effects"),
    [
        ({}, {"read"}),
        ({"allowed_actions": ["status", "commit"]}, {"read", "write"}),
        ({"allowed_actions": ["push"]}, set()),
        ({"allowed_actions": ["push"], "allow_push": True}, {"write", "egress"}),
    ],
    ids=["reading", "committing", "never pushing", "pushing"],
)
def test_effects_follow_the_policy(
    knobs: dict[str, Any], effects: set[str], tmp_path: Path
) -> None:
    host = rooms({"tools": [git()], **allowing(policies={"git": knobs})}, tmp_path)
    [tool] = host.tools()
    assert tool.spec.effects == effects


async def test_rules_on_effects_see_what_is_left_under_the_profile(
    repository: None, tmp_path: Path
) -> None:
    broad = {"allowed_actions": ["status", "commit"]}
    rules = [{"allow": {"effects": ["read"]}}]
    config = {
        "tools": [git(**broad)],
        "profiles": {
            "reader": {"rules": rules, "policies": {"git": {"allowed_actions": ["status"]}}},
            "writer": {"rules": rules},
        },
    }
    async with rooms(config, tmp_path) as host:
        seen = {p: [t.name for t in host.tools(profile=p)] for p in ("reader", "writer")}
        assert seen == {"reader": ["git"], "writer": []}
        asked = ("git", {"action": "status"})
        assert (await host.call(*asked, profile="reader")).status == "ok"
        assert (await host.call(*asked, profile="writer")).reason == "not_in_profile"
        assert host.explain(*asked, profile="writer").reason == "not_in_profile"


@pytest.mark.parametrize(("actions", "waits"), [(["status"], False), (["status", "add"], True)])
async def test_only_what_can_write_waits_for_the_disk(
    actions: list[str], waits: bool, repository: None, tmp_path: Path
) -> None:
    store = tmp_path / "store.db"
    config = {
        "host": {"store": f"sqlite:{store}"},
        "tools": [git(allowed_actions=["status", "add"])],
        **allowing(policies={"git": {"allowed_actions": actions}}),
    }
    async with rooms(config, tmp_path) as host:
        result = await host.call("git", {"action": "status"})
        assert result.status == "ok", result
        # A call that may write is on disk, in two records, before it is answered; one that only
        # reads is one record, which comes with the next group.
        blocks = [block for _, block in await (await host.start()).store.blocks()]
        lines = [line for block in blocks for line in block.lines.split(b"\n")]
        halves = [line for line in lines if result.call_id.encode() in line]
        assert (len(halves) == 2) is waits


async def test_a_profile_may_choose_a_stronger_sandbox(tmp_path: Path) -> None:
    config = {
        "sandboxes": {"box": {"type": "bubblewrap"}},
        "tools": [{"template": "git", "policy": {"root": str(tmp_path)}}],
        "profiles": {
            "strong": {
                "rules": [{"allow": "*"}],
                "isolation": ["bubblewrap"],
                "policies": {"git": {"sandbox": "box"}},
            }
        },
    }
    host = ToolHost(config=config)
    assert host.explain("git", {"action": "status"}).verdict == "allow"
    assert [t.name for t in host.tools()] == ["git"]


@pytest.mark.parametrize("isolation", [["container"], ["subprocess"]], ids=lambda names: names[0])
async def test_a_knob_that_brings_a_sandbox_in_is_held_to_the_profile(isolation: list[str]) -> None:
    config = {
        "tools": [{"template": "python_code"}],
        "profiles": {
            "only": {
                "rules": [{"allow": "*"}],
                "isolation": isolation,
                "policies": {"python_code": {"backend": "process"}},
            }
        },
    }
    async with ToolHost(config=config) as host:
        asked = ("python_code", {"code": "1"})
        assert host.explain(*asked).reason == "sandbox_not_allowed"
        assert (await host.call(*asked)).reason == "sandbox_not_allowed"
        assert host.tools() == []


async def test_explain_refuses_what_the_executor_would(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    shell = {"argv": ["cat", "{text}"]}
    address = {"url": "https://api.example.com/x/{text}"}
    config = {
        "tools": [
            {"name": "show", "kind": "shell", "input_schema": schema, "config": shell},
            {"name": "get", "kind": "http", "input_schema": schema, "config": address},
        ]
    }
    async with ToolHost(config=config) as host:
        for name, value in (("show", "--help"), ("get", "../admin")):
            said = host.explain(name, {"text": value})
            done = await host.call(name, {"text": value})
            assert (said.verdict, said.reason) == ("deny", done.reason)
            assert done.status == "denied"
            assert said.steps[-1].gate == "executor"
            events = await host.trail(call_id=done.call_id)
            assert "call.started" not in [event.type for event in events]
