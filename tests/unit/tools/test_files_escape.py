"""Nothing gets `files` out of its folder, or to what its globs keep away."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ToolContext, ToolHost, ToolResult, tool
from toolcrib.errors import Denial, ToolFailure
from toolcrib.tools.files import TEMPLATE, FilesPolicy, beneath

ALL = ["read", "list", "search", "stat", "write", "edit", "move", "delete"]
SECRET = "the secret outside"
Call = Callable[..., Awaitable[ToolResult]]


class Bench:
    """A workshop that has a folder and no sandbox."""

    hidden: tuple[Path, ...] = ()
    guarded: tuple[Path, ...] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def root(self, path: str | Path) -> Path:
        return (self.folder / path).resolve()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The tool's folder; beside it lie a secret and a folder whose name begins the same."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work_evil").mkdir()
    (tmp_path / "work_evil/secret.txt").write_text(SECRET)
    (tmp_path / "secret.txt").write_text(SECRET)
    return tmp_path / "work"


@pytest.fixture
async def host_of(work: Path) -> AsyncIterator[Callable[..., Call]]:
    hosts: list[ToolHost] = []

    def make(**knobs: Any) -> Call:
        policy = FilesPolicy(**{"allowed_actions": ALL, **knobs})
        function = TEMPLATE.build(policy, Bench(work))
        host = ToolHost([tool(name="files", policy=policy)(function)])
        hosts.append(host)

        async def call(action: str, path: str = ".", **more: Any) -> ToolResult:
            async with host.session(cwd=work) as session:
                return await session.call("files", {"action": action, "path": path, **more})

        return call

    yield make
    for host in hosts:
        await host.stop()


@pytest.fixture
def files(host_of: Callable[..., Call]) -> Call:
    return host_of()


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


async def every(files: Call, path: str) -> list[ToolResult]:
    """What each action answers to a path; `move` from it and to it."""
    more: dict[str, Any] = {"content": "x", "old": "the", "new": "x", "pattern": "secret"}
    results = [await files(a, path, to="mine", overwrite=True, **more) for a in ALL]
    return [*results, await files("move", "own.txt", to=path, overwrite=True)]


def outside_untouched(work: Path) -> bool:
    top = work.parent
    return (
        (top / "secret.txt").read_text() == SECRET
        and (top / "work_evil/secret.txt").read_text() == SECRET
        and names(top) == ["secret.txt", "work", "work_evil"]
    )


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "../work_evil/secret.txt",
        "d/../../secret.txt",
        "./../secret.txt",
        "..",
        "/etc/passwd",
        "//etc/passwd",
        "/",
        "d/../../work/../secret.txt",
    ],
)
async def test_words_that_lead_outside(files: Call, work: Path, path: str) -> None:
    (work / "d").mkdir()
    (work / "own.txt").write_text("own")
    results = await every(files, path)
    assert {(r.status, r.reason) for r in results} == {("denied", "path_outside_root")}
    assert outside_untouched(work)


@pytest.mark.parametrize(
    "path", ["a\0b", "a\nb", "a\rb", "\x1b[2J", "a\x7f"], ids=["nul", "lf", "cr", "escape", "del"]
)
async def test_control_characters_are_no_path(files: Call, work: Path, path: str) -> None:
    (work / "own.txt").write_text("own")
    results = await every(files, path)
    assert {(r.status, r.reason) for r in results} == {("denied", "invalid_path")}


async def test_a_path_longer_than_paths_are(files: Call, work: Path) -> None:
    assert (await files("read", "x" * 300)).reason == "invalid_path"
    assert (await files("read", "x/" * 3000 + "y")).reason == "invalid_path"


async def test_names_that_look_like_options_or_patterns_are_names(files: Call, work: Path) -> None:
    for name in ("-rf", "--help", "*", "~", "$HOME", "`id`", ";id", "%2e%2e", "..x", "a\\..\\b"):
        assert (await files("write", name, content=name)).success, name
        assert (await files("read", name)).unwrap()["text"] == name
        assert (await files("delete", name)).success
    assert names(work) == []


@pytest.mark.parametrize(
    "target",
    ["../secret.txt", "/etc/passwd", "d/../../secret.txt", "/proc/self/root/etc/passwd"],
    ids=["up", "absolute", "through", "proc"],
)
async def test_links_that_lead_outside(files: Call, work: Path, target: str) -> None:
    (work / "d").mkdir()
    (work / "link").symlink_to(target)
    for action in ("read", "stat", "search"):
        got = await files(action, "link", pattern="e")
        assert (got.status, got.reason) == ("denied", "path_outside_root"), action
    for action in ("write", "edit"):
        got = await files(action, "link", content="x", old="the", new="x", overwrite=True)
        assert (got.status, got.reason) == ("denied", "path_not_allowed"), action
    assert (work / "link").is_symlink()
    assert (await files("search", pattern="secret")).unwrap()["matches"] == []
    assert (await files("delete", "link")).success
    assert outside_untouched(work)


async def test_folders_that_are_links_outside(files: Call, work: Path) -> None:
    (work / "own.txt").write_text("own")
    (work / "out").symlink_to("..")
    (work / "abs").symlink_to(work.parent)
    for link in ("out", "abs"):
        results = await every(files, f"{link}/secret.txt")
        assert {(r.status, r.reason) for r in results} == {("denied", "path_outside_root")}
        assert (await files("list", link)).reason == "path_outside_root"
        new = await files("write", f"{link}/new/x", content="x", parents=True)
        assert new.reason == "path_outside_root"
        assert (await files("move", "own.txt", to=f"{link}/m")).reason == "path_outside_root"
    listed = (await files("list", depth=9)).unwrap()["entries"]
    assert [e["path"] for e in listed] == ["abs", "out", "own.txt"]
    assert outside_untouched(work)


async def test_links_within_the_folder_are_followed_for_reading_unless_refused(
    host_of: Callable[..., Call], work: Path
) -> None:
    (work / "d").mkdir()
    (work / "d/a").write_text("a")
    (work / "link").symlink_to("d/a")
    (work / "folder").symlink_to("d")
    loose, strict = host_of(), host_of(follow_symlinks_within_root=False)
    assert (await loose("read", "link")).unwrap()["path"] == "d/a"
    assert (await loose("read", "folder/a")).unwrap()["path"] == "d/a"
    assert (await loose("write", "folder/b", content="b")).unwrap()["path"] == "d/b"
    for path in ("link", "folder/a"):
        got = await strict("read", path)
        assert (got.status, got.reason) == ("denied", "path_not_allowed")


async def test_links_do_not_get_around_the_globs(files: Call, work: Path) -> None:
    (work / ".git").mkdir()
    (work / ".git/config").write_text("own")
    (work / ".env").write_text("TOKEN=1")
    (work / "g").symlink_to(".git")
    (work / "e.txt").symlink_to(".env")
    (work / "own.txt").write_text("own")
    for path in ("g/config", ".git/config", ".env", "d/../.env", ".git/new"):
        results = await every(files, path)
        assert {(r.status, r.reason) for r in results} == {("denied", "path_not_allowed")}, path
    for action in ("read", "stat", "search"):
        assert (await files(action, "e.txt", pattern="T")).reason == "path_not_allowed"
    for path in (".git", "g"):
        assert (await files("list", path)).reason == "path_not_allowed"
    assert (await files("move", ".git", to="x")).reason == "path_not_allowed"
    deep = await files("write", "g/new/deep/x", content="x", parents=True)
    assert deep.reason == "path_not_allowed"
    assert names(work / ".git") == ["config"]
    assert (await files("search", pattern="own")).unwrap()["matches"] == [
        {"path": "own.txt", "line": 1, "text": "own"}
    ]
    listed = (await files("list", depth=9)).unwrap()["entries"]
    assert [e["path"] for e in listed] == ["e.txt", "g", "own.txt"]
    assert (work / ".git/config").read_text() == "own"


async def test_a_folder_is_not_taken_along_with_what_is_denied(
    host_of: Callable[..., Call], work: Path
) -> None:
    (work / "conf/keys").mkdir(parents=True)
    (work / "conf/keys/k").write_text("k")
    files = host_of(denied_paths=["conf/keys/**", "new/a/**"], allow_recursive_delete=True)
    assert (await files("move", "conf", to="c2")).reason == "path_not_allowed"
    assert (await files("delete", "conf", recursive=True)).reason == "path_not_allowed"
    assert (work / "conf/keys/k").exists()
    (work / "plain/a").mkdir(parents=True)
    assert (await files("move", "plain", to="new")).reason == "path_not_allowed"
    assert (await files("move", "plain", to="other")).success


async def test_allowed_paths_are_the_only_ones(host_of: Callable[..., Call], work: Path) -> None:
    for name in ("src/a.py", "src/b.txt", "other/c.py", "src/sub/d.py", "e.py"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x")
    files = host_of(allowed_paths=["src/**/*.py"])
    assert (await files("read", "src/a.py")).success
    assert (await files("read", "src/sub/d.py")).success
    for path in ("src/b.txt", "other/c.py", "e.py"):
        assert (await files("read", path)).reason == "path_not_allowed", path
        assert (await files("write", path, content="y")).reason == "path_not_allowed"
    seen = (await files("list", depth=9)).unwrap()["entries"]
    assert [e["path"] for e in seen] == ["src", "src/a.py", "src/sub", "src/sub/d.py"]
    assert (await files("list", "other")).reason == "path_not_allowed"
    assert (await files("write", "other/new/x.py", content="", parents=True)).reason == (
        "path_not_allowed"
    )
    assert not (work / "other/new").exists()


async def test_pipes_sockets_and_devices_are_not_opened(files: Call, work: Path) -> None:
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(work / "sock"))
    (work / "zero").symlink_to("/dev/zero")
    for path in ("pipe", "sock"):
        for action in ("read", "write", "edit", "search"):
            got = await files(
                action, path, content="x", old="a", new="b", pattern="x", overwrite=True
            )
            assert (got.status, got.reason) == ("denied", "not_a_file"), (path, action)
    assert (await files("read", "zero")).reason == "path_outside_root"
    assert (await files("stat", "pipe")).unwrap()["type"] == "other"
    assert (await files("search", pattern="x")).unwrap()["matches"] == []


async def test_a_name_that_is_no_text_is_left_out(files: Call, work: Path) -> None:
    (work / os.fsdecode(b"b\xff")).touch()
    (work / "a").touch()
    listed = (await files("list")).unwrap()["entries"]
    assert [e["path"] for e in listed] == ["a"]
    assert (await files("read", "b\udcff")).status != "ok"


async def test_swapping_links_leaks_nothing(work: Path) -> None:
    """A folder that is a moment later a link outside: never read, never written through."""
    (work / "real").mkdir()
    (work / "real/secret.txt").write_text("inside")
    (work / "swap").symlink_to("real")
    over = threading.Event()

    def swap() -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            (work / "next").symlink_to(".." if turn % 2 else "real")
            (work / "next").rename(work / "swap")

    policy = FilesPolicy(allowed_actions=ALL)
    function = TEMPLATE.build(policy, Bench(work))
    thread = threading.Thread(target=swap)
    thread.start()
    inside = 0
    refused: list[str] = []
    try:
        while (inside < 50 or len(refused) < 50) and inside + len(refused) < 20_000:
            ctx = ToolContext(cwd=str(work), policy=policy)
            try:
                got = function(ctx, action="read", path="swap/secret.txt")
                assert got["text"] == "inside"
                function(ctx, action="write", path="swap/made", content="x", overwrite=True)
                inside += 1
            except (Denial, ToolFailure) as error:
                refused.append(error.reason)
    finally:
        over.set()
        thread.join()
    assert inside >= 50
    assert len(refused) >= 50
    assert set(refused) <= {"path_outside_root", "file_busy", "file_not_found"}
    assert outside_untouched(work)


async def test_nothing_changes_after_the_call_is_over(work: Path) -> None:
    policy = FilesPolicy(allowed_actions=ALL)
    function = TEMPLATE.build(policy, Bench(work))
    (work / "a").write_text("a")
    ctx = ToolContext(cwd=str(work), policy=policy)
    ctx.cancelled = True
    changes: list[dict[str, Any]] = [
        {"action": "write", "path": "b", "content": "x"},
        {"action": "write", "path": "n/b", "content": "x", "parents": True},
        {"action": "edit", "path": "a", "old": "a", "new": "b"},
        {"action": "move", "path": "a", "to": "b"},
        {"action": "delete", "path": "a"},
    ]
    for change in changes:
        with pytest.raises(ToolFailure) as caught:
            function(ctx, **change)
        assert caught.value.reason == "cancelled"
    assert names(work) == ["a"]
    assert (work / "a").read_text() == "a"


async def test_no_descriptor_is_left_open(files: Call, work: Path) -> None:
    (work / "d").mkdir()
    (work / "own.txt").write_text("own")
    await every(files, "own.txt")
    before = len(names(Path("/proc/self/fd")))
    for path in ("own.txt", "gone", "../x", "d", "d/new"):
        await every(files, path)
        await files("list", depth=9)
    assert len(names(Path("/proc/self/fd"))) == before


async def test_a_kernel_without_openat2_gives_no_files(
    files: Call, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "a").write_text("a")
    monkeypatch.setattr(beneath, "_SYS_OPENAT2", 100_000)  # no such call: ENOSYS
    got = await files("read", "a")
    assert (got.status, got.reason) == ("error", "tool_unavailable")
    assert got.error is not None
    assert "openat2" in got.error.message


async def test_a_folder_that_is_not_there(host_of: Callable[..., Call]) -> None:
    got = await host_of(root="nowhere")("list")
    assert (got.status, got.reason) == ("error", "tool_unavailable")


async def test_a_root_below_the_session_folder(host_of: Callable[..., Call], work: Path) -> None:
    (work / "sub").mkdir()
    (work / "top").write_text("x")
    files = host_of(root="sub")
    assert (await files("write", "a", content="a")).unwrap()["path"] == "a"
    assert (work / "sub/a").exists()
    assert (await files("read", "../top")).reason == "path_outside_root"


def test_a_root_is_not_opened_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    for folder in ("link", "link/inner"):
        with pytest.raises(Denial) as caught:
            beneath.Root(str(tmp_path / folder))
        assert caught.value.reason == "path_outside_root"
    beneath.Root(str(tmp_path / "real/inner")).close()
