"""What lies inside a shown path and is kept from commands all the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.sandbox import Completed
from toolcrib.errors import ConfigError, ToolFailure
from toolcrib.sandbox import confine, landlock
from toolcrib.sandbox.landlock import LandlockSandbox
from toolcrib.sandbox.settings import Settings

Make = Callable[..., Any]
SECRET = "not for commands"
TRIES = (
    "rm -rf {0}",
    "mv {0} gone",
    "mv other {0}",
    "echo forged > {0}",
    "echo forged > {0}/trail.db",
    "rm -rf {0}; mkdir {0}",
    "ln -s other {0}",
    "cp -r {0} copy",
    "ln {0}/trail.db copy",
    "chmod 777 {0}",
    "umount {0}",
)


async def sh(box: Any, folder: Path, line: str, **more: Any) -> Completed:
    return await box.run(["/bin/sh", "-c", line], cwd=str(folder), env={}, **more)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The host's own folder, with something in it and something beside it."""
    folder = tmp_path / ".toolcrib"
    folder.mkdir()
    (folder / "trail.db").write_text(SECRET)
    (tmp_path / "other").write_text("open")
    return folder


def untouched(folder: Path) -> bool:
    whole = [path.name for path in folder.iterdir()] == ["trail.db"]
    return whole and (folder / "trail.db").read_text() == SECRET


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def texts(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.iterdir() if path.is_file()]


async def test_a_folder_looks_empty(make: Make, state: Path, tmp_path: Path) -> None:
    box = make("bubblewrap", state, read=["."])
    ended = await sh(box, tmp_path, "ls -A .toolcrib; cat other .toolcrib/trail.db")
    assert ended.stdout == b"open"
    assert SECRET not in str(ended)


async def test_nothing_can_be_put_into_it(make: Make, state: Path, tmp_path: Path) -> None:
    box = make("bubblewrap", state, write=["."])
    ended = await sh(box, tmp_path, "chmod 777 .toolcrib; echo x > .toolcrib/x")
    assert (ended.exit_code != 0, b"Read-only" in ended.stderr) == (True, True)


async def test_a_file_cannot_be_read(make: Make, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET)
    (tmp_path / "other").write_text("open")
    box = make("bubblewrap", tmp_path / "key", read=["."])
    ended = await sh(box, tmp_path, "cat other key; echo x > key")
    assert ended.stdout == b"open"
    assert (tmp_path / "key").read_text() == SECRET


@pytest.mark.parametrize("line", TRIES)
async def test_a_folder_holds_in_one_that_is_written(
    make: Make, state: Path, tmp_path: Path, line: str
) -> None:
    box = make("bubblewrap", state, write=["."])
    (tmp_path / "list").write_text("")
    ended = await sh(box, tmp_path, f"{line.format('.toolcrib')}; grep -r '{SECRET}' . > list")
    assert (tmp_path / "list").read_text() == "", ended
    assert untouched(state)


@pytest.mark.parametrize("line", TRIES)
async def test_a_hidden_file_holds_likewise(make: Make, tmp_path: Path, line: str) -> None:
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "other").write_text("open")
    inode = (tmp_path / "secret.txt").stat().st_ino
    box = make("bubblewrap", write=["."], hide=["secret.txt"])
    await sh(box, tmp_path, line.format("secret.txt"))
    assert (tmp_path / "secret.txt").read_text() == SECRET
    assert (tmp_path / "secret.txt").stat().st_ino == inode
    assert texts(tmp_path).count(SECRET) == 1


@pytest.mark.parametrize(
    "line", ["mv a gone", "mv a/b gone", "mv a/b a/c", "rm -rf a", "cd a && mv b c"]
)
async def test_the_folders_on_the_way_stay_where_they_are(
    make: Make, tmp_path: Path, line: str
) -> None:
    own = tmp_path / "a/b/.toolcrib"
    own.mkdir(parents=True)
    (own / "trail.db").write_text(SECRET)
    box = make("bubblewrap", own, write=["."])
    ended = await sh(box, tmp_path, f"echo mine > a/b/new && {line}")
    assert ended.exit_code != 0
    assert untouched(own)


async def test_the_rest_can_be_written(make: Make, state: Path, tmp_path: Path) -> None:
    box = make("bubblewrap", state, write=["."])
    ended = await sh(box, tmp_path, "mkdir a && echo x > a/b && mv a c && rm other")
    assert ended.exit_code == 0
    assert (tmp_path / "c/b").read_text() == "x\n"


async def test_what_comes_later_is_hidden_too(make: Make, tmp_path: Path) -> None:
    own = tmp_path / ".toolcrib"
    box = make("bubblewrap", own, read=["."])
    assert (await sh(box, tmp_path, "ls -A")).stdout == b""
    own.mkdir()
    (own / "trail.db").write_text(SECRET)
    assert SECRET not in str(await sh(box, tmp_path, "cat .toolcrib/*; ls -lR"))


async def test_what_is_not_there_cannot_be_planted(make: Make, tmp_path: Path) -> None:
    own = tmp_path / ".toolcrib"
    box = make("bubblewrap", own, write=["."])
    ended = await sh(box, tmp_path, "mkdir -p .toolcrib; echo forged > .toolcrib/trail.db")
    assert ended.exit_code != 0
    assert not (own / "trail.db").exists()
    assert own.stat().st_mode & 0o777 == 0o700


async def test_both_names_of_a_linked_path_are_covered(make: Make, tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / ".toolcrib").mkdir(parents=True)
    (real / ".toolcrib/trail.db").write_text(SECRET)
    (tmp_path / "link").symlink_to("real")
    box = make("bubblewrap", tmp_path / "link/.toolcrib", read=["link"])
    ended = await sh(box, real, f"cat {real}/.toolcrib/* {tmp_path}/link/.toolcrib/*; ls {real}/..")
    assert SECRET not in str(ended)
    assert b"link" in ended.stdout


async def test_a_path_within_another_decides(make: Make, tmp_path: Path) -> None:
    own = tmp_path / "sub/.toolcrib"
    own.mkdir(parents=True)
    (own / "trail.db").write_text(SECRET)
    box = make("bubblewrap", own, read=["."], write=["sub"])
    ended = await sh(box, tmp_path, "echo x > sub/new; rm -rf sub/.toolcrib; cat sub/.toolcrib/*")
    assert SECRET not in str(ended)
    assert (tmp_path / "sub/new").exists()
    assert untouched(own)


async def test_a_read_only_folder_in_one_that_is_written(make: Make, tmp_path: Path) -> None:
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep/trail.db").write_text(SECRET)
    own = (tmp_path / "keep/trail.db", tmp_path / "keep/trail.db-journal")
    box = make("bubblewrap", *own, read=["keep"])
    line = "echo x > new; cat keep/trail.db; mv keep gone; echo forged > keep/trail.db-journal"
    assert SECRET not in str(await sh(box, tmp_path, line, write=["."]))
    assert (tmp_path / "new").exists()
    assert untouched(tmp_path / "keep")


async def test_a_link_on_the_way_must_not_be_replaceable(make: Make, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work/.toolcrib").symlink_to(tmp_path / "elsewhere")
    box = make("bubblewrap", tmp_path / "work/.toolcrib", write=["work"])
    with pytest.raises(ToolFailure, match="is a link on the way") as caught:
        await sh(box, tmp_path / "work", "true")
    assert caught.value.reason == "sandbox_unavailable"


@pytest.mark.parametrize("name", ["trail.db", "trail.db-journal"])
async def test_own_files_must_not_lie_where_commands_write(
    make: Make, tmp_path: Path, name: str
) -> None:
    (tmp_path / "trail.db").write_text(SECRET)
    own = tmp_path / name
    with pytest.raises(ConfigError, match="where the host keeps its own") as caught:
        make("bubblewrap", own, write=["."])
    assert (caught.value.key, ".toolcrib" in str(caught.value.cure)) == ("write", True)
    box = make("bubblewrap", own, read=["."])
    with pytest.raises(ToolFailure, match="commands could change"):
        await sh(box, tmp_path, "true", write=["."])


@pytest.mark.parametrize("type", ["bubblewrap", "landlock", "container"])
@pytest.mark.parametrize("path", [".toolcrib", ".toolcrib/inner"])
def test_the_hosts_own_cannot_be_shown(make: Make, state: Path, type: str, path: str) -> None:
    (state / "inner").mkdir()
    more = {"image": "any"} if type == "container" else {}
    with pytest.raises(ConfigError, match="is hidden from commands") as caught:
        make(type, state, read=[path], **more)
    assert caught.value.key == "read"


async def test_a_command_cannot_ask_for_it(make: Make, state: Path, tmp_path: Path) -> None:
    box = make("bubblewrap", state, read=["."])
    with pytest.raises(ToolFailure, match="is kept from commands"):
        await sh(box, tmp_path, "cat .toolcrib/trail.db", read=[".toolcrib"])


def test_landlock_cannot_leave_something_out(make: Make, state: Path) -> None:
    with pytest.raises(ConfigError, match="would see the host's own") as caught:
        make("landlock", state, read=["."])
    assert (caught.value.key, "bubblewrap" in str(caught.value.cure)) == ("read", True)


@pytest.mark.skipif(confine.abi() < landlock.NEEDED, reason="needs Landlock of Linux 6.12")
async def test_landlock_refuses_a_command_likewise(state: Path, tmp_path: Path) -> None:
    box = LandlockSandbox("box", Settings(folder=str(tmp_path)), lambda: (state,))
    with pytest.raises(PermissionError, match="of the host's own would be seen"):
        await sh(box, tmp_path, "cat .toolcrib/trail.db", read=["."])


@pytest.mark.parametrize("type", ["landlock", "subprocess"])
def test_only_some_can_hide(make: Make, tmp_path: Path, type: str) -> None:
    (tmp_path / "secret.txt").write_text(SECRET)
    with pytest.raises(ConfigError, match="there is no setting hide"):
        make(type, hide=["secret.txt"])


def test_hide_names_what_is_there(make: Make) -> None:
    with pytest.raises(ConfigError, match="hide names nothing, which does not exist") as caught:
        make("bubblewrap", read=["."], hide=["nothing"])
    assert caught.value.key == "hide"


async def test_a_hidden_file_that_went_away(make: Make, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text(SECRET)
    box = make("bubblewrap", write=["."], hide=["secret.txt"])
    (tmp_path / "secret.txt").unlink()
    with pytest.raises(ToolFailure, match="commands could make it"):
        await sh(box, tmp_path, "true")


async def test_a_container_covers_likewise(make: Make, state: Path, tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    engine.chmod(0o755)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/secret.txt").write_text(SECRET)
    box = make(
        "container", state, image="any", engine=str(engine), write=["."], hide=["deep/secret.txt"]
    )
    box._ready = _ready
    words = (await sh(box, tmp_path, "true")).stdout.decode().split("\n")
    (folder,) = [word for word in words if word.endswith(f",target={state},readonly")]
    with os.scandir(folder.split("source=")[1].split(",")[0]) as found:
        assert list(found) == []
    hidden = f"type=bind,source=/dev/null,target={tmp_path}/deep/secret.txt,readonly"
    pinned = f"type=bind,source={tmp_path}/deep,target={tmp_path}/deep"
    assert words.index(pinned) < words.index(hidden)


async def _ready() -> None:
    pass


async def test_nothing_is_left_on_the_host(make: Make, state: Path, tmp_path: Path) -> None:
    box = make("bubblewrap", state, write=["."])
    await sh(box, tmp_path, "true")
    assert texts(tmp_path) == ["open"]
    assert untouched(state)
    assert str(tmp_path) not in mounts()
