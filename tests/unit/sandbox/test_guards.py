"""What a command may write is kept apart from what rules and tools come from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import ToolFailure
from toolcrib.sandbox.bubblewrap import BubblewrapSandbox
from toolcrib.sandbox.guards import check_unwritten, guard
from toolcrib.sandbox.settings import Settings
from toolcrib.sandbox.view import View

Make = Callable[..., Any]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A file below a folder that commands may write."""
    file = tmp_path / "deep/folder/rules.yml"
    file.parent.mkdir(parents=True)
    file.write_text("rules")
    return file


def view(tmp_path: Path, *guarded: Path, own: tuple[Path, ...] = ()) -> list[tuple[str, str]]:
    seen = guard(View.of((), (str(tmp_path),)), guarded, own, "box")
    return [(place.removeprefix(str(tmp_path)), mode) for _, place, mode in seen.paths]


def test_folders_above_are_pinned(tmp_path: Path, rules: Path) -> None:
    folders = [("", "write"), ("/deep", "write"), ("/deep/folder", "write")]
    assert view(tmp_path, rules) == [*folders, ("/deep/folder/rules.yml", "read")]
    assert view(tmp_path, rules, rules.parent)[2:] == [
        ("/deep/folder", "read"),
        ("/deep/folder/rules.yml", "read"),
    ]


def test_what_is_hidden_is_not_shown_for_that(tmp_path: Path, rules: Path) -> None:
    assert view(tmp_path, rules, own=(rules.parent,)) == [("", "write")]


def test_what_is_only_read_needs_nothing(tmp_path: Path, rules: Path) -> None:
    seen = View.of((str(tmp_path),), ())
    assert guard(seen, (rules,), (), "box") is seen


def test_a_path_inside_one_is_refused(tmp_path: Path, rules: Path) -> None:
    with pytest.raises(ToolFailure, match="holds what rules"):
        view(rules.parent, tmp_path / "deep")


def test_one_that_is_gone_is_refused_and_a_folder_is_made(tmp_path: Path, rules: Path) -> None:
    rules.unlink()
    with pytest.raises(ToolFailure, match="is gone"):
        view(tmp_path, rules)
    assert view(tmp_path, tmp_path / "profiles") == [("", "write"), ("/profiles", "read")]
    assert (tmp_path / "profiles").is_dir()


def test_landlock_refuses_a_command(tmp_path: Path, rules: Path) -> None:
    check_unwritten([str(tmp_path / "other")], [rules])
    for shown in (tmp_path, rules.parent, rules):
        with pytest.raises(PermissionError, match="could be changed"):
            check_unwritten([str(shown)], [rules])


async def test_landlock_asks_for_every_command(make: Make, tmp_path: Path, rules: Path) -> None:
    box = make("landlock", write=["."])
    box._guarded = lambda: (rules,)
    with pytest.raises(PermissionError, match="could be changed"):
        await box.run(["/bin/true"], cwd=str(tmp_path), env={})


async def _ready() -> None:
    pass


async def test_a_container_mounts_them_read_only(make: Make, tmp_path: Path, rules: Path) -> None:
    engine = tmp_path / "engine"
    engine.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    engine.chmod(0o755)
    box = make("container", image="any", engine=str(engine), write=["."])
    box._ready, box._guarded = _ready, lambda: (rules,)
    ended = await box.run(["true"], cwd=str(tmp_path), env={})
    words = ended.stdout.decode().split("\n")
    assert f"type=bind,source={rules},target={rules},readonly" in words
    above = f"type=bind,source={rules.parent},target={rules.parent}"
    assert words.index(above) < words.index(f"type=bind,source={rules},target={rules},readonly")


@pytest.mark.parametrize("way", ["read", "write"])
async def test_a_path_for_one_command_is_remembered(make: Make, tmp_path: Path, way: str) -> None:
    make("bubblewrap")
    box = BubblewrapSandbox("box", Settings(folder=str(tmp_path)))
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    given: dict[str, Any] = {way: [str(tmp_path / "mine")], "cwd": "/tmp", "env": {}}
    words = ["/bin/cat", str(tmp_path / "mine/file")]
    assert (await box.run(words, **given)).stdout == b"mine"
    (tmp_path / "mine").rename(tmp_path / "gone")
    (tmp_path / "mine").symlink_to(tmp_path / "other")
    with pytest.raises(ToolFailure, match="leads elsewhere") as caught:
        await box.run(words, **given)
    assert caught.value.reason == "sandbox_unavailable"
    more = {**given, way: [str(tmp_path / "other")]}
    words = ["/bin/cat", str(tmp_path / "other/file")]
    assert (await box.run(words, **more)).stdout == b"other"
