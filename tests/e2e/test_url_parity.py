"""A command says the same of a project here and of the host that runs it."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

SAME = {
    "call": "call add a=1 b=2",
    "call --json": "call add a=1 b=2 --json",
    "call with wrong arguments": "call add a=one b=2",
    "call of no tool": "call ad a=1",
    "call that is denied": "call save_note path=../x text=y",
    "call under no profile": "call add a=1 b=2 --profile develper",
    "call that nobody answers": "call save_note path=notes/later text=y --wait 100ms",
    "call that nobody answers --json": "call save_note path=notes/l text=y --wait 100ms --json",
    "call without words": "call add nonsense",
    "explain": "explain save_note path=../x text=y",
    "explain --json": "explain save_note path=notes/x text=y --json",
    "explain of no tool": "explain ad",
    "explain for another": "explain add a=1 b=2 --as bo",
    "explain --all": "explain --all",
    "explain --all --json": "explain --all --json",
    "tools": "tools",
    "tools --json": "tools --json",
    "tools --format": "tools --format anthropic",
    "tools --effect": "tools --effect write",
    "tools for another": "tools --as bo --json",
    "tools search": "tools search add numbers",
    "tools search --json": "tools search note --limit 1 --json",
    "tools search for nothing": "tools search zebra",
    "tools show": "tools show save_note",
    "tools show --json": "tools show save_note --json",
    "tools show of no tool": "tools show ad",
    "tools check": "tools check",
    "tools check --json": "tools check --json",
    "calls": "calls",
    "calls --json": "calls --json --status denied",
    "calls that fit nothing": "calls --tool none",
    "calls show": "calls show {call}",
    "calls show a beginning": "calls show {beginning} --json",
    "calls show of none": "calls show zz",
    "approvals": "approvals",
    "approvals --all --json": "approvals --all --json",
    "approvals show": "approvals show {approval}",
    "approvals show of none": "approvals show zz",
    "approvals allow of none": "approvals allow zz",
    "approvals allow as was not offered": "approvals allow {approval} --reach always",
    "grants": "grants",
    "grants --json": "grants --all --json",
    "grants revoke of none": "grants revoke zz",
    "audit search": "audit search --type call.denied",
    "audit search --json": "audit search --tool add --json",
    "audit search for words": "audit search --text outside --limit 2",
    "audit verify": "audit verify",
    "audit verify --json": "audit verify --json",
    "audit export": "audit export --type call.denied",
    "config show": "config show",
    "config show --json": "config show --json",
    "config check": "config check",
    "config check --json": "config check --json",
    "policy verify": "policy verify",
    "policy verify --json": "policy verify --json",
    "doctor": "doctor",
    "doctor --json": "doctor --json",
    "providers": "providers",
    "providers --json": "providers --json",
    "providers review of none": "providers review nothing",
    "plugins": "plugins",
    "plugins --json": "plugins --json",
    "version": "version",
    "version --json": "version --json",
}
MASKS = (
    # Ids, moments and durations differ from one run of a command to the next.
    (r"\s*--url \S+", ""),
    (r"\b[akgs][0-9a-f]{8,40}\b", "ID"),
    (r"\b[0-9a-f]{6,}-[0-9a-f]+\b", "ID"),
    (r'"(call_id|id|request)": "[^"]*"', r'"\1": "ID"'),
    (r'"(key|created|expires|time|since|door|run)": ("[^"]*"|[0-9.]+)', r'"\1": "X"'),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( \w+)?", "WHEN"),
    (r"\b(\d+h)?(\d+m)?\d+(\.\d+)? ?m?s\b|\b(\d+h)?\d+m\b", "LONG"),
    (r"[ \t]+", " "),
)


def masked(text: str) -> str:
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    return text.strip()


@pytest.fixture(scope="module")
def world(starter, cli_in, tmp_path_factory):
    """One project with a past, and the host that runs it."""
    folder = tmp_path_factory.mktemp("parity")
    shutil.copytree(starter, folder, dirs_exist_ok=True)
    cli = cli_in(folder)
    text = (folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "    approval: {timeout: 1h, remember: [once, 1h]}\n")
    with cli.serve() as running:
        cli("call", "add", "a=1", "b=2")
        cli("call", "save_note", "path=../x", "text=y", "--url", running.url)
        assert cli("call", "save_note", "path=notes/a", "text=y", "--wait", "100ms").code == 4
        call = cli("calls", "--json").json[0]["id"]
        approval = cli("approvals", "--json").json[0]["id"]
        known = {"call": call, "beginning": call[:-1], "approval": approval}
        yield cli, running.url, known


@pytest.mark.parametrize("words", SAME.values(), ids=SAME.keys())
def test_a_command_says_the_same_here_and_there(world, words):
    cli, url, known = world
    typed = words.format(**known).split()
    with ThreadPoolExecutor(2) as pool:
        here, there = pool.map(lambda more: cli(*typed, *more), [(), ("--url", url)])
    assert masked(there.out) == masked(here.out)
    assert masked(there.err) == masked(here.err)
    assert there.code == here.code
    assert "Unexpected" not in here.err


LOCAL = (
    "init",
    "config fmt",
    "config schema",
    "policy test rows.yaml",
    "tokens list",
    "auth login up",
    "auth logout up",
    "auth status",
    "serve",
)


@pytest.mark.parametrize("words", LOCAL)
def test_what_is_about_files_says_so(empty, words):
    done = empty(*words.split(), "--url", "http://127.0.0.1:9")
    assert (done.code, done.out) == (2, "")
    name = " ".join(["toolcrib", *words.split()[: 1 if words in ("init", "serve") else 2]])
    text = f"{name} is about files on this machine; --url has nothing to do with it\n"
    assert done.err == text
    assert list(empty.folder.iterdir()) == []


def test_every_command_is_in_one_of_the_tables():
    import click

    from toolcrib.cli.commands import cli

    def leaves(path, command):
        if not isinstance(command, click.Group):
            yield " ".join(path)
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from leaves([*path, name], command.get_command(context, name))

    told = {words.split()[0]: None for words in (*SAME.values(), *LOCAL)}
    pairs = {" ".join(words.split()[:2]) for words in (*SAME.values(), *LOCAL)}
    pairs |= {"tools list", "calls list", "approvals list", "grants list", "tokens list"}
    pairs |= {"providers list"}
    elsewhere = {
        *("calls tail", "calls cancel", "approvals watch", "approvals deny", "connect"),
        *("tokens new", "tokens revoke"),
    }
    for leaf in leaves([], cli):
        name = leaf if " " in leaf else None
        assert (name or leaf) in (pairs if name else told) or leaf in elsewhere, leaf
