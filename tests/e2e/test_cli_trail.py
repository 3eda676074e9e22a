"""`toolcrib calls` and `toolcrib audit`: what happened, and whether it was written so."""

from __future__ import annotations

import json
import os
import re
import sqlite3

import pytest


@pytest.fixture
def used(cli):
    """A project with one good, one refused and one wrong call."""
    cli("call", "add", "a=1", "b=2")
    cli("call", "save_note", "path=../x", "text=y", "--as", "bo")
    cli("call", "add", "a=x", "b=2")
    return cli


def test_before_the_first_call_there_is_nothing_yet(cli):
    for words in (["calls"], ["audit", "search"], ["audit", "verify"], ["audit", "export"]):
        done = cli(*words)
        assert (done.code, done.out, done.err) == (0, "", "Nothing is on the trail yet.\n")
    assert cli("calls", "--json").json == []
    assert cli("audit", "search", "--json").json == []
    assert cli("audit", "verify", "--json").json["ok"] is True
    assert cli("approvals").err == "Nothing waits for approval.\n"
    assert not (cli.folder / ".toolcrib/trail.db").exists()


def test_recent_calls_the_newest_last(used):
    calls = used("calls", "--json").json
    assert [(c["tool"], c["principal"], c["status"], c["reason"]) for c in calls] == [
        ("add", "local", "ok", None),
        ("save_note", "bo", "denied", "path_outside_root"),
        ("add", "local", "error", "invalid_arguments"),
    ]
    assert calls[0]["door"] == "cli"
    lines = used("calls").out.splitlines()
    columns = "time id tool principal door status reason took"
    assert lines[0].split() == columns.split()
    assert lines[1].split()[3:6] == ["add", "local", "cli"]
    assert [calls[i]["id"] in line for i, line in enumerate(lines[1:])] == [True] * 3
    assert len(used("calls", "--limit", "1", "--json").json) == 1
    assert [c["principal"] for c in used("calls", "--status", "denied", "--json").json] == ["bo"]
    assert used("calls", "--tool", "nope").err == "No call fits.\n"


def test_the_trail_of_one_call(used):
    first = used("calls", "--json").json[0]["id"]
    events = used("calls", "show", first, "--json").json
    assert [e["type"] for e in events] == [
        "call.received",
        "call.decided",
        "call.started",
        "call.finished",
    ]
    shown = used("calls", "show", first).out
    assert shown.startswith(f"{first}   ")
    assert "call.finished" in shown
    missing = used("calls", "show", "c0")
    assert missing.code == 2
    assert missing.err == "there is no call 'c0' on the trail. `toolcrib calls` lists them\n"


@pytest.mark.parametrize(
    ("words", "types"),
    [
        (["--reason", "path_outside_root"], ["call.decided", "call.denied"]),
        (["--principal", "bo", "--status", "denied"], ["call.denied"]),
        (["--text", "OUTSIDE the folder"], ["call.decided", "call.denied"]),
        (["--tool", "add", "--type", "call.finished"], ["call.finished", "call.finished"]),
        (["--since", "1h", "--type", "call.denied"], ["call.denied"]),
    ],
)
def test_search_finds_by_everything(used, words, types):
    assert [event["type"] for event in used("audit", "search", *words, "--json").json] == types


def test_search_prints_lines_and_says_when_nothing_fits(used):
    line = used("audit", "search", "--type", "call.denied").out
    assert "call.denied" in line
    assert "reason=path_outside_root" in line
    assert used("audit", "search", "--text", "xyzzy").err == "Nothing fits.\n"


def test_verify_counts_and_says_what_could_still_be_forged(used):
    done = used("audit", "verify")
    assert done.code == 0
    (total,) = done.out.splitlines()
    assert re.fullmatch(r"3 runs   ok   (\d+) records, 0 anchored, \1 unanchored", total)
    *runs, last = used("audit", "verify", "--all").out.splitlines()
    assert len(runs) == 3
    assert all("   ok   " in line and "0 anchored" in line for line in runs)
    assert last == total
    assert done.err.startswith("The chain holds: ")
    assert "could still forge: the key is in .toolcrib/trail.db.key" in done.err
    assert "Set host.audit.anchor" in done.err


def test_verify_names_the_first_broken_record(used):
    with sqlite3.connect(used.folder / ".toolcrib/trail.db") as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        table = next(name for name in tables if "block" in name)
        rows = db.execute(f"SELECT rowid, lines FROM {table} ORDER BY rowid").fetchall()
        id_, lines = next((i, text) for i, text in rows if b"path_outside_root" in text)
        changed = lines.replace(b"path_outside_root", b"all_was_quite_fine")
        db.execute(f"UPDATE {table} SET lines = ? WHERE rowid = ?", (changed, id_))
    db.close()
    done = used("audit", "verify")
    assert done.code == 1
    run, first, total = done.out.splitlines()
    assert "   BROKEN   " in run
    assert first.startswith("  first broken record: ")
    assert first.endswith("the record was changed")
    assert total.startswith("3 runs   1 BROKEN   ")
    assert len(used("audit", "verify", "--all").out.splitlines()) == 5
    assert done.err.startswith("The chain is broken: ")
    report = used("audit", "verify", "--json")
    assert (report.code, report.json["ok"]) == (1, False)
    assert [run["ok"] for run in report.json["runs"]].count(False) == 1


def test_an_anchor_shows_a_trail_that_was_cut(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "host: {audit: {anchor: elsewhere/anchor}}\n")
    (cli.folder / "elsewhere").mkdir()
    cli("call", "add", "a=1", "b=2")
    kept = cli("audit", "verify")
    assert kept.code == 0
    assert ", 0 unanchored" in kept.out
    for file in (cli.folder / ".toolcrib").glob("trail.db*"):
        if file.suffix != ".key":
            file.unlink()
    cli("call", "add", "a=1", "b=2")
    cut = cli("audit", "verify")
    assert cut.code == 1
    assert "the store has 0" in cut.out


def test_verify_needs_the_key(used):
    (used.folder / ".toolcrib/trail.db.key").unlink()
    done = used("audit", "verify")
    assert done.code == 5
    assert "the key is missing, so nothing can be verified" in done.err
    assert not (used.folder / ".toolcrib/trail.db.key").exists()


def test_export_writes_json_lines(used):
    printed = used("audit", "export")
    events = [json.loads(line) for line in printed.out.splitlines()]
    assert events[0]["type"] == "host.started"
    assert sum(event["type"] == "call.denied" for event in events) == 1
    told = used("audit", "export", "-o", "trail.jsonl")
    assert told.out == ""
    assert told.err == f"Wrote {len(events)} events to trail.jsonl\n"
    file = used.folder / "trail.jsonl"
    assert file.read_text() == printed.out
    assert file.stat().st_mode & 0o077 == 0
    some = used("audit", "export", "-o", "some.jsonl", "--type", "call.denied", "--json").json
    assert some == {"events": 1, "output": "some.jsonl"}
    assert used("audit", "export", "--json").code == 2


def test_export_replaces_a_file_that_others_could_read(used):
    file = used.write("trail.jsonl", "old")
    file.chmod(0o644)
    os.link(file, used.folder / "copy")
    assert used("audit", "export", "-o", "trail.jsonl").code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert (used.folder / "copy").read_text() == "old", "the old file is not written into"
    assert sorted(p.name for p in used.folder.iterdir() if "jsonl" in p.name) == ["trail.jsonl"]


@pytest.mark.parametrize("target", ["mine", "missing"])
def test_export_does_not_write_through_a_link(used, target):
    mine = used.write("mine", "precious")
    (used.folder / "trail.jsonl").symlink_to(target)
    # The name under which a draft once stood, in case somebody lies in wait there.
    (used.folder / "trail.jsonl.new").symlink_to("mine")
    done = used("audit", "export", "-o", "trail.jsonl")
    assert done.code == 2
    assert done.err.startswith("trail.jsonl is a link, and the trail is not written through one")
    (used.folder / "trail.jsonl").unlink()
    assert used("audit", "export", "-o", "trail.jsonl").code == 0
    assert mine.read_text() == "precious"
    assert not (used.folder / "missing").exists()


def test_export_needs_a_file_in_a_folder(used):
    os.mkfifo(used.folder / "pipe")
    assert used("audit", "export", "-o", "pipe").err == "pipe is not a file. Name another one\n"
    done = used("audit", "export", "-o", "no/trail.jsonl")
    assert (done.code, done.err) == (
        2,
        "there is no folder no. Make it first, or name another file\n",
    )


def test_the_beginning_of_an_id_is_enough(used):
    ids = [call["id"] for call in used("calls", "--json").json]
    heads = [ids[1][:n] for n in range(1, 40)]
    shared = [head for head in heads if all(each.startswith(head) for each in ids)][-1]
    own = next(head for head in heads if [e for e in ids if e.startswith(head)] == [ids[1]])
    assert used("calls", "show", own, "--json").json == used("calls", "show", ids[1], "--json").json
    assert used("calls", "show", own).out.startswith(f"{ids[1]}   ")
    several = used("calls", "show", shared)
    assert (several.code, several.out) == (2, "")
    listed = "".join(f"  {each}\n" for each in sorted(ids))
    assert several.err == f"{shared!r} is the beginning of 3 calls:\n{listed}"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["calls", "shwo"], "there is no command 'shwo'. Did you mean show?"),
        (["approvals", "alow", "a1"], "there is no command 'alow'. Did you mean allow?"),
        (["audit", "verfy"], "there is no command 'verfy'. Did you mean verify?"),
        (["config", "chek"], "there is no command 'chek'. Did you mean check?"),
        (["policy", "tset"], "there is no command 'tset'. Did you mean test?"),
        (["grants", "xyzzy"], "there is no command 'xyzzy'. See `toolcrib grants --help`."),
        (["aproval"], "there is no command 'aproval'. Did you mean approvals?"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_mistyped_command_gets_a_suggestion(empty, words, hint):
    done = empty(*words)
    assert (done.code, done.out) == (2, "")
    assert hint in done.err
