"""`files` does what it says, within its limits."""

from __future__ import annotations

import base64
import hashlib
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ConfigError, ToolHost, ToolResult, tool
from toolcrib.tools.files import TEMPLATE, FilesPolicy

ALL = ["read", "list", "search", "stat", "write", "edit", "move", "delete"]
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
async def host_of(tmp_path: Path) -> AsyncIterator[Callable[..., Call]]:
    """Gives a way to call `files` under a policy, with `tmp_path/work` as its folder."""
    (tmp_path / "work").mkdir()
    hosts: list[ToolHost] = []

    def make(**knobs: Any) -> Call:
        policy = FilesPolicy(**knobs)
        function = TEMPLATE.build(policy, Bench(tmp_path / "work"))
        host = ToolHost([tool(name="files", policy=policy)(function)])
        hosts.append(host)

        async def call(action: str, path: str = ".", **more: Any) -> ToolResult:
            async with host.session(cwd=tmp_path / "work") as session:
                return await session.call("files", {"action": action, "path": path, **more})

        return call

    yield make
    for host in hosts:
        await host.stop()


@pytest.fixture
def files(host_of: Callable[..., Call]) -> Call:
    """Calls `files` with every action allowed."""
    return host_of(allowed_actions=ALL)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_read_gives_text_size_and_hash(files: Call, work: Path) -> None:
    (work / "a.txt").write_text("één\ntwee\n")
    got = (await files("read", "a.txt")).unwrap()
    data = "één\ntwee\n".encode()
    assert got == {
        "path": "a.txt",
        "text": "één\ntwee\n",
        "size": len(data),
        "sha256": sha(data),
        "truncated": False,
    }


async def test_read_gives_the_lines_asked_for(files: Call, work: Path) -> None:
    (work / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 10)))
    got = (await files("read", "a.txt", offset=3, limit=2)).unwrap()
    assert (got["text"], got["first_line"], got["truncated"]) == ("3\n4\n", 3, False)
    assert (await files("read", "a.txt", offset=9)).unwrap()["text"] == "9\n"
    assert (await files("read", "a.txt", offset=99)).unwrap()["text"] == ""
    assert (await files("read", "a.txt", offset=0)).reason == "invalid_arguments"


async def test_read_of_a_part_stops_at_the_limit_and_says_so(
    host_of: Callable[..., Call], work: Path
) -> None:
    (work / "a.txt").write_text("0123456789\n" * 100)
    files = host_of(max_read_bytes=25)
    whole = await files("read", "a.txt")
    assert (whole.status, whole.reason) == ("denied", "file_too_large")
    part = (await files("read", "a.txt", offset=2)).unwrap()
    assert (part["text"], part["truncated"]) == ("0123456789\n" * 2, True)


async def test_one_endless_line_is_cut_too(host_of: Callable[..., Call], work: Path) -> None:
    (work / "a.txt").write_text("x" * 500_000)
    part = (await host_of(max_read_bytes=100_000)("read", "a.txt", limit=1)).unwrap()
    assert len(part["text"]) <= 100_000
    assert part["truncated"]


async def test_a_read_passes_over_no_more_than_it_may(
    host_of: Callable[..., Call], work: Path
) -> None:
    (work / "a.txt").write_text("x\n" * 1000)
    part = (await host_of(max_search_bytes=100)("read", "a.txt", offset=900)).unwrap()
    assert (part["text"], part["truncated"]) == ("", True)


async def test_binary_needs_the_policy(host_of: Callable[..., Call], work: Path) -> None:
    (work / "b").write_bytes(b"\x00\xff")
    (work / "broken").write_bytes(b"\xff\xfe")
    strict, loose = host_of(), host_of(allow_binary=True)
    assert (await strict("read", "b")).reason == "binary_not_allowed"
    assert (await strict("read", "broken")).reason == "binary_not_allowed"
    assert (await strict("read", "b", encoding="base64")).reason == "binary_not_allowed"
    got = (await loose("read", "b", encoding="base64")).unwrap()
    assert base64.b64decode(got["text"]) == b"\x00\xff"
    assert (await loose("read", "broken")).reason == "wrong_encoding"
    assert (await loose("read", "broken", encoding="latin-1")).unwrap()["text"] == "ÿþ"


async def test_what_is_not_there_or_no_file(files: Call, work: Path) -> None:
    (work / "d").mkdir()
    missing = await files("read", "gone.txt")
    assert (missing.status, missing.reason) == ("error", "file_not_found")
    assert (await files("read", "d")).reason == "is_directory"
    assert (await files("read")).reason == "is_directory"
    (work / "f").write_text("x")
    assert (await files("read", "f/below")).reason == "file_not_found"
    assert (await files("list", "f")).reason == "not_a_directory"


async def test_list_goes_as_deep_as_asked(files: Call, work: Path) -> None:
    (work / "d/e").mkdir(parents=True)
    (work / "d/e/deep.txt").write_text("deep")
    (work / "top.txt").write_text("x")
    (work / "link").symlink_to("top.txt")
    got = (await files("list")).unwrap()
    assert got["entries"] == [
        {"path": "d", "type": "folder"},
        {"path": "link", "type": "link"},
        {"path": "top.txt", "type": "file", "size": 1},
    ]
    deep = (await files("list", "d", depth=5)).unwrap()["entries"]
    assert [entry["path"] for entry in deep] == ["d/e", "d/e/deep.txt"]
    named = (await files("list", depth=5, glob="**/*.txt")).unwrap()["entries"]
    assert [entry["path"] for entry in named] == ["d/e/deep.txt", "top.txt"]


async def test_list_keeps_to_its_limits(host_of: Callable[..., Call], work: Path) -> None:
    (work / "a/b/c").mkdir(parents=True)
    for n in range(20):
        (work / f"n{n:02}").touch()
    few = (await host_of(max_entries=5)("list")).unwrap()
    assert (len(few["entries"]), few["truncated"]) == (5, True)
    flat = (await host_of(max_depth=2)("list", depth=9, glob="a/**")).unwrap()
    assert [entry["path"] for entry in flat["entries"]] == ["a", "a/b"]


async def test_search_finds_lines(files: Call, work: Path) -> None:
    (work / "d").mkdir()
    (work / "a.py").write_text("import os\nprint(1)\r\n")
    (work / "d/b.py").write_text("Print = 2\n")
    (work / "c.bin").write_bytes(b"\0print")
    got = (await files("search", pattern="print")).unwrap()
    assert got == {
        "matches": [{"path": "a.py", "line": 2, "text": "print(1)"}],
        "skipped_files": 1,
        "truncated": False,
    }
    loose = (await files("search", pattern="PRINT", ignore_case=True)).unwrap()["matches"]
    assert [(m["path"], m["line"]) for m in loose] == [("a.py", 2), ("d/b.py", 1)]
    regex = (await files("search", pattern=r"^\w+ = \d$", regex=True)).unwrap()["matches"]
    assert [m["path"] for m in regex] == ["d/b.py"]
    one = (await files("search", "a.py", pattern="os")).unwrap()["matches"]
    assert [m["line"] for m in one] == [1]
    within = (await files("search", pattern="p", glob="d/*", ignore_case=True)).unwrap()
    assert [m["path"] for m in within["matches"]] == ["d/b.py"]


async def test_search_keeps_to_its_limits(host_of: Callable[..., Call], work: Path) -> None:
    (work / "a").write_text("x\n" * 50)
    (work / "b").write_text("x" * 500)
    got = (await host_of(max_entries=10)("search", pattern="x")).unwrap()
    assert (len(got["matches"]), got["truncated"]) == (10, True)
    large = (await host_of(max_read_bytes=200)("search", "b", pattern="x")).unwrap()
    assert (large["matches"], large["skipped_files"]) == ([], 1)
    little = (await host_of(max_search_bytes=120)("search", pattern="x")).unwrap()
    assert (len(little["matches"]), little["truncated"]) == (50, True)
    assert len((await host_of()("search", "b", pattern="x")).unwrap()["matches"][0]["text"]) == 300


@pytest.mark.parametrize(
    "more",
    [
        {"pattern": ""},
        {"pattern": "x" * 1001},
        {"pattern": "(?=x)", "regex": True},
        {"pattern": r"(a)\1", "regex": True},
        {"pattern": "a{1000}{1000}{1000}", "regex": True},
        {"pattern": "x", "glob": "*" * 1001},
        {"pattern": "\ud800"},
    ],
    ids=["empty", "long", "look-around", "back-reference", "huge", "glob", "surrogate"],
)
async def test_patterns_that_could_stall_are_refused(files: Call, more: dict[str, Any]) -> None:
    got = await files("search", **more)
    assert got.status != "ok"
    assert got.reason in ("invalid_pattern", "invalid_arguments")


async def test_a_pattern_that_stalls_others_runs_in_a_moment(files: Call, work: Path) -> None:
    (work / "a").write_text("a" * 50_000 + "!")
    got = (await files("search", pattern="^(a+)+$", regex=True)).unwrap()
    assert got["matches"] == []


async def test_stat_says_what_is_there(files: Call, work: Path) -> None:
    (work / "a").write_text("abc")
    (work / "a").chmod(0o640)
    got = (await files("stat", "a")).unwrap()
    assert got.pop("modified").endswith("+00:00")
    assert got == {"path": "a", "type": "file", "size": 3, "mode": "0640", "sha256": sha(b"abc")}
    assert (await files("stat")).unwrap()["type"] == "folder"


async def test_write_makes_a_file_and_replaces_only_when_told(files: Call, work: Path) -> None:
    made = (await files("write", "a.txt", content="één")).unwrap()
    assert made == {
        "path": "a.txt",
        "size": 5,
        "sha256": sha("één".encode()),
        "created": True,
    }
    again = await files("write", "a.txt", content="two")
    assert (again.status, again.reason) == ("denied", "file_exists")
    assert (work / "a.txt").read_text() == "één"
    assert not (await files("write", "a.txt", content="two", overwrite=True)).unwrap()["created"]
    assert (work / "a.txt").read_text() == "two"
    assert names(work) == ["a.txt"]


async def test_write_keeps_the_mode_and_obeys_the_hash(files: Call, work: Path) -> None:
    (work / "a.sh").write_text("one")
    (work / "a.sh").chmod(0o751)
    stale = await files("write", "a.sh", content="two", if_hash=sha(b"other"))
    assert (stale.status, stale.reason) == ("error", "file_changed")
    assert (await files("write", "b", content="x", if_hash=sha(b""))).reason == "file_not_found"
    assert (await files("write", "a.sh", content="two", if_hash="sha256:" + sha(b"one"))).success
    assert (work / "a.sh").read_text() == "two"
    assert stat.S_IMODE((work / "a.sh").stat().st_mode) == 0o751


async def test_write_makes_folders_only_when_told(files: Call, work: Path) -> None:
    assert (await files("write", "x/y/z.txt", content="z")).reason == "file_not_found"
    assert not (work / "x").exists()
    assert (await files("write", "x/y/z.txt", content="z", parents=True)).success
    assert (work / "x/y/z.txt").read_text() == "z"
    (work / "f").touch()
    assert (await files("write", "f/g/h", content="", parents=True)).reason == "not_a_directory"


async def test_write_has_a_limit_and_a_kind(host_of: Callable[..., Call], work: Path) -> None:
    files = host_of(allowed_actions=ALL, max_write_bytes=10)
    assert (await files("write", "a", content="x" * 11)).reason == "file_too_large"
    assert (await files("write", "a", content="x" * 1000)).reason == "file_too_large"
    assert (await files("write", "a", content="é" * 6)).reason == "file_too_large"
    assert (await files("write", "a", content="a\0b")).reason == "binary_not_allowed"
    assert (await files("write", "a", content="AAE=", encoding="base64")).reason == (
        "binary_not_allowed"
    )
    assert (await files("write", "a", content="€", encoding="latin-1")).reason == "wrong_encoding"
    assert names(work) == []
    loose = host_of(allowed_actions=ALL, allow_binary=True)
    assert (await loose("write", "a", content="AAE=", encoding="base64")).success
    assert (work / "a").read_bytes() == b"\0\1"
    assert (await loose("write", "b", content="A!", encoding="base64")).reason == "wrong_encoding"


async def test_edit_replaces_what_is_unique(files: Call, work: Path) -> None:
    (work / "a").write_bytes(b"one two\r\ntwo\n")
    (work / "a").chmod(0o600)
    twice = await files("edit", "a", old="two", new="2")
    assert (twice.status, twice.reason) == ("error", "edit_not_unique")
    assert twice.error is not None
    assert twice.error.details["found"] == 2
    assert (await files("edit", "a", old="six", new="2")).reason == "edit_not_found"
    assert (await files("edit", "a", old="", new="2")).reason == "edit_not_found"
    assert (work / "a").read_bytes() == b"one two\r\ntwo\n"
    assert (await files("edit", "a", old="one two", new="1")).unwrap()["replaced"] == 1
    assert (work / "a").read_bytes() == b"1\r\ntwo\n"
    assert stat.S_IMODE((work / "a").stat().st_mode) == 0o600
    (work / "b").write_text("xx")
    assert (await files("edit", "b", old="x", new="y", count=2)).unwrap()["replaced"] == 2
    assert (work / "b").read_text() == "yy"


async def test_edit_has_limits(host_of: Callable[..., Call], work: Path) -> None:
    files = host_of(allowed_actions=ALL, max_write_bytes=10, max_read_bytes=20)
    (work / "a").write_text("aaaa")
    assert (await files("edit", "a", old="a", new="bbbb", count=4)).reason == "file_too_large"
    (work / "b").write_text("b" * 21)
    assert (await files("edit", "b", old="b", new="c", count=21)).reason == "file_too_large"
    (work / "c").write_bytes(b"a\0")
    assert (await files("edit", "c", old="a", new="b")).reason == "binary_not_allowed"
    assert (await files("edit", "d", old="a", new="b")).reason == "file_not_found"
    assert (work / "a").read_text() == "aaaa"


async def test_move_gives_another_name(files: Call, work: Path) -> None:
    (work / "a").write_text("a")
    (work / "b").write_text("b")
    (work / "d").mkdir()
    (work / "d/x").write_text("x")
    taken = await files("move", "a", to="b")
    assert (taken.status, taken.reason) == ("denied", "file_exists")
    assert (await files("move", "a", to="d", overwrite=True)).reason == "is_directory"
    assert (await files("move", "a", to="new/c")).reason == "file_not_found"
    assert (await files("move", "a", to="new/c", parents=True)).unwrap() == {
        "path": "a",
        "to": "new/c",
    }
    assert (await files("move", "new/c", to="b", overwrite=True)).success
    assert (work / "b").read_text() == "a"
    assert (await files("move", "d", to="e")).success
    assert (work / "e/x").read_text() == "x"
    assert (await files("move", "e", to="e/inner")).reason == "move_failed"
    assert (await files("move", "gone", to="x")).reason == "file_not_found"
    assert (await files("move", "b")).reason == "is_directory"


async def test_delete_takes_files_and_empty_folders(
    files: Call, host_of: Callable[..., Call], work: Path
) -> None:
    (work / "d/e").mkdir(parents=True)
    (work / "d/e/f").touch()
    full = await files("delete", "d")
    assert (full.status, full.reason) == ("error", "directory_not_empty")
    assert (await files("delete", "d", recursive=True)).reason == "action_not_allowed"
    assert (await files("delete", "d/e/f")).success
    assert (await files("delete", "d/e")).success
    assert (await files("delete", "gone")).reason == "file_not_found"
    (work / "d/g/h").mkdir(parents=True)
    (work / "d/link").symlink_to(work.parent)
    (work / "d/g/i").touch()
    loose = host_of(allowed_actions=ALL, allow_recursive_delete=True)
    assert (await loose("delete", "d", recursive=True)).unwrap() == {"path": "d", "deleted": 5}
    assert names(work) == []


async def test_whole_folders_have_limits(host_of: Callable[..., Call], work: Path) -> None:
    (work / "d/e/f").mkdir(parents=True)
    knobs: dict[str, Any] = {"allowed_actions": ALL, "allow_recursive_delete": True}
    for few in (host_of(max_entries=1, **knobs), host_of(max_depth=1, **knobs)):
        assert (await few("delete", "d", recursive=True)).reason == "too_many_files"
        assert (await few("move", "d", to="m")).reason == "too_many_files"
    assert (work / "d/e/f").is_dir()
    assert (await host_of(max_depth=3, max_entries=2, **knobs)("move", "d", to="m")).success


@pytest.mark.parametrize("action", [a for a in ALL if a not in ("read", "stat")])
async def test_only_allowed_actions_run(
    host_of: Callable[..., Call], work: Path, action: str
) -> None:
    (work / "a").write_text("a")
    files = host_of(allowed_actions=["read", "stat"])
    got = await files(action, "a", to="b", content="c", old="a", new="b", pattern="a")
    assert (got.status, got.reason) == ("denied", "action_not_allowed")
    assert names(work) == ["a"]
    assert (await files("read", "a")).success


async def test_a_profile_narrows_what_the_tool_may_do(tmp_path: Path) -> None:
    policy = FilesPolicy(allowed_actions=ALL)
    function = TEMPLATE.build(policy, Bench(tmp_path))
    config = {
        "profiles": {
            "reader": {
                "rules": [{"allow": "files"}],
                "policies": {"files": {"allowed_actions": ["read"], "max_read_bytes": 1}},
            }
        }
    }
    (tmp_path / "a").write_text("abc")
    narrowed = ToolHost([tool(name="files", policy=policy)(function)], config=config)
    async with narrowed as host, host.session(cwd=tmp_path, profile="reader") as session:
        write = {"action": "write", "path": "b", "content": "x"}
        assert (await session.call("files", write)).reason == "action_not_allowed"
        small = await session.call("files", {"action": "read", "path": "a"})
        assert small.reason == "file_too_large"


def test_the_policy_says_what_calls_can_do() -> None:
    assert FilesPolicy().allowed_effects() == {"read"}
    assert FilesPolicy(allowed_actions=["write"]).allowed_effects() == {"write"}
    everything = FilesPolicy(allowed_actions=ALL).allowed_effects()
    assert everything == {"read", "write", "destructive"}


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"allowed_actions": ["raed"]}, "Did you mean read"),
        ({"max_entries": 0}, "at least 1"),
        ({"denied_paths": ["/etc/**"]}, "relative to the root"),
        ({"allowed_path": ["x"]}, "Did you mean allowed_paths"),
    ],
    ids=["action", "limit", "glob", "knob"],
)
def test_a_wrong_policy_says_what_is_wrong(knobs: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        FilesPolicy(**knobs)
