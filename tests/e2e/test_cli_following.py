"""Looking on while other processes work: `calls tail` and `approvals watch`."""

from __future__ import annotations

import json
import signal
import threading

import pexpect
import pytest

NOTE = ("call", "save_note", "path=notes/today", "text=hello")
PROMPT = r"Refused by itself in \d:\d\d\.  > "


class Following:
    """A command that is left running, line by line."""

    def __init__(self, cli, *words):
        self.process = cli.start(*words)
        # A test that fails must not wait for lines for ever.
        self._alarm = threading.Timer(40, self.process.kill)
        self._alarm.start()

    def says(self, text):
        line = self.process.stderr.readline()
        assert text in line, line

    def line(self):
        return self.process.stdout.readline()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err

    def close(self):
        self._alarm.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=20)


@pytest.fixture
def follow(cli):
    opened = []

    def start(*words):
        opened.append(Following(cli, *words))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def ended(child):
    child.expect(pexpect.EOF)
    child.close()
    return child.before.replace("\r\n", "\n"), child.exitstatus


def test_tail_shows_calls_of_other_processes_as_they_end(cli, follow):
    cli("call", "add", "a=1", "b=1")
    tail = follow("calls", "tail")
    tail.says("Following calls. Ctrl-C stops.")
    cli("call", "add", "a=1", "b=2")
    cli("call", "save_note", "path=../x", "text=y", "--as", "bo")
    first, second = tail.line(), tail.line()
    known = [call["id"] for call in cli("calls", "--json").json]
    assert known[1] in first
    assert first.split()[3:6] == ["add", "local", "ok"]
    assert known[2] in second
    assert second.split()[3:7] == ["save_note", "bo", "denied", "path_outside_root"]
    code, out, err = tail.interrupt()
    assert (code, out, err) == (130, "", "\nCancelled.\n")


def test_tail_filters_and_prints_what_the_list_prints(cli, follow):
    tail = follow("calls", "tail", "--json", "--principal", "bo", "--status", "denied")
    tail.says("Nothing is on the trail yet. Waiting for the first call")
    cli("call", "add", "a=1", "b=2")
    cli("call", "add", "a=1", "b=2", "--as", "bo")
    cli("call", "save_note", "path=../x", "text=y", "--as", "bo")
    shown = json.loads(tail.line())
    (listed,) = cli("calls", "--status", "denied", "--json").json
    assert shown.pop("time") == pytest.approx(listed.pop("time"), abs=1e-3)
    assert shown == listed
    assert tail.interrupt()[:2] == (130, "")


def test_tail_by_tool(cli, follow):
    cli("call", "add", "a=1", "b=1")
    tail = follow("calls", "tail", "--tool", "save_note", "--json")
    tail.says("Following")
    cli("call", "add", "a=1", "b=2")
    cli("call", "save_note", "path=../x", "text=y")
    assert json.loads(tail.line())["tool"] == "save_note"


@pytest.mark.parametrize("words", [("calls", "tail"), ("approvals", "watch")], ids=" ".join)
def test_what_is_not_kept_cannot_be_followed(cli, words):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "host: {store: memory}\n")
    done = cli(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("host.store is memory: ")


def test_watch_asks_what_another_process_waits_for(cli, terminal, follow):
    watch = terminal("approvals", "watch")
    watch.expect("Waiting for requests. Ctrl-C stops.")
    call = follow(*NOTE)
    watch.expect("local asks to run  save_note\r\n")
    watch.expect(PROMPT)
    watch.send("y")
    watch.expect(r"(a[0-9a-f]+)   allowed   save_note for local")
    assert call.line() == "saved notes/today\n"
    again = follow("call", "save_note", "path=notes/b", "text=c")
    watch.expect("notes/b")
    watch.expect(PROMPT)
    watch.send("n")
    watch.expect("A note for the model, or Enter for none: ")
    watch.sendline("not now")
    watch.expect("denied   save_note for local")
    out, err = again.process.communicate(timeout=20)
    assert (again.process.returncode, out) == (4, "")
    assert "said no: not now" in err
    watch.sendintr()
    words, code = ended(watch)
    assert code == 130
    assert "Cancelled." in words


def test_watch_asks_what_waits_already_and_tells_the_calls_before(cli, terminal):
    cli("call", "add", "a=1", "b=2")
    assert cli(*NOTE, "--wait", "100ms").code == 4
    watch = terminal("approvals", "watch")
    watch.expect(PROMPT)
    watch.send("m")
    watch.expect("Calls before, of this principal\r\n    add +ok ")
    watch.expect(PROMPT)
    watch.send("y")
    watch.expect("allowed   save_note")
    watch.sendintr()
    assert ended(watch)[1] == 130
    assert cli(*NOTE, "--wait", "100ms").out == "saved notes/today\n"


def test_watch_closes_a_question_that_is_answered_elsewhere(cli, terminal):
    assert cli(*NOTE, "--wait", "100ms").code == 4
    watch = terminal("approvals", "watch")
    watch.expect(PROMPT)
    (request,) = cli("approvals", "--json").json
    assert cli("approvals", "deny", request["id"]).code == 0
    watch.expect("No longer asked here.")
    watch.expect(f"{request['id']}   denied by ")
    watch.sendintr()
    assert ended(watch)[1] == 130


def test_ctrl_c_at_a_watched_question_leaves_it_pending(cli, terminal):
    assert cli(*NOTE, "--wait", "100ms").code == 4
    watch = terminal("approvals", "watch")
    watch.expect(PROMPT)
    watch.sendintr()
    assert ended(watch)[1] == 130
    assert [r["state"] for r in cli("approvals", "--json").json] == ["pending"]


def test_watch_says_when_answers_from_here_do_not_count(cli, terminal):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "    approval: {via: [console]}\n")
    assert cli(*NOTE, "--wait", "100ms").code == 4
    watch = terminal("approvals", "watch")
    watch.expect("waits, and answers from here do not count; those that do: console")
    watch.sendintr()
    assert ended(watch)[1] == 130


def test_watch_prints_one_line_a_request_and_asks_nothing(cli, follow):
    assert cli(*NOTE, "--wait", "100ms").code == 4
    watch = follow("approvals", "watch", "--json")
    watch.says("Waiting for requests.")
    first = json.loads(watch.line())
    assert cli("call", "save_note", "path=notes/b", "text=c", "--wait", "100ms").code == 4
    second = json.loads(watch.line())
    assert [first["arguments"]["path"], second["arguments"]["path"]] == ["notes/today", "notes/b"]
    assert watch.interrupt()[:2] == (130, "")
    assert {r["state"] for r in cli("approvals", "--json").json} == {"pending"}


def test_watch_needs_a_terminal_to_ask_at(cli):
    done = cli("approvals", "watch")
    assert (done.code, done.err) == (
        2,
        "there is no terminal to ask at. --json prints each request instead\n",
    )


def permit_editing(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "    approval: {edit: true}\n")


@pytest.mark.parametrize("words", [("approvals", "watch"), NOTE], ids=["watch", "call"])
def test_arguments_changed_at_the_terminal_are_checked_shown_and_run(cli, terminal, words):
    permit_editing(cli)
    if words != NOTE:
        assert cli(*NOTE, "--wait", "100ms").code == 4
    child = terminal(*words, EDITOR="", VISUAL="")
    child.expect(PROMPT)
    child.send("e")
    child.expect("or Enter to leave them: ")
    child.sendline('{"path": "notes/other", "txt": "x"}')
    child.expect("The arguments cannot be used; e edits them again.\r\n")
    child.expect("txt is not an argument of this tool")
    child.expect(PROMPT)
    child.send("e")
    child.expect("or Enter to leave them: ")
    child.sendline('{"path": "notes/other", "text": "x"}')
    child.expect("To be run with\r\n")
    child.expect(PROMPT)
    child.send("y")
    if words == NOTE:
        assert "saved notes/other\n" in ended(child)[0]
        assert not (cli.folder / "notes/today").exists()
        return
    child.expect("allowed   save_note for local")
    child.sendintr()
    assert ended(child)[1] == 130
    assert cli(*NOTE, "--wait", "100ms").out == "saved notes/other\n"


def test_arguments_that_do_not_fit_are_refused_and_the_request_waits(cli):
    permit_editing(cli)
    assert cli(*NOTE, "--wait", "100ms").code == 4
    (request,) = cli("approvals", "--json").json
    done = cli("approvals", "allow", request["id"], "--arguments", '{"path": 7, "text": "x"}')
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        f"the arguments do not fit save_note; {request['id']} waits:\n  path "
    )
    assert [r["state"] for r in cli("approvals", "--json").json] == ["pending"]


def test_who_answered_when_and_with_what_words(cli):
    assert cli(*NOTE, "--wait", "100ms").code == 4
    (request,) = cli("approvals", "--json").json
    assert cli("approvals", "deny", request["id"], "--note", "too early").code == 0
    assert cli("approvals").err == "Nothing waits for approval.\n"
    (answered,) = cli("approvals", "--all", "--json").json
    header, row = cli("approvals", "--all").out.splitlines()
    assert header.split()[-3:] == ["by", "answered", "note"]
    assert row.rstrip().endswith("too early")
    assert f"   {answered['by']}   " in row
    shown = cli("approvals", "show", request["id"]).out
    assert shown.startswith(f"{request['id']}   denied   save_note for local\n\n")
    for line in (f"  by            {answered['by']}\n", "  note          too early\n"):
        assert line in shown
    assert "  asked because effects other than read are asked     toolcrib.yaml:10\n" in shown
    assert "grant" not in shown


def test_the_beginning_of_an_approval_is_enough_to_show_it(cli):
    assert cli(*NOTE, "--wait", "100ms").code == 4
    (first,) = cli("approvals", "--json").json
    assert cli("approvals", "show", first["id"][:5], "--json").json == first
    assert cli("call", "save_note", "path=notes/b", "text=c", "--wait", "100ms").code == 4
    several = cli("approvals", "show", "a")
    assert several.code == 2
    assert several.err.startswith("'a' is the beginning of 2 approvals:\n  a")
    missing = cli("approvals", "show", "zz")
    assert (missing.code, missing.err) == (
        2,
        "there is no approval 'zz'. `toolcrib approvals --all` lists them\n",
    )


def test_a_live_grant_is_told_by_explain_and_show(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "    approval: {remember: [once, 1h]}\n")
    explain = ("explain", "save_note", "path=notes/today", "text=x")
    assert "grant" not in cli(*explain).out
    assert cli(*NOTE, "--wait", "100ms").code == 4
    (request,) = cli("approvals", "--json").json
    assert cli("approvals", "allow", request["id"], "--reach", "1h").code == 0
    (grant,) = cli("grants", "--json").json
    said = cli(*explain).out
    assert f"\na grant covers this: {grant['id']} until 20" in said
    assert said.endswith(". Nobody is asked.\n")
    assert "grant" not in cli(*explain, "--as", "bo").out
    assert "grant" not in cli("explain", "add", "a=1", "b=2").out
    shown = cli("approvals", "show", request["id"]).out
    assert f"  grant         a grant covers this: {grant['id']} until 20" in shown
    assert cli("grants", "revoke", grant["id"]).code == 0
    assert "grant" not in cli(*explain).out
    assert "a grant" not in cli("approvals", "show", request["id"]).out
