"""What a command in a sandbox sees of the file system, and of the host at all."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import ToolFailure

Make = Callable[..., Any]
APART = ["bubblewrap", "landlock"]


async def sh(sandbox: Any, line: str, cwd: Path | str, **how: Any) -> tuple[int, str]:
    ended = await sandbox.run(["/bin/sh", "-c", line], cwd=str(cwd), **{"env": {}, **how})
    return ended.exit_code, ended.stdout.decode()


@pytest.mark.parametrize("type", APART)
async def test_paths_can_be_read_or_written(make: Make, tmp_path: Path, type: str) -> None:
    for name in ("read", "write", "hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    box = make(type, read=["read"], write=["write"])
    assert await sh(box, "cat file", tmp_path / "read") == (0, "read")
    assert (await sh(box, "echo x > file", tmp_path / "read"))[0] != 0
    assert await sh(box, "echo x > new && cat file", tmp_path / "write") == (0, "write")
    assert (await sh(box, f"cat {tmp_path}/hidden/file", tmp_path / "read"))[0] != 0
    assert (await sh(box, f"ls {tmp_path}/hidden", tmp_path / "read"))[0] != 0
    assert (tmp_path / "write" / "new").read_text() == "x\n"
    assert (tmp_path / "read" / "file").read_text() == "read"


async def test_a_part_of_a_writable_folder_can_be_kept(make: Make, tmp_path: Path) -> None:
    (tmp_path / "work" / "kept").mkdir(parents=True)
    box = make("bubblewrap", write=["work"], read=["work/kept"])
    assert (await sh(box, "touch a", tmp_path / "work"))[0] == 0
    assert (await sh(box, "touch kept/a", tmp_path / "work"))[0] != 0
    assert not (tmp_path / "work" / "kept" / "a").exists()


@pytest.mark.parametrize("type", APART)
async def test_a_path_behind_a_link_has_both_names(make: Make, tmp_path: Path, type: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("text")
    (tmp_path / "link").symlink_to("real")
    box = make(type, read=["link"])
    for name in ("real", "link"):
        assert await sh(box, f"cat {tmp_path}/{name}/file", tmp_path / name) == (0, "text")


@pytest.mark.parametrize("type", APART)
async def test_a_command_gets_more_paths(make: Make, tmp_path: Path, type: str) -> None:
    box = make(type)
    line = "echo x > file"
    with pytest.raises(ToolFailure, match="does not show the folder"):
        await sh(box, line, tmp_path)
    assert (await sh(box, line, tmp_path, read=["."]))[0] != 0
    assert (await sh(box, line, tmp_path, write=["."]))[0] == 0
    with pytest.raises(FileNotFoundError):
        await sh(box, line, tmp_path, write=["nowhere"])
    with pytest.raises(PermissionError, match="whole file system"):
        await sh(box, line, tmp_path, read=["/"])


@pytest.mark.parametrize("type", APART)
async def test_tmp_is_private(make: Make, type: str) -> None:
    box = make(type)
    line = 'cd "${TMPDIR:-/tmp}" && ls -A && echo x > mine && cat mine && pwd'
    for _ in range(2):
        code, said = await sh(box, line, "/tmp")
        listed, place = said.splitlines()
        assert (code, listed) == (0, "x")
        assert not os.access("/tmp/mine", os.F_OK)
        assert place == "/tmp" or not os.access(place, os.F_OK)


@pytest.mark.parametrize("type", ["bubblewrap"])
async def test_the_rest_is_read_only(make: Make, type: str) -> None:
    box = make(type)
    for place in ("/", "/usr", "/etc", "/dev", "/proc/sys/kernel", "/home", "/var"):
        assert (await sh(box, f"echo x > {place}/file", "/tmp"))[0] != 0, place
    for place in ("/proc/self/comm", "/proc/self/oom_score_adj"):
        assert (await sh(box, f"echo 1 > {place}", "/tmp"))[0] != 0, place
    code, said = await sh(box, "ls -A / /etc; id -un; hostname; cat /etc/hostname", "/tmp")
    assert "shadow" not in said
    assert "home" not in said
    assert "sys\n" not in said
    assert "nobody\nsandbox" in said
    assert code != 0  # the host's name is not shown


@pytest.mark.parametrize("type", ["subprocess", *APART])
async def test_the_environment_is_what_is_given(
    make: Make, monkeypatch: pytest.MonkeyPatch, type: str
) -> None:
    monkeypatch.setenv("HANDED_ON", "1")
    monkeypatch.setenv("KEPT", "2")
    box = make(type, environment=["HANDED_ON", "ABSENT"])
    _, said = await sh(box, "exec /usr/bin/env -u PWD", "/usr", env={"GIVEN": "a\nb"})
    found = dict(line.split("=", 1) for line in said.replace("a\nb", "a|b").splitlines())
    found.pop("TOOLCRIB_COMMAND", None)
    found.pop("TMPDIR", None)
    found.pop("_", None)
    assert found == {
        "HANDED_ON": "1",
        "GIVEN": "a|b",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
    }


@pytest.mark.parametrize("type", APART)
async def test_programs_have_to_be_seen(make: Make, tmp_path: Path, type: str) -> None:
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    with pytest.raises(FileNotFoundError, match="does not show this program"):
        await make(type).run([str(program)], cwd="/usr", env={})
    ended = await make(type, read=["."]).run(["./tool"], cwd=str(tmp_path), env={})
    assert ended.stdout == b"ran\n"
    with pytest.raises(FileNotFoundError, match="no such program"):
        await make(type).run(["no-such-program"], cwd="/usr", env={})
    with pytest.raises(PermissionError):
        await make(type).run(["/etc/passwd"], cwd="/usr", env={})


@pytest.mark.parametrize("type", ["subprocess", *APART])
@pytest.mark.parametrize("argv", [[], [""], ["echo", "a\0b"]], ids=["none", "empty", "nul"])
async def test_what_is_no_command_is_refused(make: Make, type: str, argv: list[str]) -> None:
    with pytest.raises(ValueError, match="program"):
        await make(type).run(argv, cwd="/usr", env={})


@pytest.mark.parametrize("type", APART)
async def test_nobody_has_powers_inside(make: Make, type: str) -> None:
    _, said = await sh(make(type), "grep Cap /proc/$$/status", "/usr")
    powers = dict(line.split(":\t") for line in said.splitlines())
    # An ordinary user has none to lose, and cannot empty the set of those that could be had.
    bounded = ["CapBnd"] if type == "bubblewrap" or os.geteuid() == 0 else []
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", *bounded):
        assert int(powers[name], 16) == 0, name


@pytest.mark.parametrize("type", ["subprocess", *APART])
async def test_descriptors_stay_outside(make: Make, tmp_path: Path, type: str) -> None:
    (tmp_path / "file").write_text("secret")
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        program = (
            "import os\nfor n in range(3, 1000):\n"
            "  try: os.fstat(n); print(n)\n  except OSError: pass"
        )
        ended = await make(type).run(["/usr/bin/python3", "-c", program], cwd="/usr", env={})
    finally:
        os.close(descriptor)
    assert (ended.exit_code, ended.stdout) == (0, b"")


@pytest.mark.parametrize("type", APART)
async def test_a_path_that_became_a_link_is_not_followed(
    make: Make, tmp_path: Path, type: str
) -> None:
    (tmp_path / "work" / "part").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    box = make(type, write=["work"], read=["work/part"])
    assert (await sh(box, "true", tmp_path / "work"))[0] == 0
    (tmp_path / "work" / "part").rmdir()
    (tmp_path / "work" / "part").symlink_to(tmp_path / "secret")
    with pytest.raises(ToolFailure, match="leads elsewhere") as caught:
        await sh(box, "ls part", tmp_path / "work")
    assert caught.value.reason == "sandbox_unavailable"


@pytest.mark.parametrize("type", ["subprocess", *APART])
@pytest.mark.parametrize(
    "env", [{"A": "x\0--bind\0/\0/"}, {"A=B": "x"}, {"": "x"}], ids=["nul", "equals", "empty"]
)
async def test_a_variable_is_one_variable(make: Make, type: str, env: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="environment variable"):
        await make(type).run(["true"], cwd="/usr", env=env)


async def test_a_network_of_its_own_works_inside(make: Make) -> None:
    program = (
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "client = socket.create_connection(server.getsockname())\n"
        "server.accept()[0].sendall(b'inside')\n"
        "print(client.recv(9))\n"
    )
    ended = await make("bubblewrap").run(["/usr/bin/python3", "-c", program], cwd="/tmp", env={})
    assert ended.stdout == b"b'inside'\n", ended


@pytest.mark.parametrize("type", APART)
@pytest.mark.parametrize("network", [True, False])
async def test_the_hosts_network_is_shown_when_asked_for(
    make: Make, type: str, network: bool
) -> None:
    box = make(type, network=network)
    assert ("network" in box.isolates) is not network
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = f"import socket; socket.create_connection({server.getsockname()!r}); print('in')"
        ended = await box.run(["/usr/bin/python3", "-c", program], cwd="/usr", env={})
    assert (ended.stdout == b"in\n") is network


async def test_modes_and_times_of_other_files_cannot_be_changed(make: Make, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    other = tmp_path / "other"
    other.write_text("x")
    os.utime(other, (1, 1))
    box = make("landlock", write=["work"])
    for line in (f"chmod 777 {other}", f"touch {other}", f"ln {other} hard", f"rm -f {other}"):
        assert (await sh(box, line, tmp_path / "work"))[0] != 0, line
    assert (other.stat().st_mtime, other.stat().st_mode & 0o777) == (1, 0o644)
    assert (await sh(box, "touch mine && touch mine && rm mine", tmp_path / "work"))[0] == 0
