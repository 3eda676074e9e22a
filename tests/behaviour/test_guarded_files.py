"""What rules and tools come from may be read by tools, and changed by none of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from needs import needs
from toolcrib import ConfigError, ToolHost

EVERY = ["read", "list", "search", "stat", "write", "edit", "move", "delete"]
RULES = "profiles:\n  p:\n    rules:\n      - allow: '*'\n"
OTHERS = "tools:\n  - {name: other, kind: shell, config: {argv: ['true']}}\n"
MODULE = "from toolcrib import tool\n\n\n@tool\ndef own() -> int:\n    return 1\n"
NAMES = ["toolcrib.yaml", "parts/rules.yml", "more/others.yaml", "code/own.py", "profiles/q.yml"]
OPEN = {"allowed_actions": EVERY, "denied_paths": [], "allow_recursive_delete": True}
WRITES = {"programs": ["sh"], "write": True, "timeout": "20s"}
Load = Callable[..., ToolHost]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Gives a host whose rules and tools come from several files below `tmp_path`."""
    for name in NAMES[1:]:
        (tmp_path / name).parent.mkdir()
    (tmp_path / "parts/rules.yml").write_text(RULES)
    (tmp_path / "more/others.yaml").write_text(OTHERS)
    (tmp_path / "code/own.py").write_text(MODULE)
    (tmp_path / "profiles/q.yml").write_text("rules:\n  - allow: other\n")

    def build(*tools: dict[str, Any], **more: Any) -> ToolHost:
        loaded = [{"load": "more/others.yaml"}, {"python": "code/own.py"}]
        config = {"version": 1, "include": ["parts/rules.yml"], "host": {"profile": "p"}}
        config |= {"tools": [*loaded, *tools], **more}
        (tmp_path / "toolcrib.yaml").write_text(yaml.safe_dump(config))
        return ToolHost.from_config(tmp_path / "toolcrib.yaml")

    return build


def contents(folder: Path) -> list[str]:
    return [(folder / name).read_text() for name in NAMES]


async def test_files_reads_them_and_changes_none(load: Load, tmp_path: Path) -> None:
    async with load({"template": "files", "policy": OPEN}) as host:
        before = contents(tmp_path)
        (tmp_path / "mine").write_text("mine")
        for name, text in zip(NAMES, before, strict=True):
            read = await host.call("files", {"action": "read", "path": name})
            assert read.unwrap()["text"] == text
            more = {"content": "x", "old": text[:4], "new": "b", "to": "gone", "overwrite": True}
            calls = [{"action": action, "path": name, **more} for action in EVERY[4:]]
            calls.append({"action": "move", "path": "mine", "to": name, "overwrite": True})
            if "/" in name:
                above = {"path": name.split("/")[0], "to": "gone", "recursive": True}
                calls += [{"action": "move", **above}, {"action": "delete", **above}]
            for call in calls:
                result = await host.call("files", call)
                assert (result.status, result.reason) == ("denied", "path_not_allowed"), call
        for path in ("profiles/new.yml", "profiles/deep/new.yml"):
            call = {"action": "write", "path": path, "content": RULES, "parents": True}
            assert (await host.call("files", call)).reason == "path_not_allowed"
        assert contents(tmp_path) == before
        beside = {"action": "write", "path": "parts/text", "content": "x"}
        assert (await host.call("files", beside)).success


async def test_files_leaves_the_links_to_them_too(load: Load, tmp_path: Path) -> None:
    (tmp_path / "parts").rename(tmp_path / "real")
    (tmp_path / "second").symlink_to("real")
    (tmp_path / "parts").symlink_to("second")
    async with load({"template": "files", "policy": OPEN}) as host:
        for path in ("parts", "second", "real/rules.yml", "parts/rules.yml"):
            for action in ("delete", "move"):
                call = {"action": action, "path": path, "to": "gone"}
                assert (await host.call("files", call)).reason == "path_not_allowed"


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("change", ["changes", "deletes", "brings", "replaces"])
async def test_git_enters_no_commit_with_others(load: Load, tmp_path: Path, change: str) -> None:
    needs("git", "git")
    actions = ["status", "checkout", "create_branch", "diff", "add", "add_worktree"]
    host = load({"template": "git", "policy": {"allowed_actions": actions}})
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "First")
    git(tmp_path, "switch", "-q", "-c", "harmless")
    (tmp_path / "text").write_text("text")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "Harmless")
    git(tmp_path, "switch", "-q", "-c", "evil")
    match change:
        case "changes":
            (tmp_path / "toolcrib.yaml").write_text("version: 1\n")
        case "deletes":
            (tmp_path / "parts/rules.yml").unlink()
        case "brings":
            (tmp_path / "profiles/new.yml").write_text("rules:\n  - allow: '*'\n")
        case _:
            git(tmp_path, "rm", "-q", "-r", "code")
            (tmp_path / "code").symlink_to("elsewhere")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "Evil")
    git(tmp_path, "switch", "-q", "main")
    async with host:
        before = contents(tmp_path)
        for call in (
            {"action": "checkout", "branch": "evil"},
            {"action": "create_branch", "branch": "new", "ref": "evil"},
            {"action": "add_worktree", "branch": "new", "worktree": "profiles/tree"},
        ):
            result = await host.call("git", call)
            assert (result.status, result.reason) == ("denied", "path_not_allowed"), call
        assert contents(tmp_path) == before
        assert (await host.call("git", {"action": "checkout", "branch": "harmless"})).success
        (tmp_path / "toolcrib.yaml").write_text(f"{before[0]}# by a person\n")
        added = await host.call("git", {"action": "add", "paths": ["toolcrib.yaml"]})
        assert added.unwrap()["staged"] == ["toolcrib.yaml"]


async def test_commands_that_write_the_folder_change_none(load: Load, tmp_path: Path) -> None:
    needs("bwrap", "bubblewrap")
    async with load({"template": "shell", "policy": WRITES}) as host:
        before = contents(tmp_path)
        for name in NAMES:
            above = name.split("/")[0]
            for line in (
                f"echo evil >> {name}",
                f"rm -f {name}",
                f"mv {name} gone",
                f"echo evil > new && mv -f new {name}",
                f"ln -sf new {name}",
                f"mv {above} gone" if above != name else "mv ../toolcrib.yaml gone",
                "echo evil > profiles/new.yml",
            ):
                call = {"program": "sh", "arguments": ["-c", line]}
                assert (await host.call("shell", call)).unwrap()["exit_code"] != 0, line
        call = {"program": "sh", "arguments": ["-c", "cat toolcrib.yaml > parts/copy"]}
        assert (await host.call("shell", call)).unwrap()["exit_code"] == 0
        assert contents(tmp_path) == before
        assert (tmp_path / "parts/copy").read_text() == before[0]


async def test_commands_make_no_folder_of_profiles(load: Load, tmp_path: Path) -> None:
    needs("bwrap", "bubblewrap")
    (tmp_path / "profiles/q.yml").unlink()
    (tmp_path / "profiles").rmdir()
    async with load({"template": "shell", "policy": WRITES}) as host:
        line = "mkdir -p profiles; echo evil > profiles/new.yml"
        call = {"program": "sh", "arguments": ["-c", line]}
        assert (await host.call("shell", call)).unwrap()["exit_code"] != 0
    assert not (tmp_path / "profiles/new.yml").exists()


async def test_a_link_to_one_that_commands_could_replace(load: Load, tmp_path: Path) -> None:
    needs("bwrap", "bubblewrap")
    (tmp_path / "parts").rename(tmp_path / "real")
    (tmp_path / "parts").symlink_to("real")
    async with load({"template": "shell", "policy": WRITES}) as host:
        result = await host.call("shell", {"program": "sh", "arguments": ["-c", "true"]})
        assert result.reason == "sandbox_unavailable"


@pytest.mark.parametrize(
    ("type", "write"), [("landlock", "parts"), ("landlock", "profiles"), ("bubblewrap", "profiles")]
)
def test_settings_that_would_let_commands(load: Load, type: str, write: str) -> None:
    with pytest.raises(ConfigError, match="rules or tools come from") as caught:
        load(sandboxes={"box": {"type": type, "write": [write]}})
    assert caught.value.line is not None


async def test_the_store_of_a_provider_is_out_of_reach(load: Load, tmp_path: Path) -> None:
    needs("bwrap", "bubblewrap")
    tools = (
        {"template": "files", "policy": OPEN},
        {"template": "shell", "policy": {**WRITES, "write": False}},
        {"template": "shell", "name": "writer", "policy": WRITES},
    )
    memo = {"type": "storage", "backend": "sqlite", "path": "data/memo.db", "scope": "principal"}
    async with load(*tools, providers={"memo": memo}) as host:
        assert (await host.call("memo-write", {"key": "k", "value": "of one"})).success
        assert (tmp_path / "data/memo.db").exists()
        for name in ("memo.db", "memo.db-wal", "memo.db-journal"):
            for action in ("read", "write"):
                call = {"action": action, "path": f"data/{name}", "content": "x"}
                if action == "write" or (tmp_path / "data" / name).exists():
                    assert (await host.call("files", call)).reason == "path_not_allowed"
        call = {"program": "sh", "arguments": ["-c", "cat data/*; :"]}
        assert "of one" not in (await host.call("shell", call)).unwrap()["stdout"]
        assert (await host.call("writer", call)).reason == "sandbox_unavailable"
