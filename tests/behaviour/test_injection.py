"""200 payloads through every kind that takes text: each stays the text that it is."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from executing import children, descriptors, until
from loopback import Seen, reply_json, serve
from needs import needs
from toolcrib import ToolHost

COMMANDS = ("touch marker", "/usr/bin/touch marker", "sh -c 'touch marker'", "touch${IFS}marker")
WRAPPINGS = (
    "; {}", "| {}", "& {}", "&& {}", "`{}`", "$({})", "\n{}", "\r\n{}", "a\0{}", "'; {} #", '"; {}',
    "--output=../marker {}", "--upload-pack={}", "-c core.pager={}", "--exec={}", "--help; {}",
    "ext::{}", "ext::sh -c {}", "HEAD^{{/{}}}", ":(exclude){}", ":!{}", "@{{{}}}", "HEAD..--{}",
    "../{}", "../../{}", "..", "/", "./../marker", "a/../../marker", "~/{}", "/../{}", ".git/{}",
    "%2e%2e/{}", "..%2f{}", "..\\{}", "%00{}", "?x={}", "#{}", "//evil.test/{}", "@evil.test/{}",
    "http://evil.test/{}", "'; drop table words; -- {}", "' or '1'='1 {}",
    "\"; delete from words; {}", "1; attach database '../marker' as m; {}", "load_extension('{}')",
    "\u202e{}", "\uff07 or 1 {}",
    "${{jndi:{}}}", "{{{{{}}}}}", "%s%n{}",
)  # fmt: skip


def payloads() -> list[str]:
    made = dict.fromkeys(wrap.format(command) for command in COMMANDS for wrap in WRAPPINGS)
    more = (f"{'../' * n}marker" for n in range(1, 40))
    found = [*made, *more][:200]
    assert len(found) == 200
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What is to be kept, in a folder within the one in which nothing may change."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "kept.txt").write_text("kept\n")
    (tmp_path / "outside.txt").write_text("outside\n")
    return inner


def snapshot(top: Path, without: str) -> dict[str, str]:
    """All files below `top`, but for those of one folder, with what is in them."""
    found: dict[str, str] = {}
    for base, folders, files in os.walk(top):
        folders[:] = [name for name in folders if name != without]
        found |= {f"{base}/{name}": Path(base, name).read_text() for name in files}
    return found


def host_of(top: Path, *tools: dict[str, Any]) -> ToolHost:
    file = top / "toolcrib.yaml"
    file.write_text(json.dumps({"version": 1, "tools": list(tools)}))
    return ToolHost.from_config(file)


@pytest.fixture
def repository(folder: Path) -> Path:
    git = [needs("git", "git"), "-C", str(folder)]
    me = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, *me, "commit", "-q", "-m", "First"], check=True)
    return folder


async def test_refs_paths_branches_and_times_of_git(repository: Path, tmp_path: Path) -> None:
    actions = ["log", "show", "diff", "blame", "create_branch", "checkout", "add", "diff_since"]
    policy = {"root": "inner", "allowed_actions": actions}
    calls: list[dict[str, Any]] = []
    for number, text in enumerate(payloads()):
        action = actions[number % len(actions)]
        asked: dict[str, Any] = {"action": action}
        if action in ("blame", "add"):
            asked["paths"] = [text]
        elif action in ("create_branch", "checkout"):
            asked["branch"] = text
        elif action == "diff_since":
            asked["since"] = text
        else:
            asked["ref"] = text
        calls.append(asked)
    async with host_of(tmp_path, {"template": "git", "policy": policy}) as host:
        before = snapshot(tmp_path, "inner"), children(), descriptors()
        for asked in calls:
            result = await host.call("git", asked)
            assert result.reason not in (None, "unexpected_failure", "timeout"), (asked, result)
        await until(lambda: (children(), descriptors()) == before[1:])
        assert snapshot(tmp_path, "inner") == before[0]
    assert sorted(os.listdir(repository)) == [".git", "kept.txt"]  # noqa: PTH208


@pytest.mark.parametrize("action", ["read", "write", "move", "delete", "list", "search"])
async def test_paths_of_files(action: str, folder: Path, tmp_path: Path) -> None:
    actions = ["read", "write", "move", "delete", "list", "search"]
    policy = {"root": "inner", "allowed_actions": actions}
    more: dict[str, dict[str, Any]] = {
        "write": {"content": "x", "parents": True},
        "search": {"pattern": "kept"},
    }
    async with host_of(tmp_path, {"template": "files", "policy": policy}) as host:
        before = snapshot(tmp_path, "inner"), children(), descriptors()
        for text in payloads():
            asked = {"action": action, "path": text, **more.get(action, {})}
            if action == "move":
                asked = {"action": action, "path": "kept.txt", "to": text, "parents": True}
            result = await host.call("files", asked)
            assert result.reason not in ("unexpected_failure", "timeout"), (asked, result)
            assert "outside" not in repr(result.output)
            if action == "move" and result.success:
                back = {"action": "move", "path": text, "to": "kept.txt"}
                assert (await host.call("files", back)).success, text
        await until(lambda: (children(), descriptors()) == before[1:])
        assert snapshot(tmp_path, "inner") == before[0]
    assert (folder / "kept.txt").read_text() == "kept\n"


async def test_parameters_of_sql(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "words.db")
    database.execute("create table words(word text)")
    database.close()
    knobs = {"read_only": False, "allowed_statements": ["select", "insert"]}
    policy = {"database": "sqlite:words.db", **knobs}
    texts = payloads()
    async with host_of(tmp_path, {"template": "sql", "policy": policy}) as host:
        for start in range(0, len(texts), 20):
            some = texts[start : start + 20]
            insert = f"insert into words values {', '.join(['(?)'] * len(some))}"
            assert (await host.call("sql", {"statement": insert, "parameters": some})).success
        found = await host.call("sql", {"statement": "select word from words order by rowid"})
        assert [row[0] for row in found.output["rows"]] == texts
    assert "marker" not in os.listdir(tmp_path)  # noqa: PTH208


async def test_statements_of_sql_do_only_what_is_allowed(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "words.db")
    database.execute("create table words(word text)")
    database.execute("insert into words values ('kept')")
    database.commit()
    database.close()
    before = (tmp_path / "words.db").read_bytes()
    policy = {"database": "sqlite:words.db"}
    async with host_of(tmp_path, {"template": "sql", "policy": policy}) as host:
        for text in payloads():
            for statement in (text, f"select word from words where word = '{text}'"):
                result = await host.call("sql", {"statement": statement})
                assert result.reason != "unexpected_failure", (statement, result)
    assert sorted(os.listdir(tmp_path)) == ["toolcrib.yaml", "words.db"]  # noqa: PTH208
    assert (tmp_path / "words.db").read_bytes() == before


async def test_parameters_of_http(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "q": {"type": "string"}},
        "required": ["id", "q"],
    }

    def echo(seen: Seen) -> bytes:
        return reply_json({"path": seen.path, "query": seen.query})

    texts = payloads()
    sent = 0
    async with serve(echo) as server:
        config = {
            "url": f"{server.url}/users/{{id}}/end",
            "query": {"q": "{q}"},
            "headers": {"X-Fixed": "1"},
            "private": True,
        }
        tool = {"name": "web", "kind": "http", "effects": ["read"], "input_schema": schema}
        async with host_of(tmp_path, {**tool, "config": config}) as host:
            for text in texts:
                result = await host.call("web", {"id": "7", "q": text})
                assert result.success, (text, result)
                assert result.output == {"path": "/users/7/end", "query": [["q", text]]}
                result = await host.call("web", {"id": text, "q": "x"})
                if not result.success:
                    assert result.reason == "url_not_allowed", (text, result)
                    continue
                sent += 1
                path = result.output["path"]
                assert path.startswith("/users/")
                assert path.endswith("/end")
                assert path.count("/") == 3, text  # still one segment
        assert len(server.seen) == len(texts) + sent
        assert {seen.headers["host"] for seen in server.seen} == {f"127.0.0.1:{server.port}"}
        assert {seen.headers["x-fixed"] for seen in server.seen} == {"1"}


async def test_keys_and_values_of_a_store(tmp_path: Path) -> None:
    file = tmp_path / "toolcrib.yaml"
    store = {"type": "storage", "backend": "sqlite", "path": "notes.db"}
    file.write_text(json.dumps({"version": 1, "providers": {"notes": store}}))
    kept: list[str] = []
    async with ToolHost.from_config(file) as host:
        for text in payloads():
            result = await host.call("notes-write", {"key": text, "value": {"text": text}})
            if not result.success:
                assert result.reason == "key_invalid", (text, result)
                continue
            kept.append(text)
            found = await host.call("notes-read", {"key": text})
            assert found.output["value"] == {"text": text}
            some = await host.call("notes-search", {"text": text, "limit": 100})
            assert text in [item["key"] for item in some.output["items"]]
        items = (await host.call("notes-list", {"limit": 500})).output["items"]
        assert [item["key"] for item in items] == sorted(kept)
    assert len(kept) > 150


async def test_arguments_and_input_of_programs(folder: Path, tmp_path: Path) -> None:
    policy = {"programs": ["printf"], "sandbox": "subprocess", "root": "inner"}
    before = sorted(os.listdir(tmp_path)) + sorted(os.listdir(folder))  # noqa: PTH208
    ran = 0
    async with host_of(tmp_path, {"template": "shell", "policy": policy}) as host:
        for text in payloads():
            asked = {"program": "printf", "arguments": ["%s", text]}
            result = await host.call("shell", asked)
            if result.success:
                ran += 1
                assert result.output["stdout"] == text
            else:
                assert result.reason == "argument_not_allowed", (text, result)
            refused = await host.call("shell", {"program": text})
            assert refused.reason == "program_not_allowed"
    assert ran > 150
    assert sorted([*os.listdir(tmp_path), *os.listdir(folder)]) == sorted(  # noqa: PTH208
        [*before, "toolcrib.yaml"]
    )
