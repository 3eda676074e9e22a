"""The host's own files (store, key, anchor) are out of reach for every tool that a host runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from needs import needs
from toolcrib import ConfigError, ToolHost
from toolcrib.cli.project import open_project

EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
EVERY = ["read", "list", "search", "stat", "write", "edit", "move", "delete"]
LAYOUTS: dict[str, dict[str, Any]] = {
    "state": {},
    "beside": {"store": "sqlite:trail.db"},
    "apart": {
        "store": "sqlite:db/trail.db",
        "audit": {"key": "keys/trail.key", "anchor": "anchors/heads"},
    },
}
OWN = {
    "state": [".toolcrib/trail.db", ".toolcrib/trail.db.key", ".toolcrib/trail.db-wal"],
    "beside": ["trail.db", "trail.db.key", "trail.db-wal", "trail.db-shm"],
    "apart": ["db/trail.db", "db/trail.db-wal", "keys/trail.key", "anchors/heads"],
}
Load = Callable[..., ToolHost]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Gives the host that the command line makes from a configuration in `tmp_path`."""
    needs("bwrap", "bubblewrap")
    for folder in ("keys", "anchors", "db", "work"):
        (tmp_path / folder).mkdir()

    def build(layout: str, tools: list[dict[str, Any]], **parts: Any) -> ToolHost:
        config = {"version": 1, "host": LAYOUTS[layout], "tools": tools, **parts}
        (tmp_path / "toolcrib.yaml").write_text(yaml.safe_dump(config))
        return open_project(str(tmp_path / "toolcrib.yaml")).host()

    return build


def tool(kind: str, argv: list[str], **config: Any) -> dict[str, Any]:
    return {"name": "t", "kind": kind, "input_schema": EMPTY, "config": {"argv": argv, **config}}


def contents(folder: Path, layout: str) -> list[bytes]:
    return [(folder / name).read_bytes() for name in OWN[layout]]


def secrets(folder: Path, layout: str) -> list[str]:
    """What nobody may see: parts of the key and of the store."""
    key = next(name for name in OWN[layout] if name.endswith("key"))
    return [(folder / key).read_text().strip()[:32], "SQLite format 3"]


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_shell_tool_cannot_read_them(load: Load, tmp_path: Path, layout: str) -> None:
    line = (
        "exec 2>&1; cat "
        + " ".join(OWN[layout])
        + "; grep -r . . --include='trail*' --include='heads'; :"
    )
    async with load(layout, [tool("shell", ["sh", "-c", line], sandbox="strict")]) as host:
        told = str((await host.call("t", {})).unwrap())
        assert "denied" in told or "No such file" in told
        assert not [secret for secret in secrets(tmp_path, layout) if secret in told]


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_the_broad_shell_cannot_either(load: Load, tmp_path: Path, layout: str) -> None:
    policy = {"programs": ["cat", "grep"], "root": "."}
    async with load(layout, [{"template": "shell", "policy": policy}]) as host:
        for arguments in (OWN[layout], ["-"]):
            call = {"program": "cat", "arguments": arguments}
            told = str((await host.call("shell", call)).unwrap())
            assert not [secret for secret in secrets(tmp_path, layout) if secret in told]
        found = await host.call("shell", {"program": "grep", "arguments": ["-r", "SQLite", "."]})
        assert found.unwrap()["stdout"] == ""


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_code_cannot_either(load: Load, tmp_path: Path, layout: str) -> None:
    policy = {"backend": "process", "python": "/usr/bin/python3", "show_folder": True}
    code = f"""
import os
told = []
for name in {OWN[layout]!r}:
    try:
        told.append(open(name, "rb").read().decode("latin-1"))
    except OSError as error:
        told.append(type(error).__name__)
told
"""
    async with load(layout, [{"template": "python_code", "policy": policy}]) as host:
        told = str((await host.call("python_code", {"code": code})).unwrap())
        assert "Error" in told
        assert not [secret for secret in secrets(tmp_path, layout) if secret in told]


async def test_a_command_that_writes_the_folder_cannot_touch_them(
    load: Load, tmp_path: Path
) -> None:
    lines = [
        "rm -rf .toolcrib",
        "mv .toolcrib gone",
        "echo forged > .toolcrib/trail.db.key",
        "mv work .toolcrib/work",
        "cp .toolcrib/trail.db.key stolen",
    ]
    line = (
        "exec 2>&1; "
        + "; ".join(f"{each} && echo done" for each in lines)
        + "; echo end > work/end"
    )
    box = {"all": {"type": "bubblewrap", "write": ["."]}}
    made = [tool("shell", ["sh", "-c", line], sandbox="all")]
    async with load("state", made, sandboxes=box) as host:
        await host.call("t", {})
        key = (tmp_path / ".toolcrib/trail.db.key").read_bytes()
        told = (await host.call("t", {})).unwrap()
        assert "done" not in told
        assert (tmp_path / "work/end").exists()
        assert (tmp_path / ".toolcrib/trail.db.key").read_bytes() == key
        assert len(await host.trail()) > 2
    assert not (tmp_path / "gone").exists()


async def test_the_broad_shell_that_writes_cannot_either(load: Load, tmp_path: Path) -> None:
    policy = {"programs": ["rm", "mv"], "write": True}
    async with load("state", [{"template": "shell", "policy": policy}]) as host:
        for arguments in (["rm", "-rf", ".toolcrib"], ["mv", ".toolcrib", "gone"]):
            call = {"program": arguments[0], "arguments": arguments[1:]}
            assert (await host.call("shell", call)).unwrap()["exit_code"] != 0
        assert (tmp_path / ".toolcrib/trail.db.key").exists()


@pytest.mark.parametrize("layout", ["beside", "apart"])
async def test_a_store_that_commands_could_change_is_refused(load: Load, layout: str) -> None:
    box = {"all": {"type": "bubblewrap", "write": ["."]}}
    made = [tool("shell", ["true"], sandbox="all")]
    with pytest.raises(ConfigError, match="where the host keeps its own"):
        load(layout, made, sandboxes=box)
    policy = {"programs": ["true"], "write": True}
    async with load(layout, [{"template": "shell", "policy": policy}]) as host:
        result = await host.call("shell", {"program": "true"})
        assert result.reason == "sandbox_unavailable"


def test_landlock_is_refused_where_it_would_show_them(load: Load) -> None:
    box = {"all": {"type": "landlock", "read": ["."]}}
    made = [tool("shell", ["true"], sandbox="all")]
    with pytest.raises(ConfigError, match="would see the host's own") as caught:
        load("state", made, sandboxes=box)
    assert caught.value.line is not None
    load("state", made, sandboxes={"all": {"type": "landlock", "read": ["work"]}})


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_files_cannot_reach_them(load: Load, tmp_path: Path, layout: str) -> None:
    open_to_all = {"allowed_actions": EVERY, "denied_paths": [], "allow_binary": True}
    policy = {**open_to_all, "allow_recursive_delete": True, "root": str(tmp_path)}
    async with load(layout, [{"template": "files", "policy": policy}]) as host:
        await host.call("files", {"action": "list"})
        before = contents(tmp_path, layout)[1]
        for path in (*OWN[layout], *{Path(name).parts[0] for name in OWN[layout]}):
            for action in ("read", "write", "edit", "move", "delete"):
                more = {"content": "x", "old": "a", "new": "b", "to": "mine", "overwrite": True}
                call = {"action": action, "path": path, "recursive": True, **more}
                result = await host.call("files", call)
                assert result.status == "denied", (path, action, result)
        (tmp_path / "link").symlink_to(OWN[layout][0])
        assert (await host.call("files", {"action": "read", "path": "link"})).status == "denied"
        given = {"action": "write", "path": "mine", "content": "forged"}
        assert (await host.call("files", given)).success
        for path in OWN[layout]:
            call = {"action": "move", "path": "mine", "to": path, "overwrite": True}
            assert (await host.call("files", call)).status == "denied"
        new = "trail.db-journal" if layout == "beside" else f"{Path(OWN[layout][0])}-journal"
        call = {"action": "write", "path": new, "content": "forged", "parents": True}
        assert (await host.call("files", call)).reason == "path_not_allowed"
        found = await host.call("files", {"action": "list", "depth": 5})
        names = {entry["path"] for entry in found.unwrap()["entries"]}
        assert not names & set(OWN[layout])
        searched = await host.call("files", {"action": "search", "pattern": "SQLite format"})
        assert searched.unwrap()["matches"] == []
        assert contents(tmp_path, layout)[1][:64] == before[:64]


async def test_files_knows_them_by_another_name_too(load: Load, tmp_path: Path) -> None:
    policy = {"allowed_actions": EVERY, "denied_paths": [], "root": str(tmp_path)}
    async with load("state", [{"template": "files", "policy": policy}]) as host:
        await host.call("files", {"action": "list"})
        (tmp_path / "copy").hardlink_to(tmp_path / ".toolcrib/trail.db.key")
        for action in ("read", "stat", "edit"):
            call = {"action": action, "path": "copy", "old": "a", "new": "b"}
            assert (await host.call("files", call)).reason == "path_not_allowed"
        key = (tmp_path / "copy").read_text()[:8]
        searched = await host.call("files", {"action": "search", "pattern": key})
        assert searched.unwrap()["matches"] == []
        listed = (await host.call("files", {"action": "list"})).unwrap()["entries"]
        assert "copy" not in {entry["path"] for entry in listed}


@pytest.mark.parametrize("root", [".toolcrib", ".toolcrib/inner/deep"])
async def test_a_root_in_the_hosts_own_folder(load: Load, tmp_path: Path, root: str) -> None:
    (tmp_path / root).mkdir(parents=True)
    policy = {"denied_paths": [], "root": str(tmp_path / root)}
    async with load("state", [{"template": "files", "policy": policy}]) as host:
        for action in ("list", "stat", "search"):
            result = await host.call("files", {"action": action, "pattern": "."})
            assert result.reason == "path_not_allowed"


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository in which a branch brings files where a host keeps its own."""
    needs("git", "git")
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-q", "-m", "First")
    git(tmp_path, "switch", "-q", "-c", "evil")
    for name in (".toolcrib/trail.db.key", "trail.db", "keys"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("forged\n")
        git(tmp_path, "add", "-f", name)
    git(tmp_path, "commit", "-q", "-m", "Evil")
    git(tmp_path, "switch", "-q", "main")
    git(tmp_path, "switch", "-q", "-c", "in-the-way")
    for name in ("keys", "db", "anchors"):
        (tmp_path / name).write_text("a file where a folder is\n")
        git(tmp_path, "add", "-f", name)
    git(tmp_path, "commit", "-q", "-m", "Evil too")
    git(tmp_path, "switch", "-q", "main")
    return tmp_path


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_git_leaves_them_alone(repository: Path, load: Load, layout: str) -> None:
    actions = ["add", "checkout", "create_branch", "diff", "status", "add_worktree"]
    policy = {"allowed_actions": actions, "managed_branch_prefix": "", "root": str(repository)}
    policy |= {"allow_worktree_dirty": True}
    (repository / ".gitignore").write_text("keys\n.toolcrib\n")
    async with load(layout, [{"template": "git", "policy": policy}]) as host:

        async def call(action: str, **more: Any) -> Any:
            return await host.call("git", {"action": action, **more})

        assert (await call("status")).success
        before = [*contents(repository, layout)[:1], *secrets(repository, layout)]
        for result in (
            await call("checkout", branch="evil" if layout != "apart" else "in-the-way"),
            await call("create_branch", branch="mine", ref="evil"),
            await call("add_worktree", branch="new", worktree=f"{Path(OWN[layout][0])}/tree"),
        ):
            assert result.status == "denied", result
        if layout != "state":  # what is ignored is not added anyway
            added = await call("add", paths=["."])
            assert added.reason == "path_not_allowed"
        git(repository, "add", "-f", OWN[layout][0])
        (repository / "a.txt").write_text("two\n")
        git(repository, "rm", "-q", "--cached", OWN[layout][0])
        git(repository, "add", "-f", "-N", OWN[layout][0])
        assert (await call("diff")).reason == "path_not_allowed"
        assert [*contents(repository, layout)[:1], *secrets(repository, layout)][1:] == before[1:]


async def test_a_host_without_a_configuration(tmp_path: Path, monkeypatch: Any) -> None:
    from toolcrib.tools.shell import TEMPLATE

    needs("bwrap", "bubblewrap")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".toolcrib").mkdir()
    (tmp_path / ".toolcrib/trail.db.key").write_text("secret of the command line")

    async with ToolHost(store="sqlite:own.db") as host:
        entry = host.entries.from_template(TEMPLATE, {"programs": ["cat"]})
        host.catalog.register(entry)
        names = ["own.db", "own.db.key", ".toolcrib/trail.db.key"]
        told = (await host.call("shell", {"program": "cat", "arguments": names})).unwrap()
        assert (told["exit_code"], told["stdout"]) == (1, "")
        assert (tmp_path / "own.db.key").exists()


def test_a_store_that_is_given_counts_at_once(tmp_path: Path) -> None:
    config = {"sandboxes": {"all": {"type": "landlock", "read": [str(tmp_path)]}}}
    with pytest.raises(ConfigError, match="would see the host's own"):
        ToolHost(config=config, store=f"sqlite:{tmp_path}/own.db").load()


async def test_a_store_of_a_plug_in(tmp_path: Path) -> None:
    from toolcrib.stores.sqlite import SqliteStore

    host = ToolHost(store="other:name")
    host.registrar.stores["other"] = lambda name: SqliteStore(tmp_path / name)
    async with host:
        assert tmp_path / "name.key" in host.entries.workshop(None).hidden


async def test_tokens_and_the_keys_of_doors_are_among_them(load: Load, tmp_path: Path) -> None:
    (tmp_path / "keys" / "door.key").write_text("PRIVATE KEY of the door")
    (tmp_path / "keys" / "door.pem").write_text("CERTIFICATE of the door")
    (tmp_path / "keys" / "tokens.json").write_text('{"tokens": {}}')
    serve = {
        "tokens_file": "keys/tokens.json",
        "http": {"tls": {"certificate": "keys/door.pem", "key": "keys/door.key"}},
    }
    look = tool("shell", ["cat", "keys/door.key", "keys/tokens.json", "keys/door.pem"])
    look["config"]["exit_codes"] = [0, 1]
    look["config"]["sandbox"] = "box"
    boxes = {"box": {"type": "bubblewrap", "read": ["."]}}
    host = load("state", [look], serve=serve, sandboxes=boxes)
    async with host:
        said = str((await host.call("t")).to_dict())
    assert "CERTIFICATE of the door" in said, "what is not secret can be read"
    assert "PRIVATE KEY" not in said
    assert '"tokens"' not in said
