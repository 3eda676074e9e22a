"""`shell`: programs from a list, in a sandbox, with no shell in between."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from broad import broad_host
from needs import needs
from toolcrib import ConfigError, ToolHost, ToolResult
from toolcrib.testing import assert_denied
from toolcrib.tools.shell import TEMPLATE, ShellPolicy

Make = Callable[..., ToolHost]


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    needs("bwrap", "bubblewrap")


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    hosts: list[ToolHost] = []

    def build(**knobs: Any) -> ToolHost:
        hosts.append(broad_host(TEMPLATE, knobs, tmp_path))
        return hosts[-1]

    yield build
    for host in hosts:
        await host.stop()


async def run(host: ToolHost, program: str, *arguments: str, **more: Any) -> ToolResult:
    return await host.call("shell", {"program": program, "arguments": list(arguments), **more})


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_program_runs_and_tells_all(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    result = await run(make(programs=["wc"]), "wc", "-l", "a.txt")
    assert result.unwrap() == {"exit_code": 0, "stdout": "2 a.txt\n", "stderr": ""}


async def test_another_exit_code_is_a_result(make: Make) -> None:
    result = await run(make(programs=["grep"]), "grep", "x", stdin="abc\n")
    assert result.unwrap() == {"exit_code": 1, "stdout": "", "stderr": ""}


async def test_stdin_and_cwd(make: Make, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    host = make(programs=["cat", "pwd"])
    assert (await run(host, "cat", stdin="grüße\n")).unwrap()["stdout"] == "grüße\n"
    where = await run(host, "pwd", cwd="inner")
    assert where.unwrap()["stdout"] == f"{tmp_path}/inner\n"


@pytest.mark.parametrize(
    "argument",
    ["$(id)", "`id`", "; id", "| id", "&& id", "*", "$HOME", "> made", "'", '"', "\\", "a  b", ""],
)
async def test_nothing_is_expanded(make: Make, tmp_path: Path, argument: str) -> None:
    host = make(programs=["printf"], write=True)
    result = await run(host, "printf", "[%s]", argument)
    assert result.unwrap()["stdout"] == f"[{argument}]"
    assert _names(tmp_path) == []


@pytest.mark.parametrize(
    "program", ["rm", "/bin/ls", "./ls", "../ls", "ls ", "LS", "", "ls\n", "sh"]
)
async def test_programs_that_are_not_listed(make: Make, program: str) -> None:
    host = make(programs=["ls", "/usr/bin/env"])
    assert_denied(await run(host, program), "program_not_allowed")
    assert host.explain("shell", {"program": program}).reason == "program_not_allowed"


async def test_a_whole_path_that_is_listed(make: Make) -> None:
    result = await run(make(programs=["/usr/bin/env"]), "/usr/bin/env")
    assert "PATH=/usr/local/bin:/usr/bin:/bin" in result.unwrap()["stdout"].splitlines()


async def test_a_name_is_never_found_in_the_folder(make: Make, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.write_text("#!/bin/sh\necho planted\n")
    planted.chmod(0o755)
    result = await run(make(programs=["planted"]), "planted")
    assert result.reason == "tool_error"
    assert "cannot be started" in result.error.message


async def test_the_hosts_environment_stays_out(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "canary-5521")
    for sandbox in (None, "subprocess"):
        result = await run(make(programs=["env"], sandbox=sandbox), "env")
        assert "canary" not in result.unwrap()["stdout"]


@pytest.mark.parametrize(
    "argument", ["a\0b", "a\nb", "a\rb", "\x1b[2J", "\x7f", "\x9b2J"], ids=repr
)
async def test_control_characters(make: Make, argument: str) -> None:
    assert_denied(await run(make(programs=["echo"]), "echo", argument), "argument_not_allowed")


async def test_arguments_are_held_to_globs(make: Make) -> None:
    host = make(
        programs=["ls", "cat", "echo"],
        allowed_arguments={"ls": ["-l", "-a", "[!-]*"], "cat": []},
        denied_arguments={"ls": ["*secret*"], "echo": ["-*"]},
    )
    assert (await run(host, "ls", "-l", ".")).success
    assert (await run(host, "cat", stdin="x")).success
    assert (await run(host, "echo", "secret")).success
    for program, argument in (
        ("ls", "--color=always"),
        ("ls", "-R"),
        ("ls", "my-secret"),
        ("cat", "file"),
        ("echo", "-n"),
    ):
        assert_denied(await run(host, program, argument), "argument_not_allowed")


async def test_how_many_and_how_long(make: Make) -> None:
    host = make(programs=["cat"], max_arguments=2, max_argument_chars=10, max_stdin_chars=5)
    assert_denied(await run(host, "cat", "a", "b", "c"), "argument_not_allowed")
    assert_denied(await run(host, "cat", "a" * 11), "argument_not_allowed")
    assert_denied(await run(host, "cat", stdin="123456"), "argument_not_allowed")
    assert (await run(host, "cat", stdin="12345")).success


@pytest.mark.parametrize("cwd", ["..", "/", "/etc", "a/../..", "../x", "link", "a\0"])
async def test_folders_outside(make: Make, tmp_path: Path, cwd: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "work/link").symlink_to(tmp_path / "other")
    host = make(programs=["pwd"], root="work")
    assert_denied(await run(host, "pwd", cwd=cwd), "path_outside_root")


async def test_a_folder_that_is_not_there(make: Make) -> None:
    result = await run(make(programs=["pwd"]), "pwd", cwd="nowhere")
    assert result.reason == "tool_error"


async def test_files_are_read_only_unless_it_says_write(make: Make, tmp_path: Path) -> None:
    refused = await run(make(programs=["touch"]), "touch", "made")
    assert refused.unwrap()["exit_code"] != 0
    assert not (tmp_path / "made").exists()
    allowed = await run(make(programs=["touch"], write=True), "touch", "made")
    assert allowed.unwrap()["exit_code"] == 0
    assert (tmp_path / "made").exists()


async def test_the_rest_of_the_machine_is_out_of_sight(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "private").write_text("canary-9")
    seen: dict[str | None, Any] = {}
    for sandbox in (None, "subprocess"):
        knobs = {"programs": ["cat"], "sandbox": sandbox}
        async with broad_host(TEMPLATE, knobs, tmp_path / "project") as host:
            seen[sandbox] = (await run(host, "cat", "../private")).unwrap()
    assert seen["subprocess"]["stdout"] == "canary-9"
    assert seen[None]["exit_code"] != 0
    assert seen[None]["stdout"] == ""


@pytest.mark.parametrize("sandbox", [None, "subprocess"], ids=["strict", "subprocess"])
async def test_endless_output_is_stopped(make: Make, sandbox: str | None) -> None:
    host = make(programs=["yes"], sandbox=sandbox, max_output_chars=5000)
    result = await run(host, "yes")
    assert result.reason == "output_too_large"
    assert result.error.details["stdout"].startswith("y\ny\n")


def _running(mark: str) -> list[str]:
    """The commands on this machine with an argument that only one test uses."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark.encode() in arguments:
                found.append(entry.name)
    return found


@pytest.mark.parametrize("sandbox", [None, "subprocess"], ids=["strict", "subprocess"])
async def test_a_command_without_end_is_stopped(make: Make, sandbox: str | None) -> None:
    host = make(programs=["sleep"], sandbox=sandbox, timeout="200ms")
    result = await run(host, "sleep", "86391")
    assert result.reason == "timeout"
    assert "sleep was stopped" in result.error.message  # by the policy, not by the host's deadline
    assert _running("86391") == []


@pytest.mark.parametrize("sandbox", [None, "subprocess"], ids=["strict", "subprocess"])
async def test_a_cancelled_call_leaves_nothing_running(make: Make, sandbox: str | None) -> None:
    mark = f"8639{2 if sandbox else 3}"
    call = asyncio.ensure_future(run(make(programs=["sleep"], sandbox=sandbox), "sleep", mark))
    for _ in range(5000):
        if _running(mark):
            break
        await asyncio.sleep(0.002)
    assert _running(mark)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert _running(mark) == []


async def test_a_profile_narrows_the_list(tmp_path: Path) -> None:
    profile = {"rules": [{"allow": "shell"}], "policies": {"shell": {"programs": ["echo"]}}}
    knobs = {"programs": ["echo", "ls"], "allowed_arguments": {"ls": ["-l"]}}
    async with broad_host(TEMPLATE, knobs, tmp_path, profile=profile) as host:
        assert (await run(host, "echo", "hi")).unwrap()["stdout"] == "hi\n"
        assert_denied(await run(host, "ls", "-l"), "program_not_allowed")


def test_a_sandbox_that_a_profile_names_wrongly(tmp_path: Path) -> None:
    profile = {"rules": [{"allow": "shell"}], "policies": {"shell": {"sandbox": "nosuch"}}}
    with pytest.raises(ConfigError, match="no sandbox 'nosuch'"):
        broad_host(TEMPLATE, {"programs": ["echo"]}, tmp_path, profile=profile)


@pytest.mark.parametrize(
    ("knobs", "key"),
    [
        ({"programs": ["./build.sh"]}, "programs"),
        ({"programs": ["ls"], "timeout": "soon"}, "timeout"),
        ({"programs": ["ls"], "denied_arguments": {"sl": ["-R"]}}, "denied_arguments"),
        ({"programs": ["ls"], "allowed_arguments": {"rm": ["x"]}}, "allowed_arguments"),
        ({"programs": ["ls"], "sandbox": "nosuch"}, "sandbox"),
        ({"program": ["ls"]}, "program"),
    ],
)
def test_a_wrong_policy(make: Make, knobs: Any, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make(**knobs)
    assert caught.value.key == key
    assert caught.value.cure or key == "timeout"


@pytest.mark.parametrize(
    ("knobs", "effects"),
    [
        ({}, {"read", "execute"}),
        ({"write": True}, {"read", "execute", "write", "destructive"}),
        ({"sandbox": "subprocess"}, None),
    ],
)
def test_effects_follow_the_knobs(knobs: Any, effects: set[str] | None) -> None:
    assert ShellPolicy(**knobs).allowed_effects() == effects
