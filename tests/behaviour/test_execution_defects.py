"""What earlier implementations did wrong when they ran tools, shown not to happen here."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import assert_one_ending

from executing import until
from loopback import reply_json, serve
from needs import needs
from toolcrib import ConfigError, ToolHost

PATH = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


def written(folder: Path, config: dict[str, Any]) -> Path:
    file = folder / "toolcrib.yaml"
    file.write_text(json.dumps({"version": 1, **config}))
    return file


def shell(name: str, schema: Any = NOTHING, **config: Any) -> dict[str, Any]:
    return {"name": name, "kind": "shell", "input_schema": schema, "config": config}


async def ran(folder: Path, *words: str) -> tuple[int, str]:
    """How the command ends in a folder, and all it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "toolcrib", *words,
        cwd=folder,
        env={**os.environ, "COLUMNS": "300"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


# `rm {path}` went through a shell.


async def test_a_command_text_is_no_shell(tmp_path: Path) -> None:
    config = {"tools": [shell("remove", PATH, command="rm -- {path}")]}
    odd = ["; touch marker", "$(touch marker)", "a b", "*", "-rf", "`touch marker`", "x && y"]
    for name in (*odd, "kept"):
        (tmp_path / name).write_text("")
    async with ToolHost.from_config(written(tmp_path, config)) as host:
        for name in odd:
            result = await host.call("remove", {"path": name})
            assert result.status == "ok", (name, result)
            assert not (tmp_path / name).exists()
    assert sorted(os.listdir(tmp_path)) == ["kept", "toolcrib.yaml"]  # noqa: PTH208


async def test_a_value_does_not_become_an_option(tmp_path: Path) -> None:
    config = {"tools": [shell("remove", PATH, command="rm {path}")]}
    (tmp_path / "kept").write_text("")
    async with ToolHost.from_config(written(tmp_path, config)) as host:
        result = await host.call("remove", {"path": "-rf"})
        assert (result.status, result.reason) == ("denied", "argument_not_allowed")
        await assert_one_ending(host, result.call_id)
    assert (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    "command", ["rm {path} && ls", "cat {path} | sh", "echo $HOME {path}", "sh -c 'rm {path}'"]
)
def test_a_command_that_needs_a_shell_is_refused_with_the_cure(
    command: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as raised:
        ToolHost.from_config(written(tmp_path, {"tools": [shell("t", PATH, command=command)]}))
    assert raised.value.cure
    assert raised.value.line == 1


# `--option` injection through a git ref.


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git = needs("git", "git")
    folder = tmp_path / "repository"
    me = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    subprocess.run([git, "init", "-q", "-b", "main", folder], check=True)
    (folder / "a.txt").write_text("one\n")
    subprocess.run([git, "-C", folder, "add", "."], check=True)
    subprocess.run([git, "-C", folder, *me, "commit", "-q", "-m", "First"], check=True)
    return folder


def git_host(folder: Path, **knobs: Any) -> ToolHost:
    policy = {"root": "repository", **knobs}
    return ToolHost.from_config(written(folder, {"tools": [{"template": "git", "policy": policy}]}))


OPTIONS = ("--output=../stolen", "-o../stolen", "--upload-pack=touch ../stolen", "--exec=sh", "-")


@pytest.mark.parametrize("option", OPTIONS)
async def test_a_ref_is_no_option(option: str, repository: Path, tmp_path: Path) -> None:
    actions = ["log", "diff", "show", "rev_parse", "create_branch", "checkout", "push"]
    before = [*os.listdir(tmp_path), "toolcrib.yaml"]  # noqa: PTH208
    async with git_host(tmp_path, allowed_actions=actions, allow_push=True) as host:
        for action in actions[:4]:
            result = await host.call("git", {"action": action, "ref": option})
            assert (result.status, result.reason) == ("denied", "invalid_ref"), action
        for action in actions[4:]:
            asked = {"action": action, "branch": option, "remote": "origin"}
            result = await host.call("git", asked)
            assert (result.status, result.reason) == ("denied", "invalid_branch"), action
            assert host.explain("git", asked).reason == "invalid_branch"
    assert sorted(os.listdir(tmp_path)) == sorted(before)  # noqa: PTH208


# read_file("/etc/passwd"), ../.., a link that is swapped while it is looked at.


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../secret", "a/../../secret", "./../secret", "out", "folder/secret"]
)
@pytest.mark.parametrize("action", ["read", "write", "stat", "delete", "move"])
async def test_files_are_read_below_one_folder_only(path: str, action: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (tmp_path / "secret").write_text("treasure")
    (root / "out").symlink_to("../secret")
    (root / "folder").symlink_to("..")
    (root / "in").write_text("inside")
    actions = ["read", "write", "stat", "delete", "move"]
    policy = {"root": "root", "allowed_actions": actions}
    config = {"tools": [{"template": "files", "policy": policy}]}
    asked: dict[str, Any] = {"action": action, "path": path}
    if action == "write":
        asked |= {"content": "changed", "overwrite": True}
    if action == "move":
        asked |= {"path": "in", "to": path, "overwrite": True}
    async with ToolHost.from_config(written(tmp_path, config)) as host:
        result = await host.call("files", asked)
        # A link itself may be looked at, removed or replaced; nothing goes through it.
        assert path == "out" or result.status == "denied", result
        assert "treasure" not in repr(result)
        assert "root:" not in repr(result)
    assert (tmp_path / "secret").read_text() == "treasure"


@contextlib.contextmanager
def swapping(place: Path, *targets: str) -> Iterator[None]:
    """A link that leads now here, now there, all the time."""
    done = threading.Event()

    def swap() -> None:
        spare, turn = place.with_name("spare"), 0
        while not done.is_set():
            spare.unlink(missing_ok=True)
            spare.symlink_to(targets[turn % len(targets)])
            spare.replace(place)
            turn += 1

    thread = threading.Thread(target=swap)
    place.symlink_to(targets[0])
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


async def test_a_link_that_is_swapped_leads_nowhere(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("treasure")
    (root / "in").write_text("inside")
    policy = {"root": "root", "allowed_actions": ["read", "write"]}
    config = {"tools": [{"template": "files", "policy": policy}]}
    seen: set[str] = set()
    async with ToolHost.from_config(written(tmp_path, config)) as host:
        with swapping(root / "link", "in", "../secret"):
            for _ in range(150):
                result = await host.call("files", {"action": "read", "path": "link"})
                seen.add(result.output["text"] if result.success else str(result.reason))
                asked = {"action": "write", "path": "link", "content": "x", "overwrite": True}
                await host.call("files", asked)
    assert (tmp_path / "secret").read_text() == "treasure"
    assert "treasure" not in seen
    assert seen & {"path_outside_root", "inside"}


# A typo disabled a safety knob; a policy could never succeed.


@pytest.mark.parametrize(
    ("template", "knob", "meant"),
    [
        ("git", "allowed_action", "allowed_actions"),
        ("git", "protect_branches", "protected_branches"),
        ("files", "denied_path", "denied_paths"),
        ("shell", "program", "programs"),
        ("fetch", "allowed_host", "allowed_hosts"),
        ("sql", "readonly", "read_only"),
        ("python_code", "allowed_tool", "allowed_tools"),
    ],
)
@pytest.mark.parametrize("where", ["tool", "profile"])
def test_an_unknown_policy_key_is_a_mistake(
    template: str, knob: str, meant: str, where: str, tmp_path: Path
) -> None:
    knobs: dict[str, Any] = {"database": "sqlite:x.db"} if template == "sql" else {}
    bad = {knob: []}
    entry = {"template": template, "policy": knobs | (bad if where == "tool" else {})}
    config: dict[str, Any] = {"tools": [entry]}
    if where == "profile":
        config["profiles"] = {"p": {"rules": [{"allow": "*"}], "policies": {template: bad}}}
    with pytest.raises(ConfigError, match=f"Did you mean {meant}"):
        ToolHost.from_config(written(tmp_path, config))


async def test_a_commit_on_a_managed_branch_succeeds(repository: Path, tmp_path: Path) -> None:
    actions = ["status", "create_branch", "add", "commit", "checkout"]
    knobs = {"allowed_actions": actions, "managed_branch_prefix": "bot/"}
    (repository / "a.txt").write_text("two\n")
    async with git_host(tmp_path, **knobs) as host:
        steps = (
            {"action": "create_branch", "branch": "bot/fix"},
            {"action": "add", "paths": ["a.txt"]},
            {"action": "commit", "message": "Second"},
        )
        for step in steps:
            result = await host.call("git", step)
            assert result.status == "ok", result
        refused = await host.call("git", {"action": "create_branch", "branch": "mine"})
        assert refused.reason == "branch_prefix_required"
    head = repository / ".git/refs/heads"
    assert (head / "bot/fix").read_text() != (head / "main").read_text()


# What timed out wrote its file later, and was tried again meanwhile.


@pytest.mark.parametrize("kind", ["shell", "process"])
async def test_an_attempt_is_over_before_the_next_one_begins(kind: str, tmp_path: Path) -> None:
    code = 'printf b >> "$1"; sleep 0.6; printf e >> "$1"'
    (tmp_path / "slow.py").write_text(
        "import time\n"
        "def slow(path: str) -> None:\n"
        "    with open(path, 'a') as file: file.write('b')\n"
        "    time.sleep(0.6)\n"
        "    with open(path, 'a') as file: file.write('e')\n"
    )
    configs = {
        "shell": {"argv": ["sh", "-c", code, "sh", "{path}"]},
        "process": {"module": "slow.py", "function": "slow"},
    }
    entry = {
        "name": "slow",
        "kind": kind,
        "input_schema": PATH,
        "config": configs[kind],
        "idempotent": True,
        "timeout": "400ms",
        "retry": {"attempts": 2, "backoff": "0s"},
    }
    file = tmp_path / "log"
    async with ToolHost.from_config(written(tmp_path, {"tools": [entry]})) as host:
        result = await host.call("slow", {"path": str(file)})
        assert (result.reason, result.error.still_running) == ("timeout", False)
        await asyncio.sleep(0.7)
    assert "e" not in file.read_text()


# The whole environment was handed to every child process.


async def test_no_child_sees_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOP_SECRET", "hunter2-hunter2")
    (tmp_path / "look.py").write_text("import os\ndef look() -> dict: return dict(os.environ)\n")
    code = "import os\ndict(os.environ)"
    boxes = {"plain": {"type": "subprocess"}}
    tools = [
        shell("by_shell", argv=["env"]),
        {
            "name": "by_process",
            "kind": "process",
            "config": {"module": "look.py", "function": "look"},
        },
        {"template": "shell", "policy": {"programs": ["env"], "sandbox": "plain"}},
        {"template": "python_code", "policy": {"backend": "process", "sandbox": "plain"}},
    ]
    calls: dict[str, dict[str, Any]] = {
        "by_shell": {},
        "by_process": {},
        "shell": {"program": "env"},
        "python_code": {"code": code},
    }
    config = {"sandboxes": boxes, "tools": tools}
    async with ToolHost.from_config(written(tmp_path, config)) as host:
        for name, arguments in calls.items():
            result = await host.call(name, arguments)
            assert result.status == "ok", result
            assert "PATH" in repr(result.output)
            assert "TOP_SECRET" not in repr(result.output), name
            assert "hunter2" not in repr(result.output), name


# Secrets in logs, errors and traces: also the rest of one that was cut through.


@pytest.mark.parametrize("missing", [1, 5, 12])
async def test_a_secret_that_is_cut_through_is_still_hidden(
    missing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "s3cr3t-Zebra-4711-0815-Yak"
    monkeypatch.setenv("KEPT", secret)
    number = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    # Of standard error the end is shown, and the secret stands where the rest is cut off.
    says = 'printf %s "$KEPT" >&2; head -c "$1" /dev/zero | tr "\\0" x >&2; exit 3'
    leak = shell("leak", number, argv=["sh", "-c", says, "sh", "{n}"], env={"KEPT": "${KEPT}"})
    seen: list[str] = []
    async with ToolHost.from_config(written(tmp_path, {"tools": [leak]})) as host:
        host.on_event(lambda event: seen.append(repr(event)))
        result = await host.call("leak", {"n": 4000 - len(secret) + missing})
        seen.append(repr(await host.trail(call_id=result.call_id)))
    assert result.error.details["stderr"].startswith("… «hidden»xxx")
    assert [text for text in (repr(result), *seen) if secret[missing:] in text] == []


# One bad upstream took down all; tools vanished when a provider hiccuped.


async def test_a_store_that_cannot_be_opened_harms_nobody_and_comes_back(tmp_path: Path) -> None:
    (tmp_path / "bad.db").mkdir()
    quick = {"restart_first": "10ms", "restart_most": "20ms"}
    config = {
        "providers": {
            "bad": {"type": "storage", "backend": "sqlite", "path": "bad.db", **quick},
            "good": {"type": "storage"},
        },
        "tools": [shell("plain", argv=["true"])],
    }
    async with ToolHost.from_config(written(tmp_path, config)) as host:
        assert (await host.call("plain", {})).status == "ok"
        assert (await host.call("good-write", {"key": "a", "value": 1})).status == "ok"
        result = await host.call("bad-write", {"key": "a", "value": 1})
        assert result.reason == "tool_unavailable"
        names = {tool.name for tool in host.tools()}
        assert {"bad-read", "bad-write", "bad-list", "bad-delete", "bad-search"} <= names
        (tmp_path / "bad.db").rmdir()
        await until(lambda: all(s.state == "up" for s in host.sources.status()))
        assert (await host.call("bad-write", {"key": "a", "value": 1})).status == "ok"


# A new session for every call.


async def test_connections_and_workers_are_kept(tmp_path: Path) -> None:
    (tmp_path / "who.py").write_text("import os\ndef who() -> int: return os.getpid()\n")
    process = {"module": "who.py", "function": "who"}
    async with serve(lambda seen: reply_json({"n": 1})) as server:
        web = {"url": f"{server.url}/x", "private": True}
        config = {
            "tools": [
                {"name": "web", "kind": "http", "effects": ["read"], "config": web},
                {"name": "who", "kind": "process", "effects": ["read"], "config": process},
            ]
        }
        async with ToolHost.from_config(written(tmp_path, config)) as host:
            pids = {(await host.call("who")).output for _ in range(5)}
            for _ in range(5):
                assert (await host.call("web")).output == {"n": 1}
        assert (len(pids), server.connections, len(server.seen)) == (1, 1, 5)


# Standard error was thrown away.


async def test_standard_error_reaches_whoever_needs_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "talk.py").write_text(
        "import sys\ndef talk() -> int:\n    print('a word aside', file=sys.stderr)\n    return 1\n"
    )
    tools = [
        shell("bad", argv=["sh", "-c", "echo 'the reason why' >&2; exit 4"]),
        shell("good", argv=["sh", "-c", "echo 'by the way' >&2; echo fine"]),
        {
            "name": "talk",
            "kind": "process",
            "config": {"module": "talk.py", "function": "talk"},
        },
    ]
    told: list[str] = []
    async with ToolHost.from_config(written(tmp_path, {"tools": tools})) as host:
        host.on_event(lambda event: told.append(repr(event.data)))
        bad = await host.call("bad", {})
        assert bad.error.details == {"exit_code": 4, "stderr": "the reason why\n"}
        assert "the reason why" in bad.error.message
        assert (await host.call("good", {})).output == "fine\n"
        assert (await host.call("talk", {})).output == 1
        await until(lambda: "a word aside" in caplog.text + "".join(told))
    assert any("by the way" in text for text in told)


# A broken entry was skipped with exit code 0.


async def test_one_broken_entry_is_told_with_all_others_and_a_bad_exit_code(
    tmp_path: Path,
) -> None:
    tools = [
        shell("fine", argv=["true"]),
        shell("typo", argw=["true"]),
        {"name": "unknown", "kind": "shel", "input_schema": NOTHING},
        {"template": "gti"},
        shell("nowhere", PATH, argv=["cat"]),
    ]
    written(tmp_path, {"tools": tools})
    code, out = await ran(tmp_path, "tools", "check")
    assert code != 0
    assert "fine" in out
    for words in ("argv", "Did you mean shell?", "Did you mean git?", "goes nowhere"):
        assert words in out, out
    code, out = await ran(tmp_path, "call", "fine")
    assert code != 0
    assert "toolcrib.yaml:1" in out


async def test_a_broken_file_of_many_is_named(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    good = [shell("fine", argv=["true"])]
    (tmp_path / "more/a.yaml").write_text(json.dumps({"tools": good}))
    (tmp_path / "more/b.yaml").write_text("tools: [{name: broken, kind: [}]\n")
    written(tmp_path, {"tools": [{"load": "more"}]})
    code, out = await ran(tmp_path, "tools", "check")
    assert code != 0
    assert "b.yaml" in out
    assert "fine" in out
