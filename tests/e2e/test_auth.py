"""`toolcrib auth`, as people use it: a process, a browser, and a server that wants a login."""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from authority import Guarded, browse, guarded

CONFIG = """
version: 1
providers:
  up: {{type: mcp, url: "{url}", auth: {{type: oauth}}}}
  plain: {{type: storage, backend: memory}}
"""


@pytest.fixture
async def up(empty: Any) -> AsyncIterator[Guarded]:
    async with guarded() as made:
        made.challenge["scope"] = "files:read"
        empty.write("toolcrib.yaml", CONFIG.format(url=made.url))
        yield made


async def start(folder: Path, *words: str) -> Process:
    """The command, with a terminal's lines to read."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "toolcrib", "auth", *words,
        cwd=folder, stdin=DEVNULL, stdout=PIPE, stderr=PIPE,
    )  # fmt: skip


async def ran(folder: Path, *words: str) -> tuple[int | None, str, str]:
    """How the command ends: code, output, talk."""
    process = await start(folder, *words)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def login(folder: Path, *more: str) -> tuple[int | None, str, str]:
    """Log in: the address is printed, the browser goes there and comes back."""
    process = await start(folder, "login", "up", "--no-browser", *more)
    assert process.stderr is not None
    talk = ""
    while not (found := re.search(r"^ +(http://\S+)$", talk, re.MULTILINE)):
        line = (await process.stderr.readline()).decode()
        assert line, talk
        talk += line
    await browse(found[1])
    out, err = await process.communicate()
    return process.returncode, out.decode(), talk + err.decode()


async def test_logging_in_being_logged_in_and_logging_out(up: Guarded, tmp_path: Path) -> None:
    code, out, talk = await login(tmp_path)
    assert code == 0, talk
    assert f"up   logged in at {up.authority.issuer} until 2" in out
    assert "Granted: files:read" in talk
    assert up.url in talk
    first = out + talk

    code, out, talk = await ran(tmp_path, "status", "--json")
    assert code == 0
    assert '"state": "yes"' in out
    assert '"renewed": true' in out

    code, more, _ = await ran(tmp_path, "status")
    assert "files:read" in more
    for secret in (*up.authority.tokens, *up.authority.refreshes):
        assert secret not in first + out + more + talk

    code, out, talk = await ran(tmp_path, "logout", "up")
    assert (code, out) == (0, "up   forgotten\n")
    assert "The server was not told" in talk
    code, out, talk = await ran(tmp_path, "status", "--json")
    assert '"state": "no"' in out
    assert "run: toolcrib auth login up" in out


async def test_the_port_and_the_json_are_as_asked_for(up: Guarded, tmp_path: Path) -> None:
    async with guarded() as other:
        free = other.server.port
    code, out, _ = await login(tmp_path, "--port", str(free), "--json")
    assert code == 0
    assert f'"issuer": "{up.authority.issuer}"' in out
    assert up.authority.asked[0]["redirect_uri"] == f"http://127.0.0.1:{free}/callback"


async def test_nobody_comes(up: Guarded, tmp_path: Path) -> None:
    code, out, talk = await ran(tmp_path, "login", "up", "--no-browser", "--timeout", "100ms")
    assert (code, out) == (5, "")
    assert "nobody logged in" in talk


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["login", "upp"], 2, "there is no provider 'upp'. Did you mean up?"),
        (["login", "plain"], 2, "the provider 'plain' needs no login"),
        (["logout", "up"], 2, "nothing is kept of 'up'"),
        (["login", "up", "--url", "http://127.0.0.1:1"], 2, "is about files on this machine"),
        (["status", "--url", "http://127.0.0.1:1"], 2, "is about files on this machine"),
    ],
    ids=["typo", "plain", "nothing", "login-url", "status-url"],
)
async def test_mistakes_are_said(
    up: Guarded, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    ended, out, talk = await ran(tmp_path, *words)
    assert (ended, out) == (code, "")
    assert said in talk


async def test_what_is_left_over_is_shown_and_can_be_forgotten(
    up: Guarded, tmp_path: Path, empty: Any
) -> None:
    await login(tmp_path)
    empty.write("toolcrib.yaml", "version: 1\n")
    code, out, talk = await ran(tmp_path, "status")
    assert code == 0
    assert "left over" in out
    assert "toolcrib auth logout up" in talk
    assert (await ran(tmp_path, "logout", "up"))[0] == 0
    assert "no login is kept" in (await ran(tmp_path, "status"))[2]
