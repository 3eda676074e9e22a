"""`git` does what it says, within its limits."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from needs import needs
from toolcrib import ConfigError, ToolHost, ToolResult, tool
from toolcrib.core.protocols import Sandbox
from toolcrib.sandbox.subprocess import factory
from toolcrib.tools.git import TEMPLATE, GitPolicy

READING = [
    "status",
    "diff",
    "log",
    "show",
    "blame",
    "rev_parse",
    "diff_since",
    "branch",
    "worktree",
]
WRITING = [
    "create_branch",
    "checkout",
    "add",
    "commit",
    "push",
    "add_worktree",
    "remove_worktree",
]
Call = Callable[..., Awaitable[ToolResult]]


class Bench:
    """A workshop with the ordinary process as its only sandbox."""

    hidden: tuple[Path, ...] = ()
    guarded: tuple[Path, ...] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, path: str) -> Path:
        return self.folder / path

    def root(self, path: str | Path) -> Path:
        return (self.folder / path).resolve()

    def sandbox(self, name: str | None = None) -> Sandbox:
        if name != "subprocess":
            raise ConfigError(f"there is no sandbox {name!r}")
        return factory("subprocess", {}, self)


def run(folder: Path, *arguments: str, when: str = "2020-01-02T12:00:00Z") -> str:
    """Plain git, for setting things up."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Ann",
        "GIT_AUTHOR_EMAIL": "ann@example.org",
        "GIT_COMMITTER_NAME": "Ann",
        "GIT_COMMITTER_EMAIL": "ann@example.org",
        "GIT_AUTHOR_DATE": when,
        "GIT_COMMITTER_DATE": when,
    }
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with two commits on main, a week apart."""
    needs("git", "git")
    folder = tmp_path / "repo"
    folder.mkdir()
    run(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    run(folder, "add", ".")
    run(folder, "commit", "-q", "-m", "First", when="2020-01-01T12:00:00Z")
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "ü ß.txt").write_text("ü\n")
    run(folder, "add", ".")
    run(folder, "commit", "-q", "-m", "Second\n\nWith a body.", when="2020-01-08T12:00:00Z")
    return folder


@pytest.fixture
async def host_of(repo: Path) -> AsyncIterator[Callable[..., Call]]:
    """Gives a way to call `git` under a policy, on the repository."""
    hosts: list[ToolHost] = []

    def make(**knobs: Any) -> Call:
        policy = GitPolicy(**knobs)
        function = TEMPLATE.build(policy, Bench(repo))
        host = ToolHost([tool(name="git", policy=policy)(function)])
        hosts.append(host)

        async def call(action: str, **more: Any) -> ToolResult:
            async with host.session(cwd=repo) as session:
                return await session.call("git", {"action": action, **more})

        return call

    yield make
    for host in hosts:
        await host.stop()


@pytest.fixture
def reader(host_of: Callable[..., Call]) -> Call:
    return host_of()


@pytest.fixture
def bot(host_of: Callable[..., Call]) -> Call:
    """May do everything, on branches that begin with bot/."""
    return host_of(allowed_actions=READING + WRITING, managed_branch_prefix="bot/", allow_push=True)


async def test_status(reader: Call, repo: Path) -> None:
    head = run(repo, "rev-parse", "HEAD")
    got = (await reader("status")).unwrap()
    assert got == {
        "branch": "main",
        "commit": head,
        "clean": True,
        "files": [],
        "truncated": False,
    }
    (repo / "a.txt").write_text("changed\n")
    run(repo, "mv", "ü ß.txt", "renamed to.txt")
    (repo / "new one.txt").touch()
    got = (await reader("status")).unwrap()
    assert not got["clean"]
    assert got["files"] == [
        {"path": "a.txt", "state": "changed", "index": ".", "worktree": "M"},
        {
            "path": "renamed to.txt",
            "state": "changed",
            "from": "ü ß.txt",
            "index": "R",
            "worktree": ".",
        },
        {"path": "new one.txt", "state": "untracked"},
    ]


async def test_diff(reader: Call, repo: Path) -> None:
    (repo / "a.txt").write_text("one\n2\n")
    (repo / "b.txt").write_text("b\n")
    run(repo, "add", "b.txt")
    got = (await reader("diff")).unwrap()
    assert got["files"] == ["a.txt"]
    assert "-two\n+2\n" in got["diff"]
    assert (await reader("diff", staged=True)).unwrap()["files"] == ["b.txt"]
    assert (await reader("diff", ref="HEAD~1..HEAD")).unwrap()["files"] == ["a.txt", "ü ß.txt"]
    only = (await reader("diff", ref="HEAD~1", paths=["ü ß.txt"])).unwrap()
    assert only["files"] == ["ü ß.txt"]


async def test_log_show_blame_and_rev_parse(reader: Call, repo: Path) -> None:
    head, first = run(repo, "rev-parse", "HEAD"), run(repo, "rev-parse", "HEAD~1")
    log = (await reader("log")).unwrap()
    assert log["truncated"] is False
    assert log["commits"][0] == {
        "commit": head,
        "author": "Ann",
        "email": "ann@example.org",
        "date": "2020-01-08T12:00:00+00:00",
        "subject": "Second",
        "body": "With a body.",
    }
    assert [c["commit"] for c in log["commits"]] == [head, first]
    assert len((await reader("log", max_count=1)).unwrap()["commits"]) == 1
    assert [c["commit"] for c in (await reader("log", ref="HEAD~1")).unwrap()["commits"]] == [first]
    shown = (await reader("show", ref="HEAD")).unwrap()["text"]
    assert "Second" in shown
    assert "+two" in shown
    assert (await reader("show", ref="HEAD~1:a.txt")).unwrap()["text"] == "one\n"
    blamed = (await reader("blame", paths=["a.txt"], first_line=2)).unwrap()
    assert blamed["commit"] == head
    assert blamed["text"].count("\n") == 1
    assert "Ann" in blamed["text"]
    parsed = (await reader("rev_parse", ref="HEAD~1")).unwrap()
    assert parsed == {"ref": "HEAD~1", "object": first}


async def test_diff_since(reader: Call, repo: Path) -> None:
    first = run(repo, "rev-parse", "HEAD~1")
    got = (await reader("diff_since", since="2020-01-05")).unwrap()
    assert got["base"] == first
    assert got["files"] == ["a.txt", "ü ß.txt"]
    assert "+two" in got["diff"]
    none = await reader("diff_since", since="2019-01-01T00:00:00Z")
    assert (none.status, none.reason) == ("error", "no_commit_before_since")
    for old in ("100 years ago", "999999 years", "1900-01-01", "0001-01-01T00:00+14:00"):
        assert (await reader("diff_since", since=old)).reason == "no_commit_before_since", old
    now = (await reader("diff_since", since="2020-01-08T12:00:00Z")).unwrap()
    assert now["base"] == now["commit"]
    before = (await reader("diff_since", since="2020-01-08T12:59:59+01:00")).unwrap()
    assert before["base"] == first


async def test_branches_and_worktrees_are_listed(reader: Call, repo: Path) -> None:
    run(repo, "branch", "side", "HEAD~1")
    run(repo, "worktree", "add", "-q", "trees/side", "side")
    run(repo, "worktree", "add", "-q", str(repo.parent / "outside"), "-b", "out")
    head, first = run(repo, "rev-parse", "HEAD"), run(repo, "rev-parse", "HEAD~1")
    got = (await reader("branch")).unwrap()
    assert got["current"] == "main"
    assert got["branches"] == [
        {"name": "main", "commit": head},
        {"name": "out", "commit": head},
        {"name": "side", "commit": first},
    ]
    trees = (await reader("worktree")).unwrap()["worktrees"]
    assert trees == [
        {"path": ".", "commit": head, "branch": "main"},
        {"path": "trees/side", "commit": first, "branch": "side"},
    ]
    assert (await reader("status", worktree="trees/side")).unwrap()["branch"] == "side"


async def test_from_main_to_a_pushed_commit(bot: Call, repo: Path) -> None:
    """The whole way of a bot: it starts on a protected branch with a change in its hands."""
    run(repo.parent, "init", "-q", "--bare", "origin.git")
    run(repo, "remote", "add", "origin", str(repo.parent / "origin.git"))
    (repo / "a.txt").write_text("fixed\n")
    (repo / "new.txt").write_text("new\n")
    assert (await bot("create_branch", branch="bot/fix")).unwrap()["branch"] == "bot/fix"
    assert (await bot("add", paths=["a.txt"])).unwrap() == {"staged": ["a.txt"]}
    made = (await bot("commit", message="Fix it\n\n# not a comment\n")).unwrap()
    assert made["commit"] == run(repo, "rev-parse", "refs/heads/bot/fix")
    assert (made["branch"], made["files"]) == ("bot/fix", ["a.txt"])
    written = run(repo, "log", "-1", "--format=%an|%ae|%cn|%B")
    assert written == ("Toolcrib|agent@toolcrib.invalid|Toolcrib|Fix it\n\n# not a comment")
    assert run(repo, "status", "--porcelain") == "?? new.txt"
    pushed = (await bot("push")).unwrap()
    assert (pushed["remote"], pushed["branch"]) == ("origin", "bot/fix")
    there = run(repo.parent / "origin.git", "for-each-ref", "--format=%(refname) %(objectname)")
    assert there == f"refs/heads/bot/fix {made['commit']}"
    assert (await bot("checkout", branch="main")).unwrap()["branch"] == "main"
    assert (repo / "a.txt").read_text() == "one\ntwo\n"


async def test_deletions_are_added_too(bot: Call, repo: Path) -> None:
    (repo / "a.txt").unlink()
    (repo / "z.txt").touch()
    assert (await bot("add", paths=["."])).unwrap()["staged"] == ["a.txt", "z.txt"]


async def test_submodules_are_not_added(bot: Call, repo: Path) -> None:
    (repo / "inner").mkdir()
    run(repo / "inner", "init", "-q")
    run(repo / "inner", "commit", "-q", "--allow-empty", "-m", "x")
    (repo / "inner/f").touch()
    assert (await bot("add", paths=["inner"])).reason == "nothing_to_add"
    run(repo, "add", "inner")
    run(repo, "commit", "-q", "-m", "inner")
    run(repo / "inner", "commit", "-q", "--allow-empty", "-m", "y")
    (repo / "new/dir").mkdir(parents=True)
    (repo / "new/dir/f").touch()
    assert (await bot("add", paths=["."])).unwrap()["staged"] == ["new/dir/f"]


async def test_branches_that_are_not_ours_are_not_written(bot: Call, repo: Path) -> None:
    (repo / "a.txt").write_text("x")
    run(repo, "add", ".")
    assert (await bot("push")).reason == "protected_branch"
    on_main = await bot("commit", message="x")
    assert (on_main.status, on_main.reason) == ("denied", "protected_branch")
    run(repo, "switch", "-q", "-c", "side")
    assert (await bot("commit", message="x")).reason == "branch_prefix_required"
    run(repo, "switch", "-q", "--detach")
    assert (await bot("commit", message="x")).reason == "branch_prefix_required"
    assert (await bot("push")).reason == "branch_resolution_failed"
    for name, reason in (
        ("fix", "branch_prefix_required"),
        ("bot/", "invalid_branch"),
        ("main", "protected_branch"),
        ("botany", "branch_prefix_required"),
    ):
        assert (await bot("create_branch", branch=name)).reason == reason, name
        assert (await bot("push", branch=name)).reason == reason, name
    assert run(repo, "rev-list", "--all", "--count") == "2"


async def test_a_branch_that_is_another_name_for_main(bot: Call, repo: Path) -> None:
    run(repo, "symbolic-ref", "refs/heads/bot/x", "refs/heads/main")
    run(repo, "symbolic-ref", "HEAD", "refs/heads/bot/x")
    (repo / "a.txt").write_text("x")
    run(repo, "add", ".")
    assert (await bot("commit", message="x")).reason == "protected_branch"
    assert run(repo, "rev-list", "--count", "main") == "2"


async def test_without_a_prefix_any_branch_but_the_protected(
    host_of: Callable[..., Call], repo: Path
) -> None:
    free = host_of(allowed_actions=WRITING, protected_branches=["main", "release/*"])
    assert (await free("create_branch", branch="release/1")).reason == "protected_branch"
    assert (await free("create_branch", branch="any")).success
    (repo / "a.txt").write_text("x")
    assert (await free("add", paths=["a.txt"])).success
    assert (await free("commit", message="x")).success
    assert (await free("create_branch", branch="any")).reason == "branch_exists"


async def test_changes_are_not_lost_by_switching(
    bot: Call, host_of: Callable[..., Call], repo: Path
) -> None:
    run(repo, "branch", "bot/old", "HEAD~1")
    (repo / "a.txt").write_text("mine\n")
    dirty = await bot("checkout", branch="bot/old")
    assert (dirty.status, dirty.reason) == ("denied", "dirty_worktree")
    assert (await bot("create_branch", branch="bot/n", ref="HEAD~1")).reason == "dirty_worktree"
    run(repo, "add", "a.txt")
    assert (await bot("checkout", branch="bot/old")).reason == "dirty_worktree"
    assert (repo / "a.txt").read_text() == "mine\n"
    run(repo, "reset", "-q", "--hard")
    (repo / "untracked").touch()
    assert (await bot("checkout", branch="bot/old")).success
    (repo / "untracked2").write_text("x")
    loose = host_of(allowed_actions=WRITING, allow_worktree_dirty=True)
    (repo / "a.txt").write_text("mine\n")
    conflict = await loose("checkout", branch="main")
    assert (conflict.status, conflict.reason) == ("error", "git_checkout_failed")
    assert (repo / "a.txt").read_text() == "mine\n"
    assert (await bot("checkout", branch="nowhere")).reason == "branch_resolution_failed"


async def test_ignored_files_are_not_lost(bot: Call, repo: Path) -> None:
    run(repo, "switch", "-q", "-c", "bot/other")
    (repo / ".env").write_text("of the branch")
    run(repo, "add", ".env")
    run(repo, "commit", "-q", "-m", "Brings a file")
    run(repo, "switch", "-q", "main")
    (repo / ".git/info/exclude").write_text(".env\n*.db\n")
    (repo / ".env").write_text("the only copy")
    assert (await bot("checkout", branch="bot/other")).status == "error"
    made = await bot("create_branch", branch="bot/new", ref="bot/other")
    assert made.status == "error"
    assert (repo / ".env").read_text() == "the only copy"
    assert (await bot("add_worktree", worktree="tree", branch="bot/tree")).success
    (repo / "tree/results.db").write_text("the only copy")
    assert (await bot("remove_worktree", worktree="tree")).reason == "dirty_worktree"
    (repo / "tree/results.db").unlink()
    assert (await bot("remove_worktree", worktree="tree")).success


async def test_worktrees_come_and_go(bot: Call, repo: Path) -> None:
    made = (await bot("add_worktree", worktree="trees/a", branch="bot/a")).unwrap()
    assert made == {"worktree": "trees/a", "branch": "bot/a"}
    (repo / "trees/a/a.txt").write_text("there\n")
    assert (await bot("add", paths=["a.txt"], worktree="trees/a")).success
    busy = await bot("remove_worktree", worktree="trees/a")
    assert (busy.status, busy.reason) == ("denied", "dirty_worktree")
    assert (await bot("commit", message="there", worktree="trees/a")).unwrap()["branch"] == "bot/a"
    assert (repo / "a.txt").read_text() == "one\ntwo\n"
    assert (await bot("add_worktree", worktree="trees/a", branch="bot/b")).reason == "file_exists"
    assert (await bot("add_worktree", worktree="trees/b", branch="b")).reason == (
        "branch_prefix_required"
    )
    assert (await bot("remove_worktree", worktree="trees/a")).success
    assert not (repo / "trees/a").exists()
    assert (await bot("status", worktree="trees/a")).reason == "unknown_worktree"
    assert (await bot("remove_worktree", worktree=".")).reason == "invalid_path"
    assert (await bot("add_worktree", worktree="trees/a", branch="bot/a")).success


async def test_worktrees_stay_below_the_repository(bot: Call, repo: Path) -> None:
    (repo / "link").symlink_to(repo.parent)
    for place in ("../out", "/tmp/out", "trees/../../out"):
        got = await bot("add_worktree", worktree=place, branch="bot/a")
        assert got.reason == "path_outside_root", place
    got = await bot("add_worktree", worktree="link/out", branch="bot/a")
    assert got.reason == "path_outside_root"
    assert (await bot("add_worktree", worktree=".git/x", branch="bot/a")).reason == (
        "path_not_allowed"
    )
    run(repo, "worktree", "add", "-q", str(repo.parent / "outside"), "-b", "bot/o")
    assert (await bot("status", worktree="link/outside")).reason == "unsafe_repository"
    assert (await bot("remove_worktree", worktree="link/outside")).reason == "unsafe_repository"
    assert (repo.parent / "outside").exists()


@pytest.mark.parametrize("action", WRITING + READING)
async def test_only_allowed_actions_run(
    host_of: Callable[..., Call], repo: Path, action: str
) -> None:
    call = host_of(allowed_actions=[])
    got = await call(
        action,
        branch="x",
        paths=["a.txt"],
        message="m",
        worktree="t" if "worktree" in action else "",
        since="1d",
    )
    assert (got.status, got.reason) == ("denied", "action_not_allowed")
    assert run(repo, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


async def test_nothing_is_written_by_default(reader: Call) -> None:
    for action in WRITING:
        assert (await reader(action)).reason == "action_not_allowed"


async def test_push_needs_more_than_its_action(
    host_of: Callable[..., Call], bot: Call, repo: Path
) -> None:
    run(repo, "branch", "bot/x")
    no = await host_of(allowed_actions=["push"])("push", branch="bot/x")
    assert (no.status, no.reason) == ("denied", "push_not_allowed")
    assert (await bot("push", branch="bot/x", remote="")).reason == "empty_remote"
    assert (await bot("push", branch="bot/x", remote="other")).reason == "remote_not_allowed"
    assert (await bot("push", branch="bot/x", remote="/tmp/x")).reason == "remote_not_allowed"
    assert (await bot("push", branch="bot/x")).reason == "remote_not_allowed"  # there is none
    run(repo.parent, "init", "-q", "--bare", "origin.git")
    run(repo, "remote", "add", "origin", str(repo.parent / "origin.git"))
    pinned = host_of(
        allowed_actions=["push"], allow_push=True, allowed_remote_urls=["https://example.org/*"]
    )
    assert (await pinned("push", branch="bot/x")).reason == "remote_not_allowed"
    assert (await bot("push", branch="bot/gone")).reason == "branch_resolution_failed"
    assert run(repo.parent / "origin.git", "for-each-ref") == ""
    assert (await bot("push", branch="bot/x")).success


async def test_a_push_is_never_forced(bot: Call, repo: Path) -> None:
    run(repo.parent, "init", "-q", "--bare", "origin.git")
    run(repo, "remote", "add", "origin", str(repo.parent / "origin.git"))
    run(repo, "config", "remote.origin.push", "+refs/heads/*:refs/heads/*")
    run(repo, "push", "-q", "origin", "HEAD:refs/heads/bot/x")
    run(repo, "branch", "bot/x", "HEAD~1")
    got = await bot("push", branch="bot/x")
    assert (got.status, got.reason) == ("error", "git_push_failed")
    head = run(repo, "rev-parse", "main")
    there = run(repo.parent / "origin.git", "for-each-ref", "--format=%(refname) %(objectname)")
    assert there == f"refs/heads/bot/x {head}"


@pytest.mark.parametrize(
    ("since", "reason"),
    [
        ("", "empty_since"),
        ("   ", "empty_since"),
        ("x" * 65, "since_too_long"),
        ("whenever", "invalid_since_format"),
        ("2020-13-01", "invalid_since_format"),
        ("--output=x", "invalid_since_format"),
        ("1d; touch x", "invalid_since_format"),
        ("2020-01-03\n", None),
        ("2020-01-01\n--all", "invalid_since_format"),
        ("٢d", "invalid_since_format"),
        ("24h", None),
        ("7d", None),
        ("2 weeks ago", None),
        ("3 months", None),
        ("yesterday", None),
        ("2020-01-06T00:00:00+01:00", None),
    ],
)
async def test_times(reader: Call, since: str, reason: str | None) -> None:
    got = await reader("diff_since", since=since)
    assert got.reason == reason


@pytest.mark.parametrize(
    "ref",
    [
        "--all",
        "--stat",
        "--output=stolen",
        "-p",
        "-",
        "HEAD\n--all",
        "HEAD --all",
        "a\0b",
        ":/x",
        "^HEAD",
        "ref;id",
        "$(id)",
        "x" * 251,
        "é",
        "\ud800",
    ],
)
@pytest.mark.parametrize(
    "action", ["diff", "log", "show", "blame", "rev_parse", "diff_since", "create_branch"]
)
async def test_refs_cannot_be_options(bot: Call, repo: Path, action: str, ref: str) -> None:
    got = await bot(action, ref=ref, paths=["a.txt"], since="1d", branch="bot/x")
    assert got.status != "ok"
    assert got.reason in ("invalid_ref", "invalid_arguments")
    assert run(repo, "status", "--porcelain", "--ignored") == ""
    assert run(repo, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


async def test_a_loose_pattern_lets_no_option_in(host_of: Callable[..., Call]) -> None:
    loose = host_of(allowed_ref_pattern=".*")
    for ref in ("--all", "-p", "HEAD\n--all", "\x1b"):
        assert (await loose("log", ref=ref)).reason == "invalid_ref"
    assert (await loose("log", ref="HEAD")).success


@pytest.mark.parametrize(
    ("branch", "reason"),
    [
        ("", "empty_branch"),
        ("-f", "invalid_branch"),
        ("--orphan", "invalid_branch"),
        ("bot/../main", "invalid_branch"),
        ("bot/x..y", "invalid_branch"),
        ("bot/x.lock", "invalid_branch"),
        ("bot//x", "invalid_branch"),
        ("bot/.x", "invalid_branch"),
        ("bot/x@{1}", "invalid_branch"),
        ("bot/x y", "invalid_branch"),
        ("bot/x\n", "invalid_branch"),
        ("bot/x\0", "invalid_branch"),
        ("bot/x~1", "invalid_branch"),
        ("bot/x:main", "invalid_branch"),
        ("+bot/x", "invalid_branch"),
        ("refs/heads/main", "invalid_branch"),
        ("HEAD", "invalid_branch"),
        ("x" * 251, "invalid_branch"),
    ],
)
async def test_branch_names(bot: Call, repo: Path, branch: str, reason: str) -> None:
    for action in ("create_branch", "checkout", "add_worktree"):
        got = await bot(action, branch=branch, worktree="t" if action == "add_worktree" else "")
        assert (got.status, got.reason) == ("denied", reason), action
    if branch:
        assert (await bot("push", branch=branch)).reason == reason
    assert run(repo, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../x", "path_outside_root"),
        ("/etc/passwd", "path_outside_root"),
        ("a/../../x", "path_outside_root"),
        (".git/config", "path_not_allowed"),
        ("x/.GIT/config", "path_not_allowed"),
        ("a\0b", "invalid_path"),
        ("a\nb", "invalid_path"),
        ("", "invalid_path"),
    ],
)
async def test_paths(bot: Call, path: str, reason: str) -> None:
    for action in ("diff", "log", "show", "blame", "add"):
        got = await bot(action, paths=[path])
        assert (got.status, got.reason) == ("denied", reason), action


async def test_paths_are_no_options_and_no_patterns(bot: Call, repo: Path) -> None:
    for name in ("-p", "--all", ":(top)a.txt", "*.txt", ":!x"):
        (repo / name).write_text("x")
        assert (await bot("add", paths=[name])).unwrap()["staged"] == [name]
        run(repo, "reset", "-q")
        (repo / name).unlink()
    assert (await bot("diff", ref="HEAD~1", paths=["*.txt"])).unwrap()["files"] == []


@pytest.mark.parametrize("count", [0, -1, 201])
async def test_counts(reader: Call, count: int) -> None:
    assert (await reader("log", max_count=count)).reason == "invalid_max_count"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("", "empty_commit_message"),
        (" \n", "empty_commit_message"),
        ("a\0b", "invalid_commit_message"),
        ("x" * 100_001, "invalid_commit_message"),
    ],
    ids=["empty", "blank", "nul", "long"],
)
async def test_messages(bot: Call, message: str, reason: str) -> None:
    assert (await bot("commit", message=message)).reason == reason


async def test_needs(bot: Call) -> None:
    assert (await bot("add")).reason == "empty_paths"
    assert (await bot("blame")).reason == "invalid_path"
    assert (await bot("blame", paths=["a", "b"])).reason == "invalid_path"
    assert (await bot("create_branch", branch="bot/x")).success
    unchanged = await bot("add", paths=["a.txt"])
    assert (unchanged.status, unchanged.reason) == ("error", "nothing_to_add")
    nothing = await bot("commit", message="x")
    assert (nothing.status, nothing.reason) == ("error", "nothing_to_commit")


async def test_output_is_cut_and_says_so(host_of: Callable[..., Call], repo: Path) -> None:
    (repo / "a.txt").write_text("x" * 200 + "\n" + "long\n" * 100_000)
    call = host_of(max_output_chars=1000)
    got = (await call("diff")).unwrap()
    assert (len(got["diff"]), got["truncated"]) == (1000, True)
    run(repo, "commit", "-q", "-a", "-m", "x" * 500)
    run(repo, "commit", "-q", "--allow-empty", "-m", "y" * 5000)
    cut = (await call("log")).unwrap()
    assert cut["truncated"]
    assert cut["commits"] == []
    shown = (await call("show", ref="HEAD:a.txt")).unwrap()
    assert (len(shown["text"]), shown["truncated"]) == (1000, True)


async def test_files_are_counted(host_of: Callable[..., Call], repo: Path) -> None:
    call = host_of(allowed_actions=READING + WRITING, max_files=2)
    for n in range(3):
        (repo / f"n{n}").touch()
    few = (await call("status")).unwrap()
    assert (len(few["files"]), few["truncated"]) == (2, True)
    many = await call("add", paths=["."])
    assert (many.status, many.reason) == ("denied", "too_many_files")
    assert run(repo, "diff", "--cached", "--name-only") == ""
    run(repo, "switch", "-q", "-c", "side")
    run(repo, "add", ".")
    assert (await call("commit", message="x")).reason == "too_many_files"
    run(repo, "commit", "-q", "-m", "x")
    assert (await call("diff", ref="HEAD~1")).reason == "too_many_files"
    assert (await call("diff_since", since="2020-01-01T13:00")).reason == "too_many_files"
    assert (await call("diff", ref="HEAD~1", paths=["a"] * 3)).reason == "too_many_files"


async def test_failures_are_told_without_places(reader: Call, repo: Path) -> None:
    got = await reader("show", ref="nowhere")
    assert (got.status, got.reason) == ("error", "git_show_failed")
    assert got.error is not None
    assert "nowhere" in got.error.message
    (repo / ".git/HEAD").write_text("nonsense")
    broken = await reader("log")
    assert broken.status == "error"
    assert broken.error is not None
    assert str(repo) not in broken.error.message


async def test_no_repository(host_of: Callable[..., Call], repo: Path) -> None:
    (repo / "sub").mkdir()
    got = await host_of(root="sub")("status")
    assert (got.status, got.reason) == ("error", "not_a_repository")


async def test_a_time_limit_stops_git(host_of: Callable[..., Call], repo: Path) -> None:
    (repo / ".git/config").unlink()
    os.mkfifo(repo / ".git/config")  # reading it never ends
    got = await host_of(timeout=0.3)("status")
    assert (got.status, got.reason) == ("error", "timeout")


async def test_an_unknown_sandbox(repo: Path) -> None:
    with pytest.raises(ConfigError):
        TEMPLATE.build(GitPolicy(sandbox="nowhere"), Bench(repo))


async def test_a_profile_narrows_what_the_tool_may_do(repo: Path) -> None:
    policy = GitPolicy(allowed_actions=READING + WRITING)
    function = TEMPLATE.build(policy, Bench(repo))
    knobs = {"allowed_actions": ["status", "log"], "max_output_chars": 10}
    config = {"profiles": {"r": {"rules": [{"allow": "git"}], "policies": {"git": knobs}}}}
    narrowed = ToolHost([tool(name="git", policy=policy)(function)], config=config)
    async with narrowed as host, host.session(cwd=repo, profile="r") as session:
        made = await session.call("git", {"action": "create_branch", "branch": "x"})
        assert made.reason == "action_not_allowed"
        assert (await session.call("git", {"action": "log"})).unwrap()["truncated"]
        told = host.explain("git", {"action": "push"}, session=session)
        assert (told.verdict, told.reason) == ("deny", "action_not_allowed")


def test_the_policy_says_what_calls_can_do() -> None:
    assert GitPolicy().allowed_effects() == {"read"}
    assert GitPolicy(allowed_actions=["commit"]).allowed_effects() == {"write"}
    assert GitPolicy(allowed_actions=["push"]).allowed_effects() == frozenset()
    pushing = GitPolicy(allowed_actions=["push", "log"], allow_push=True)
    assert pushing.allowed_effects() == {"read", "write", "egress"}
    losing = GitPolicy(allowed_actions=["remove_worktree"], allow_worktree_dirty=True)
    assert losing.allowed_effects() == {"write", "destructive"}


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"allowed_actions": ["comit"]}, "Did you mean commit"),
        ({"max_files": 0}, "at least 1"),
        ({"allowed_ref_pattern": "(?=x)"}, "regular expression"),
        ({"timeout": "soon"}, "timeout"),
        ({"author_name": "a <b>"}, "plain name"),
        ({"context_lines": -1}, "between"),
        ({"bogus_knob": 1}, "no setting"),
    ],
    ids=["action", "limit", "pattern", "timeout", "author", "context", "unknown"],
)
def test_a_wrong_policy_says_what_is_wrong(knobs: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        GitPolicy(**knobs)
