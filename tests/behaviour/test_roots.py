"""A tool works where its policy's path led when the tool was made, whoever puts a link there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from needs import needs
from toolcrib import Denial, ToolHost
from toolcrib.host.roots import Roots

WRITER = {"programs": ["sh"], "root": "work", "write": True, "timeout": "20s"}
TOOLS: list[dict[str, Any]] = [
    {"template": "shell", "name": "writer", "policy": WRITER},
    {"template": "shell", "policy": {**WRITER, "root": "work/sub"}},
    {"template": "files", "policy": {"root": "work/notes", "allowed_actions": ["read", "write"]}},
    {"template": "git", "policy": {"root": "work/repo"}},
]
Load = Callable[[], ToolHost]


def repository(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text(text)
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "First"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Gives a host with tools whose folders lie where one of them may write."""
    needs("bwrap", "bubblewrap")
    needs("git", "git")
    for folder in ("work/notes", "work/sub", "outside"):
        (tmp_path / folder).mkdir(parents=True)
    repository(tmp_path / "work/repo", "inside\n")
    repository(tmp_path / "outside/repo", "outside\n")
    (tmp_path / "outside/key").write_text("outside")
    (tmp_path / "toolcrib.yaml").write_text(yaml.safe_dump({"version": 1, "tools": TOOLS}))
    return lambda: ToolHost.from_config(tmp_path / "toolcrib.yaml")


async def swap(host: ToolHost, line: str) -> None:
    done = await host.call("writer", {"program": "sh", "arguments": ["-c", line]})
    assert done.unwrap()["exit_code"] == 0, done


async def test_a_folder_that_became_a_link_is_not_entered(load: Load, tmp_path: Path) -> None:
    out = tmp_path / "outside"
    async with load() as host:
        await swap(
            host,
            f"rm -rf notes sub repo; ln -s {out} notes; ln -s {out} sub; ln -s {out}/repo repo",
        )
        assert (tmp_path / "work/notes/key").exists()
        for name, arguments in (
            ("files", {"action": "read", "path": "key"}),
            ("files", {"action": "write", "path": "planted", "content": "x"}),
            ("git", {"action": "show", "ref": "HEAD:a.txt"}),
            ("shell", {"program": "sh", "arguments": ["-c", "echo x > planted; cat key"]}),
        ):
            result = await host.call(name, arguments)
            assert (result.status, result.reason) == ("denied", "path_outside_root"), result
            assert "outside\n" not in str(result.output)
    assert not (out / "planted").exists()


async def test_a_link_that_is_there_from_the_beginning_is_meant(load: Load, tmp_path: Path) -> None:
    out = tmp_path / "outside"
    (tmp_path / "work/notes").rmdir()
    (tmp_path / "work/notes").symlink_to(out)
    async with load() as host:
        read = {"action": "read", "path": "key"}
        assert (await host.call("files", read)).unwrap()["text"] == "outside"
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere/key").write_text("elsewhere")
        await swap(host, f"rm notes; ln -s {tmp_path}/elsewhere notes")
        assert (await host.call("files", read)).unwrap()["text"] == "outside"


async def test_a_folder_above_that_became_a_link(load: Load, tmp_path: Path) -> None:
    (tmp_path / "work/deep/notes").mkdir(parents=True)
    (tmp_path / "outside/notes").mkdir()
    (tmp_path / "outside/notes/key").write_text("outside")
    text = (tmp_path / "toolcrib.yaml").read_text().replace("work/notes", "work/deep/notes")
    (tmp_path / "toolcrib.yaml").write_text(text)
    async with load() as host:
        await swap(host, f"rm -r deep; ln -s {tmp_path}/outside deep")
        result = await host.call("files", {"action": "read", "path": "key"})
        assert result.reason == "path_outside_root"


async def test_a_folder_that_comes_later_is_no_link(load: Load, tmp_path: Path) -> None:
    (tmp_path / "work/notes").rmdir()
    async with load() as host:
        read = {"action": "read", "path": "key"}
        assert (await host.call("files", read)).reason == "tool_unavailable"
        await swap(host, f"ln -s {tmp_path}/outside notes")
        assert (await host.call("files", read)).reason == "path_outside_root"
        await swap(host, "rm notes; mkdir notes; echo inside > notes/key")
        assert (await host.call("files", read)).unwrap()["text"] == "inside\n"


def test_only_so_many_paths_are_remembered(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("toolcrib.host.roots._MOST", 2)
    roots = Roots()
    for name in "abc":
        (tmp_path / name).mkdir()
        assert roots(tmp_path / name) == tmp_path / name
    for name in "ac":
        (tmp_path / name).rmdir()
        (tmp_path / name).symlink_to(tmp_path / "b")
    assert roots(tmp_path / "a") == tmp_path / "b"
    with pytest.raises(Denial):
        roots(tmp_path / "c")
