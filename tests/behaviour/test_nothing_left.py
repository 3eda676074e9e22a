"""After a storm of calls of every kind, ended in every way, nothing of it is left: no process, no
open file, no task, no thread, no temporary file."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kinds import NAMES, Kind, kind, written
from support import ENDINGS

from executing import children, descriptors, until
from needs import needs
from toolcrib import ToolHost
from toolcrib.sandbox.once import forget
from toolcrib.testing import ApprovalSimulator

NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
SLOW = "(sleep 60 & setsid sleep 60 & sleep 60) & sleep 60"
"""Children, grandchildren, and one that leaves its group."""


@asynccontextmanager
async def every_kind(folder: Path) -> AsyncIterator[tuple[dict[str, Any], list[Kind]]]:
    """A configuration with a tool of every kind, under names of their own."""
    tools: list[dict[str, Any]] = []
    providers: dict[str, Any] = {}
    async with AsyncExitStack() as stack:
        kinds: list[Kind] = []
        for name in NAMES:
            (folder / name).mkdir()
            made = await stack.enter_async_context(kind(name, folder / name))
            config = made.config({})
            for entry in config.get("tools", ()):
                if "name" in entry:
                    made.tool = entry["name"] = f"work_{name}"
                if name in ("process", "shell"):
                    key = "module" if name == "process" else "cwd"
                    entry["config"][key] = f"{name}/work.py" if name == "process" else name
                tools.append(entry)
            providers |= config.get("providers", {})
            kinds.append(made)
        tools += [
            {
                "name": "boxed",
                "kind": "shell",
                "input_schema": NOTHING,
                "config": {"argv": ["sh", "-c", SLOW], "sandbox": "box"},
            },
            {
                "name": "plain",
                "kind": "shell",
                "input_schema": NOTHING,
                "config": {"argv": ["sh", "-c", SLOW], "progress": True},
            },
            {
                "name": "flood",
                "kind": "shell",
                "input_schema": NOTHING,
                "config": {"argv": ["yes"], "limits": {"output": "64kB"}},
            },
            {
                "name": "gone",
                "kind": "shell",
                "input_schema": NOTHING,
                "config": {"argv": ["no-such-program"]},
            },
            {"template": "files", "policy": {"allowed_actions": ["read", "write", "list"]}},
            {"template": "git", "policy": {"root": "."}},
            {"template": "python_code", "policy": {"timeout": "300ms"}},
            {"template": "fetch", "policy": {"allowed_hosts": ["127.0.0.1"]}},
        ]
        sandboxes = {"box": {"type": "bubblewrap", "read": ["."]}}
        profiles = {
            "free": {"rules": [{"allow": "*"}]},
            "asked": {"rules": [{"ask": "*"}], "approval": {"timeout": "300ms"}},
            "shut": {"rules": [{"deny": "*"}]},
            "few": {"rules": [{"allow": "*"}], "limits": {"calls": "2/h", "concurrent": 1}},
        }
        host = {"profile": "free", "drain": "2s"}
        yield (
            {
                "host": host,
                "tools": tools,
                "providers": providers,
                "sandboxes": sandboxes,
                "profiles": profiles,
            },
            kinds,
        )


def others(kinds: list[Kind]) -> list[tuple[str, dict[str, Any]]]:
    """Calls of the broad tools, good and bad ones."""
    url = kinds[0].server.url
    return [
        ("boxed", {}),
        ("plain", {}),
        ("flood", {}),
        ("gone", {}),
        ("files", {"action": "list"}),
        ("files", {"action": "read", "path": "toolcrib.yaml"}),
        ("files", {"action": "read", "path": "../x"}),
        ("files", {"action": "write", "path": "note", "content": "x", "overwrite": True}),
        ("git", {"action": "status"}),
        ("git", {"action": "log", "ref": "--all"}),
        ("python_code", {"code": "1 + 1"}),
        ("python_code", {"code": "while True: pass"}),
        ("fetch", {"url": f"{url}/x"}),
        ("fetch", {"url": "http://169.254.169.254/"}),
        ("nobody", {}),
    ]


async def storm(host: ToolHost, kinds: list[Kind], count: int) -> Counter[str]:
    """So many calls, in an order that is always the same; how they ended."""
    dice = random.Random(7)
    ends: Counter[str] = Counter()
    room = asyncio.Semaphore(12)
    plain = others(kinds)

    async def one(number: int) -> None:
        how = dice.choice(["say", "fail", "hang", "much", "wrong", "other", "other"])
        made = dice.choice(kinds)
        name, arguments = plain[number % len(plain)] if how == "other" else made.call(how)
        if how == "wrong":
            arguments = {"nonsense": 1}
        profile = dice.choice(["free", "free", "free", "asked", "shut", "few"])
        timeout = dice.choice([0.02, 0.1, 0.3])
        cancel = dice.random() < 0.3
        pause = dice.random() * 0.1
        async with room:
            call = asyncio.ensure_future(
                host.call(name, arguments, profile=profile, timeout=timeout, call_id=f"c{number}")
            )
            if cancel:
                await asyncio.sleep(pause)
                host.cancel(f"c{number}")
            result = await call
        ends[result.reason or "ok"] += 1
        assert result.reason != "unexpected_failure", result
        # What has left for a server, or is just being done by a thread, may still have its effect:
        # a result that says so is honest.
        begun = name in ("work_http", "files")
        assert result.error is None or begun or result.error.still_running is False, result

    await asyncio.gather(*(one(number) for number in range(count)))
    return ends


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, with a folder for temporary files beside it."""
    needs("bwrap", "bubblewrap")
    folder, spare = tmp_path / "work", tmp_path / "spare"
    folder.mkdir()
    spare.mkdir()
    subprocess.run([needs("git", "git"), "-C", folder, "init", "-q"], check=True)
    monkeypatch.setenv("TMPDIR", str(spare))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def working_in(folder: Path) -> set[int]:
    """The processes, whoever their parents are, that work in a folder."""
    found: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            where = str((entry / "cwd").readlink())
        except OSError:
            continue
        if where.startswith(str(folder)) and int(entry.name) != os.getpid():
            found.add(int(entry.name))
    return found


def own_threads() -> set[str]:
    alive = {thread.name for thread in threading.enumerate() if not thread.daemon}
    return {name for name in alive if not name.startswith("asyncio_")}


async def test_nothing_is_left_of_a_storm(place: Path) -> None:
    async with every_kind(place) as (config, kinds):
        file = written(place, config)
        options: dict[str, Any] = {"approver": ApprovalSimulator(default="escalate")}

        async def stay(count: int) -> Counter[str]:
            async with ToolHost.from_config(file, **options) as host:
                ends = await storm(host, kinds, count)
                events = await host.trail(limit=100_000)
            types = Counter((e.call_id, e.type in ENDINGS) for e in events if e.call_id)
            assert all(types[f"c{n}", True] == 1 for n in range(count))
            return ends

        await stay(30)  # what is opened once for the whole process is open now
        await asyncio.sleep(0.1)  # the servers of the test let go of their ends too
        before = children(), descriptors(), len(asyncio.all_tasks())
        ends = await stay(150)
        wanted = {"ok", "timeout", "cancelled", "invalid_arguments", "denied_by_rule", "tool_error"}
        assert wanted <= set(ends), ends
        await until(
            lambda: (
                children() == before[0]
                and descriptors() <= before[1]
                and len(asyncio.all_tasks()) <= before[2]
            )
        )
    assert working_in(place) == set()
    assert os.listdir(place.parent / "spare") == []  # noqa: PTH208
    # Threads of the loop itself end with the loop, which belongs to the test.
    await until(lambda: own_threads() == {"MainThread"})


async def test_a_host_that_stops_in_the_middle_leaves_nothing(place: Path) -> None:
    async with every_kind(place) as (config, kinds):
        file = written(place, {**config, "host": {"profile": "free", "drain": "50ms"}})

        async def stay() -> list[str | None]:
            async with ToolHost.from_config(file) as host:
                hanging = [made.call("hang") for made in kinds if made.name != "storage"]
                calls = [
                    asyncio.ensure_future(host.call(*asked))
                    for asked in (*hanging, ("boxed", {}), ("plain", {}))
                ]
                await asyncio.sleep(0.4)
            return [(await call).reason for call in calls]

        await stay()
        await asyncio.sleep(0.1)
        before = children(), descriptors()
        assert set(await stay()) == {"host_stopping"}
        await until(lambda: children() == before[0] and descriptors() <= before[1])
    assert working_in(place) == set()


async def test_trying_sandboxes_ends_with_the_host_also_after_reloads() -> None:
    needs("bwrap", "bubblewrap")
    forget()
    shell: dict[str, Any] = {"argv": ["true"], "sandbox": "box"}
    config = {
        "sandboxes": {"box": {"type": "bubblewrap"}},
        "tools": [{"name": "t", "kind": "shell", "config": shell}],
    }
    before = children(), descriptors(), len(asyncio.all_tasks())
    async with ToolHost(config=config) as host:
        for _ in range(3):
            await asyncio.sleep(0.02)
            await host.reload()
    assert (children(), descriptors(), len(asyncio.all_tasks())) == before
