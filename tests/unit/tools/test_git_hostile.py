"""A hostile repository executes nothing and reaches nothing outside.

Each trap is first sprung by plain git, which proves that it is one. Then every action of the tool
is tried on it, and the mark that the trap would leave must not be there.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from needs import needs
from toolcrib import ConfigError, ToolContext, ToolHost, ToolResult, tool
from toolcrib.core.protocols import Sandbox
from toolcrib.errors import Denial, ToolFailure
from toolcrib.sandbox.subprocess import factory
from toolcrib.tools.git import TEMPLATE, GitPolicy
from toolcrib.tools.git.config import protocol
from toolcrib.tools.git.repository import find
from toolcrib.tools.git.running import Git

READING = ["status", "diff", "log", "show", "blame", "rev_parse", "diff_since", "branch"]
READING += ["worktree"]
WRITING = ["create_branch", "add", "commit", "checkout", "push", "add_worktree"]
WRITING += ["remove_worktree"]
HOOKS = [
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-auto-gc"),
    *("post-checkout", "post-merge", "pre-merge-commit", "post-index-change", "post-rewrite"),
    *("pre-push", "pre-receive", "update", "proc-receive", "post-receive", "post-update"),
    *("reference-transaction", "push-to-checkout", "fsmonitor-watchman", "pre-rebase"),
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


class Trap:
    """A repository, a program that leaves a mark, and plain git to set things up with."""

    def __init__(self, top: Path) -> None:
        self.top, self.repo, self.mark = top, top / "repo", top / "mark"
        self.program = top / "program.sh"
        self.program.write_text(f"#!/bin/sh\necho ran >>'{self.mark}'\nexit 1\n")
        self.program.chmod(0o755)
        self.repo.mkdir()
        self.git("init", "-q", "-b", "main")
        (self.repo / "a.txt").write_text("one\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "First")
        (self.repo / "a.txt").write_text("two\n")
        self.git("commit", "-q", "-a", "-m", "Second")
        self.git("branch", "bot/old", "HEAD~1")
        self.git("init", "-q", "--bare", str(top / "origin.git"))
        self.git("remote", "add", "origin", str(top / "origin.git"))

    def git(self, *arguments: str, folder: Path | None = None, check: bool = True) -> str:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": "/dev/null",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ann",
            "GIT_AUTHOR_EMAIL": "ann@example.org",
            "GIT_COMMITTER_NAME": "Ann",
            "GIT_COMMITTER_EMAIL": "ann@example.org",
            "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
            "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
            "GIT_TERMINAL_PROMPT": "0",
        }
        done = subprocess.run(
            ["git", "-C", str(folder or self.repo), *arguments],
            env=env,
            capture_output=True,
            text=True,
            check=check,
            input="protocol=https\nhost=127.0.0.1\n\n",
        )
        return done.stdout + done.stderr

    def config(self, key: str, value: str) -> None:
        self.git("config", key, value)

    def hooks(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        for name in HOOKS:
            (folder / name).write_text(self.program.read_text())
            (folder / name).chmod(0o755)

    def dirty(self, attributes: str = "") -> None:
        if attributes:
            (self.repo / ".gitattributes").write_text(f"* {attributes}\n")
        (self.repo / "a.txt").write_text("three\n")

    def sprung(self) -> bool:
        try:
            self.mark.unlink()
        except FileNotFoundError:
            return False
        return True


def fsmonitor(trap: Trap) -> list[str]:
    trap.config("core.fsmonitor", str(trap.program))
    return ["status"]


def hooks(trap: Trap) -> list[str]:
    trap.hooks(trap.repo / ".git/hooks")
    return ["commit", "--allow-empty", "-m", "x"]


def hooks_path(trap: Trap) -> list[str]:
    trap.hooks(trap.repo / "tracked")
    trap.config("core.hooksPath", "tracked")
    return ["commit", "--allow-empty", "-m", "x"]


def external_diff(trap: Trap) -> list[str]:
    trap.config("diff.external", str(trap.program))
    trap.dirty()
    return ["diff"]


def diff_driver(trap: Trap) -> list[str]:
    trap.config("diff.evil.command", str(trap.program))
    trap.dirty("diff=evil")
    return ["diff"]


def textconv(trap: Trap) -> list[str]:
    trap.config("diff.evil.textconv", str(trap.program))
    trap.dirty("diff=evil")
    return ["diff"]


def textconv_of_blame(trap: Trap) -> list[str]:
    trap.config("diff.evil.textconv", str(trap.program))
    trap.dirty("diff=evil")
    return ["blame", "HEAD", "--", "a.txt"]


def clean_filter(trap: Trap) -> list[str]:
    trap.config("filter.evil.clean", str(trap.program))
    trap.dirty("filter=evil")
    return ["add", "a.txt"]


def filter_with_an_odd_name(trap: Trap) -> list[str]:
    trap.config("filter.e.v=il x.clean", str(trap.program))
    (trap.repo / ".git/info/attributes").write_text("* filter=e.v=il\n")
    trap.config("filter.e.v=il.clean", str(trap.program))
    trap.dirty()
    return ["add", "a.txt"]


def filter_with_an_empty_name(trap: Trap) -> list[str]:
    with (trap.repo / ".git/config").open("a") as file:
        file.write(f'[filter ""]\n\tclean = {trap.program}\n\tsmudge = {trap.program}\n')
    trap.dirty("filter=")
    return ["add", "a.txt"]


def process_filter(trap: Trap) -> list[str]:
    trap.config("filter.evil.process", str(trap.program))
    trap.config("filter.evil.required", "true")
    trap.dirty("filter=evil")
    return ["diff"]


def smudge_filter(trap: Trap) -> list[str]:
    trap.config("filter.evil.smudge", str(trap.program))
    (trap.repo / ".git/info/attributes").write_text("* filter=evil\n")
    return ["worktree", "add", "-f", "../elsewhere", "bot/old"]


def included_filter(trap: Trap) -> list[str]:
    (trap.repo / "more").write_text(f'[filter "evil"]\n\tclean = {trap.program}\n')
    trap.config("include.path", "../more")
    trap.dirty("filter=evil")
    return ["add", "a.txt"]


def filter_of_a_worktree_config(trap: Trap) -> list[str]:
    trap.config("extensions.worktreeConfig", "true")
    trap.git("config", "--worktree", "filter.evil.clean", str(trap.program))
    trap.dirty("filter=evil")
    return ["add", "a.txt"]


def included_for_a_branch(trap: Trap) -> list[str]:
    (trap.repo / "more").write_text(f'[filter "evil"]\n\tsmudge = {trap.program}\n')
    trap.config("includeIf.onbranch:bot/**.path", "../more")
    (trap.repo / ".git/info/attributes").write_text("* filter=evil\n")
    return ["worktree", "add", "-f", "../elsewhere", "bot/old"]


def signature(trap: Trap) -> list[str]:
    raw = trap.git("cat-file", "commit", "HEAD")
    head, _, body = raw.partition("\n\n")
    signed = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n"
    (trap.top / "signed").write_text(f"{signed}\n{body}")
    made = trap.git("hash-object", "-w", "-t", "commit", str(trap.top / "signed")).strip()
    trap.git("update-ref", "refs/heads/main", made)
    trap.config("gpg.program", str(trap.program))
    trap.config("log.showSignature", "true")
    return ["log"]


def signing(trap: Trap) -> list[str]:
    trap.config("gpg.program", str(trap.program))
    trap.config("commit.gpgSign", "true")
    return ["commit", "--allow-empty", "-m", "x"]


def ssh_command(trap: Trap) -> list[str]:
    trap.config("core.sshCommand", str(trap.program))
    trap.config("remote.origin.url", "ssh://127.0.0.1:1/x")
    return ["push", "origin", "main"]


def ext_remote(trap: Trap) -> list[str]:
    trap.config("protocol.ext.allow", "always")
    trap.config("remote.origin.url", f"ext::{trap.program}")
    return ["push", "origin", "main"]


def rewritten_remote(trap: Trap) -> list[str]:
    trap.config("protocol.ext.allow", "always")
    trap.config(f"url.ext::{trap.program} .pushInsteadOf", str(trap.top))
    return ["push", "origin", "main"]


def remote_helper(trap: Trap) -> list[str]:
    trap.config("protocol.allow", "always")
    trap.config("remote.origin.vcs", "ext")
    trap.config("remote.origin.url", str(trap.program))
    return ["push", "origin", "main"]


def git_proxy(trap: Trap) -> list[str]:
    trap.config("core.gitProxy", str(trap.program))
    trap.config("remote.origin.url", "git://127.0.0.1:1/x")
    return ["push", "origin", "main"]


def receive_pack(trap: Trap) -> list[str]:
    trap.config("remote.origin.receivepack", str(trap.program))
    return ["push", "origin", "main"]


def hooks_of_the_remote(trap: Trap) -> list[str]:
    trap.hooks(trap.top / "origin.git/hooks")
    return ["push", "origin", "main"]


def hooks_path_of_the_remote(trap: Trap) -> list[str]:
    trap.hooks(trap.top / "own")
    trap.git("config", "core.hooksPath", str(trap.top / "own"), folder=trap.top / "origin.git")
    return ["push", "origin", "main"]


def alternates_of_the_remote(trap: Trap) -> list[str]:
    origin = trap.top / "origin.git"
    (origin / "objects/info/alternates").write_text(f"{trap.repo}/.git/objects\n")
    trap.git("config", "core.alternateRefsCommand", str(trap.program), folder=origin)
    return ["push", "origin", "main"]


def remote_with_a_worktree(trap: Trap) -> list[str]:
    other = trap.top / "other"
    other.mkdir()
    trap.git("init", "-q", "-b", "bot/new", folder=other)
    trap.git("config", "receive.denyCurrentBranch", "updateInstead", folder=other)
    trap.git("config", "core.fsmonitor", str(trap.program), folder=other)
    trap.config("remote.origin.url", str(other))
    trap.dirty()
    return ["push", "origin", "main:refs/heads/bot/new"]


def missing_object(trap: Trap) -> list[str]:
    """A partial clone fetches what it misses, even for `git show`."""
    blob = trap.git("rev-parse", "HEAD:a.txt").strip()
    (trap.repo / ".git/objects" / blob[:2] / blob[2:]).unlink()
    trap.config("core.repositoryFormatVersion", "1")
    trap.config("extensions.partialClone", "origin")
    trap.config("remote.origin.promisor", "true")
    trap.config("remote.origin.uploadpack", str(trap.program))
    return ["show", "HEAD"]


def submodule(trap: Trap) -> list[str]:
    """A repository within, with its own configuration."""
    inner = trap.repo / "inner"
    inner.mkdir()
    trap.git("init", "-q", folder=inner)
    trap.git("commit", "-q", "--allow-empty", "-m", "x", folder=inner)
    (inner / "f").write_text("f")
    trap.git("add", ".", folder=inner)
    trap.git("commit", "-q", "-m", "y", folder=inner)
    trap.git("add", "inner")
    trap.git("commit", "-q", "-m", "Inner")
    (inner / ".git/info/attributes").write_text("* filter=evil\n")
    trap.git("config", "filter.evil.clean", str(trap.program), folder=inner)
    (inner / "f").write_text("g")
    trap.config("diff.submodule", "diff")
    trap.config("submodule.recurse", "true")
    trap.config("status.submoduleSummary", "true")
    trap.dirty()
    return ["status"]


TRAPS = [
    fsmonitor,
    hooks,
    hooks_path,
    external_diff,
    diff_driver,
    textconv,
    textconv_of_blame,
    clean_filter,
    filter_with_an_odd_name,
    filter_with_an_empty_name,
    process_filter,
    smudge_filter,
    included_filter,
    filter_of_a_worktree_config,
    included_for_a_branch,
    signature,
    signing,
    ssh_command,
    ext_remote,
    rewritten_remote,
    remote_helper,
    git_proxy,
    receive_pack,
    hooks_of_the_remote,
    hooks_path_of_the_remote,
    alternates_of_the_remote,
    remote_with_a_worktree,
    missing_object,
    submodule,
]


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    needs("git", "git")
    return Trap(tmp_path)


@pytest.fixture
async def call(trap: Trap) -> AsyncIterator[Call]:
    policy = GitPolicy(
        allowed_actions=READING + WRITING, allow_push=True, allow_worktree_dirty=True
    )
    function = TEMPLATE.build(policy, Bench(trap.repo))
    host = ToolHost([tool(name="git", policy=policy)(function)])

    async def run(action: str, **more: Any) -> ToolResult:
        async with host.session(cwd=trap.repo) as session:
            return await session.call("git", {"action": action, **more})

    yield run
    await host.stop()


async def everything(call: Call) -> dict[str, ToolResult]:
    """Every action, in an order in which each has something to do."""
    more: dict[str, dict[str, Any]] = {
        "blame": {"paths": ["a.txt"]},
        "diff_since": {"since": "1d"},
        "create_branch": {"branch": "bot/new"},
        "add": {"paths": ["."]},
        "commit": {"message": "Message"},
        "checkout": {"branch": "bot/old"},
        "push": {"branch": "bot/old"},
        "add_worktree": {"branch": "bot/tree", "ref": "main", "worktree": "tree"},
        "remove_worktree": {"worktree": "tree"},
    }
    ends = {name: await call(name, **more.get(name, {})) for name in READING + WRITING}
    ends["push new"] = await call("push", branch="bot/new")
    ends["diff staged"] = await call("diff", staged=True)
    ends["diff range"] = await call("diff", ref="main~1..main")
    ends["show file"] = await call("show", ref="main:a.txt")
    return ends


@pytest.mark.parametrize("plant", TRAPS, ids=lambda plant: plant.__name__)
async def test_nothing_of_a_hostile_repository_runs(
    trap: Trap, call: Call, plant: Callable[[Trap], list[str]]
) -> None:
    sprung_by = plant(trap)
    trap.git(*sprung_by, check=False)
    assert trap.sprung(), "not a trap: plain git does not fall into it"
    trap.git("reset", "-q", check=False)
    trap.dirty()
    trap.sprung()
    ends = await everything(call)
    assert not trap.sprung(), {name: end.reason for name, end in ends.items()}
    assert all(end.reason != "unexpected_failure" for end in ends.values())


async def test_a_harmless_repository_lets_everything_happen(trap: Trap, call: Call) -> None:
    """Otherwise the traps above would be avoided by doing nothing."""
    trap.dirty()
    ends = await everything(call)
    assert {name: end.reason for name, end in ends.items() if not end.success} == {}


async def test_hooks_do_not_keep_a_commit_from_happening(trap: Trap, call: Call) -> None:
    hooks(trap)
    hooks_of_the_remote(trap)
    trap.dirty()
    ends = await everything(call)
    assert {name: end.reason for name, end in ends.items() if not end.success} == {}
    assert not trap.sprung()


async def test_contents_are_not_stored_without_their_filter(trap: Trap, call: Call) -> None:
    clean_filter(trap)
    for action in ("add", "commit", "checkout", "add_worktree"):
        got = await call(
            action,
            paths=["a.txt"],
            message="x",
            branch="bot/old",
            worktree="tree" * ("w" in action),
        )
        assert (got.status, got.reason) == ("denied", "unsafe_repository"), action
    assert (await call("status")).success
    assert (await call("diff")).success


async def test_credential_helpers_do_not_run(trap: Trap) -> None:
    trap.config("credential.helper", f"!{trap.program}")
    trap.config("credential.https://127.0.0.1.helper", f"!{trap.program}")
    trap.config("core.askPass", str(trap.program))
    trap.git("credential", "fill", check=False)
    assert trap.sprung()
    policy = GitPolicy()
    git = Git(
        ctx=ToolContext(policy=policy),
        policy=policy,
        sandbox=Bench(trap.repo).sandbox("subprocess"),
        repository=find(trap.repo),
    )
    asked = "protocol=https\nhost=127.0.0.1\n\n"
    with suppress(ToolFailure):
        await (await git.prepared()).done("x", "credential", "fill", stdin=asked)
    assert not trap.sprung()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hook.evil.command", "touch x"),
        ("includeIf.gitdir:/**.path", "more"),
        ("includeIf.onbranch:main.path", "more"),
    ],
)
async def test_settings_that_cannot_be_overridden_are_refused(
    trap: Trap, call: Call, key: str, value: str
) -> None:
    trap.config(key, value)
    for name, end in (await everything(call)).items():
        if name != "remove_worktree":  # there is none to remove
            assert (end.status, end.reason) == ("denied", "unsafe_repository"), name


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("url./elsewhere.insteadOf", "x"),
        ("http.proxy", "http://127.0.0.1:1"),
        ("http.https://example.org.sslVerify", "false"),
        ("remote.origin.vcs", "x"),
        ("remote.origin.proxy", "http://127.0.0.1:1"),
    ],
)
async def test_a_push_is_not_led_elsewhere(trap: Trap, call: Call, key: str, value: str) -> None:
    trap.config(key, value)
    got = await call("push", branch="bot/old")
    assert (got.status, got.reason) == ("denied", "unsafe_repository")
    assert (await call("status")).success


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://example.org/x", "https"),
        ("ssh://git@example.org/x", "ssh"),
        ("git@example.org:x", "ssh"),
        ("/srv/x.git", "file"),
        ("../x.git", "file"),
        ("file:///srv/x", "file"),
        ("./a:b", "file"),
        ("http://example.org/x", None),
        ("git://example.org/x", None),
        ("ext::sh -c id", None),
        ("fd::7", None),
        ("transport+x::y", None),
        ("--upload-pack=id", None),
        ("ssh://-oProxyCommand=id/x", None),
        ("ssh://a@-oProxyCommand=id/x", None),
        ("", None),
        ("a\nb", None),
    ],
)
def test_addresses_are_of_known_kinds(url: str, kind: str | None) -> None:
    assert protocol(url) == kind


async def test_a_difference_is_between_commits(trap: Trap, call: Call) -> None:
    """Plain git compares a file of a commit with any file that a path leads to."""
    outside = trap.top / "outside"
    outside.mkdir()
    (outside / "secret").write_text("of the host\n")
    (trap.repo / "link").symlink_to(outside)
    trap.git("add", "link")
    trap.git("commit", "-q", "-m", "Link")
    (trap.repo / ".git/info/exclude").write_text(".env\n")
    (trap.repo / ".env").write_text("of the host\n")
    assert "of the host" in trap.git("diff", "HEAD:a.txt", "--", ".env")
    for path in ("link/secret", ".env"):
        for ref in ("HEAD:a.txt", "HEAD:a.txt..", "HEAD..HEAD:a.txt", "HEAD^{tree}:a.txt"):
            result = await call("diff", ref=ref, paths=[path])
            assert result.status == "error"
            assert "of the host" not in str(result)
    for ref in ("main~2", "main~2..main", "main~2...main", "main~2.."):
        assert "+two" in (await call("diff", ref=ref)).unwrap()["diff"]


async def test_a_worktree_elsewhere_is_not_looked_at(trap: Trap, call: Call) -> None:
    outside = trap.top / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("the secret outside\n")
    trap.config("core.worktree", str(outside))
    assert "secret" in trap.git("diff")
    ends = await everything(call)
    assert "secret" not in repr([end.output for end in ends.values()])
    assert (outside / "a.txt").read_text() == "the secret outside\n"


async def test_files_elsewhere_are_not_quoted(trap: Trap, call: Call) -> None:
    secret = trap.top / "secret"
    secret.write_text("the secret outside\n")
    for key in ("blame.ignoreRevsFile", "commit.template", "diff.orderFile"):
        trap.config(key, str(secret))
    assert "the secret outside" in trap.git("blame", "a.txt", check=False)
    trap.dirty()
    ends = await everything(call)
    assert {name for name, end in ends.items() if not end.success} == {"blame"}
    assert "the secret outside" not in repr(list(ends.values()))


async def test_names_from_a_file_elsewhere_are_not_shown(trap: Trap, call: Call) -> None:
    (trap.top / "secret").write_text("the secret outside <ann@example.org>\n")
    trap.config("mailmap.file", str(trap.top / "secret"))
    assert "the secret outside" in trap.git("blame", "a.txt")
    assert "the secret outside" not in repr(list((await everything(call)).values()))


def connects(trap: Trap) -> bool:
    """Whether plain git goes to the network for `git show`."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        trap.config("remote.origin.url", f"git://127.0.0.1:{server.getsockname()[1]}/x")
        command = ["git", "-C", str(trap.repo), "show", "HEAD"]
        git = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            server.accept()[0].close()
        except TimeoutError:
            return False
        finally:
            git.kill()
            git.wait()
    return True


async def test_nothing_is_fetched(trap: Trap, call: Call) -> None:
    """What a partial clone misses stays missing: reading makes no connection."""
    missing_object(trap)
    assert connects(trap)
    with socket.create_server(("127.0.0.1", 0)) as server:
        trap.config("remote.origin.url", f"git://127.0.0.1:{server.getsockname()[1]}/x")
        server.setblocking(False)
        got = await call("show", ref="HEAD")
        assert (got.status, got.reason) == ("error", "git_show_failed")
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_files_elsewhere_are_not_quoted_by_links(trap: Trap, call: Call) -> None:
    (trap.top / "secret").write_text("the secret outside\n")
    (trap.repo / ".git/info/grafts").symlink_to(trap.top / "secret")
    assert "the secret outside" in trap.git("log", "HEAD~9", check=False)
    got = await call("log", ref="HEAD~9")
    assert (got.status, got.reason) == ("denied", "unsafe_repository")


def git_is_a_link(trap: Trap) -> None:
    (trap.repo / ".git").rename(trap.top / "moved")
    (trap.repo / ".git").symlink_to(trap.top / "moved")


def git_file_leads_outside(trap: Trap) -> None:
    (trap.repo / ".git").rename(trap.top / "moved")
    (trap.repo / ".git").write_text(f"gitdir: {trap.top / 'moved'}\n")


def git_file_leads_through_a_link(trap: Trap) -> None:
    (trap.repo / ".git").rename(trap.top / "moved")
    (trap.repo / "inside").symlink_to(trap.top)
    (trap.repo / ".git").write_text("gitdir: inside/moved\n")


def another_common_folder(trap: Trap) -> None:
    (trap.repo / ".git/commondir").write_text(str(trap.top / "origin.git"))


def objects_are_a_link(trap: Trap) -> None:
    (trap.repo / ".git/objects").rename(trap.top / "objects")
    (trap.repo / ".git/objects").symlink_to(trap.top / "objects")


def objects_are_borrowed(trap: Trap) -> None:
    alternates = trap.repo / ".git/objects/info/alternates"
    alternates.write_text(f"{trap.top / 'origin.git/objects'}\n")


def index_is_a_link(trap: Trap) -> None:
    (trap.repo / ".git/index").unlink()
    (trap.repo / ".git/index").symlink_to(trap.top / "created")


@pytest.mark.parametrize(
    "plant",
    [
        git_is_a_link,
        git_file_leads_outside,
        git_file_leads_through_a_link,
        another_common_folder,
        objects_are_a_link,
        objects_are_borrowed,
        index_is_a_link,
    ],
    ids=lambda plant: plant.__name__,
)
async def test_a_repository_that_reaches_outside_is_refused(
    trap: Trap, call: Call, plant: Callable[[Trap], None]
) -> None:
    plant(trap)
    for name, end in (await everything(call)).items():
        if name != "remove_worktree":  # there is none to remove
            assert (end.status, end.reason) == ("denied", "unsafe_repository"), name
    assert not (trap.top / "created").exists()


async def test_git_folders_within_the_root_may_be_elsewhere(trap: Trap, call: Call) -> None:
    (trap.repo / ".git").rename(trap.repo / "own")
    (trap.repo / ".git").write_text("gitdir: own\n")
    borrowed = trap.repo / "own/objects/info/alternates"
    borrowed.write_text("# a comment\n../../own/objects\n")
    assert (await call("log")).reason == "unsafe_repository"  # borrows from itself, for ever
    borrowed.unlink()
    assert (await call("log")).success


@pytest.mark.parametrize("name", ["COMMIT_EDITMSG", "logs/HEAD", "refs/heads/bot/x", "config"])
async def test_git_does_not_write_through_links(trap: Trap, call: Call, name: str) -> None:
    victim = trap.top / "victim"
    victim.write_text("untouched\n")
    link = trap.repo / ".git" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(victim)
    trap.dirty()
    for action, more in (
        ("create_branch", {"branch": "bot/new"}),
        ("add", {"paths": ["a.txt"]}),
        ("commit", {"message": "; touch x"}),
    ):
        got = await call(action, **more)
        assert (got.status, got.reason) == ("denied", "unsafe_repository"), action
    assert victim.read_text() == "untouched\n"


async def test_a_worktree_that_is_not_one(trap: Trap, call: Call) -> None:
    fake = trap.repo / "fake"
    fake.mkdir()
    (fake / ".git").write_text(f"gitdir: {trap.top / 'origin.git'}\n")
    assert (await call("status", worktree="fake")).status != "ok"
    trap.git("worktree", "add", "-q", "tree", "-b", "bot/tree")
    own = trap.repo / ".git/worktrees/tree"
    assert (await call("status", worktree="tree")).success
    (own / "commondir").write_text(str(trap.top / "origin.git"))
    got = await call("status", worktree="tree")
    assert (got.status, got.reason) == ("denied", "unsafe_repository")
    (own / "commondir").write_text("../..")
    (own / "gitdir").write_text(str(fake / ".git"))
    assert (await call("status", worktree="tree")).reason == "unsafe_repository"


async def test_the_hosts_environment_and_configuration_stay_outside(
    trap: Trap, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = trap.top / "own.conf"
    own.write_text(f"[core]\n\tfsmonitor = {trap.program}\n[user]\n\tname = Somebody\n")
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, str(own))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap.program))
    monkeypatch.setenv("GIT_DIR", str(trap.top / "origin.git"))
    monkeypatch.setenv("GIT_SSH_COMMAND", str(trap.program))
    trap.dirty()
    ends = await everything(call)
    assert all(end.success for end in ends.values())
    assert not trap.sprung()


async def test_a_push_gets_its_own_variables(trap: Trap) -> None:
    """What the operator set up for pushing is used, for pushing only."""
    trap.config("remote.origin.url", "ssh://127.0.0.1:1/x")
    policy = GitPolicy(
        allowed_actions=["push", "status"],
        allow_push=True,
        push_environment={"GIT_SSH_COMMAND": str(trap.program)},
    )
    function = TEMPLATE.build(policy, Bench(trap.repo))
    pushing = ToolHost([tool(name="git", policy=policy)(function)])
    async with pushing as host, host.session(cwd=trap.repo) as session:
        await session.call("git", {"action": "status"})
        assert not trap.sprung()
        got = await session.call("git", {"action": "push", "branch": "bot/old"})
    assert got.reason == "git_push_failed"
    assert trap.sprung()


def test_a_repository_is_not_found_through_a_link(trap: Trap) -> None:
    (trap.top / "link").symlink_to(trap.repo)
    with pytest.raises(Denial) as caught:
        find(trap.top / "link")
    assert caught.value.reason == "path_outside_root"
    assert find(trap.repo).root == trap.repo
