"""A person decides: at the terminal, and from another one."""

from __future__ import annotations

import json

import pexpect
import pytest

NOTE = ("call", "save_note", "path=notes/today", "text=hello")
PROMPT = r"Refused by itself in \d:\d\d\.  > "


@pytest.fixture
def asked(terminal):
    """A call that asks at the terminal."""
    child = terminal(*NOTE)
    child.expect(PROMPT)
    return child


def ended(child) -> tuple[str, int]:
    child.expect(pexpect.EOF)
    child.close()
    return child.before.replace("\r\n", "\n"), child.exitstatus


def test_the_question_says_who_what_and_why(asked):
    shown = asked.before.replace("\r\n", "\n")
    assert "local asks to run  save_note\n" in shown
    assert "    path        notes/today\n" in shown
    assert "  Effects       write\n" in shown
    assert "Asked because effects other than read are asked     toolcrib.yaml:10\n" in shown
    assert "  y  allow once     n  refuse     m  more\n" in shown


def test_y_lets_the_call_run(asked, cli):
    asked.send("y")
    words, code = ended(asked)
    assert code == 0
    assert words.endswith("saved notes/today\n")
    assert (cli.folder / "notes/today").read_text() == "hello\n"


def test_n_refuses_with_a_note_for_the_model(asked, cli):
    asked.send("n")
    asked.expect("A note for the model, or Enter for none: ")
    asked.sendline("not today")
    words, code = ended(asked)
    assert code == 4
    assert "save_note: denied (approval_rejected)\n" in words
    assert "said no: not today\n" in words
    assert not (cli.folder / "notes/today").exists()


def test_enter_does_nothing(asked, cli):
    asked.send("\r\n")
    asked.send("q")
    asked.expect("q does nothing; press y, n or m.")
    asked.expect(PROMPT)
    (request,) = cli("approvals", "--json").json
    assert request["state"] == "pending"
    asked.send("n")
    asked.sendline("")
    assert ended(asked)[1] == 4


def test_another_terminal_answers_first(asked, cli):
    (request,) = cli("approvals", "--json").json
    assert cli("approvals", "allow", request["id"]).code == 0
    words, code = ended(asked)
    assert (code, "saved notes/today" in words) == (0, True)


def test_ctrl_c_at_the_question_leaves_it_pending(asked, cli):
    asked.sendintr()
    words, code = ended(asked)
    assert code == 130
    assert "Cancelled." in words
    (request,) = cli("approvals", "--json").json
    assert request["state"] == "pending"


def start_waiting(cli):
    """A call without a terminal that waits, and the id of its question."""
    running = cli.start(*NOTE)
    assert running.stderr is not None
    # Whole, so that nothing of it is left in a buffer that `communicate` does not know.
    first, *told = [running.stderr.readline() for _ in range(5)]
    assert first.startswith("save_note: waits for approval ")
    request = first.split()[-1]
    assert told[1] == f"  to allow        toolcrib approvals allow {request}\n"
    assert told[2] == f"  to refuse       toolcrib approvals deny {request}\n"
    return running, request


def test_a_call_waits_and_another_process_allows_it(cli):
    running, request = start_waiting(cli)
    shown = cli("approvals")
    assert shown.out.splitlines()[1].split()[:3] == [request, "pending", "save_note"]
    answered = cli("approvals", "allow", request, "--note", "go on")
    assert (answered.code, answered.out) == (0, f"{request}   allowed   save_note for local\n")
    out, err = running.communicate(timeout=20)
    assert (running.returncode, out) == (0, "saved notes/today\n")
    assert "says: go on\n" in err
    assert (cli.folder / "notes/today").read_text() == "hello\n"


def test_a_call_waits_and_another_process_refuses_it(cli):
    running, request = start_waiting(cli)
    assert cli("approvals", "deny", request, "--note", "no", "--json").json[0]["error"] is None
    out, err = running.communicate(timeout=20)
    assert (running.returncode, out) == (4, "")
    assert "save_note: denied (approval_rejected)" in err
    assert "said no: no\n" in err
    again = cli("approvals", "allow", request)
    assert again.code == 2
    assert "is denied by" in again.err


def test_nobody_answers_in_time(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "    approval: {timeout: 200ms}\n")
    done = cli(*NOTE)
    assert (done.code, done.out) == (4, "")
    assert "save_note: denied (approval_expired)\n  nobody answered in time\n" in done.err
    assert cli("approvals").err == "Nothing waits for approval.\n"
    assert cli("approvals", "--all", "--json").json[0]["state"] == "expired"


def test_a_caller_that_stops_waiting_finds_the_answer_later(cli):
    left = cli(*NOTE, "--wait", "100ms", "--json")
    assert left.code == 4
    error = left.json["error"]
    assert (left.json["status"], error["reason"], error["retryable"]) == (
        "error",
        "cancelled",
        True,
    )
    request = error["details"]["request"]
    assert not (cli.folder / "notes/today").exists()
    assert cli("approvals", "allow", request).code == 0
    assert not (cli.folder / "notes/today").exists()
    done = cli(*NOTE, "--wait", "100ms")
    assert (done.code, done.out) == (0, "saved notes/today\n")
    assert cli(*NOTE, "--wait", "100ms").code == 4, "an approval is for one call"


def test_without_a_terminal_and_without_a_store_nobody_can_answer(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "host: {store: memory}\n")
    done = cli(*NOTE)
    assert done.code == 4
    assert "host.store is memory: nobody else sees the question" in done.err
    assert cli("calls").err == "Nothing is kept: host.store is memory.\n"


def test_a_profile_that_lets_nobody_approve(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "    approval: {via: []}\n")
    done = cli(*NOTE)
    assert done.code == 4
    assert "save_note: denied (no_approver)" in done.err


def test_answers_that_do_not_count_are_refused(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "    approval: {via: [console]}\n")
    running, request = start_waiting(cli)
    try:
        refused = cli("approvals", "allow", request)
        assert refused.code == 2
        assert "answers via 'cli' do not count" in refused.err
    finally:
        running.terminate()
        running.communicate(timeout=20)


def test_edited_arguments_run_and_are_told(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "    approval: {edit: true}\n")
    running, request = start_waiting(cli)
    changed = json.dumps({"path": "notes/other", "text": "better"})
    assert cli("approvals", "allow", request, "--arguments", changed).code == 0
    out, err = running.communicate(timeout=20)
    assert out == "saved notes/other\n"
    assert "The approver changed the arguments" in err
    assert not (cli.folder / "notes/today").exists()


def test_a_grant_is_listed_used_and_revoked(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "    approval: {remember: [once, 1h]}\n")
    assert cli("grants").err == "No approval is remembered.\n"
    running, request = start_waiting(cli)
    assert cli("approvals", "allow", request, "--reach", "always").code == 2
    assert cli("approvals", "allow", request, "--reach", "1h").code == 0
    running.communicate(timeout=20)
    (grant,) = cli("grants", "--json").json
    assert (grant["tool"], grant["reach"]) == ("save_note", "1h")
    assert cli("grants").out.splitlines()[1].startswith(grant["id"])
    assert cli("call", "save_note", "path=notes/b", "text=c", "--wait", "100ms").code == 0
    assert cli("grants", "revoke", grant["id"]).out == f"{grant['id']}   revoked\n"
    assert cli("grants", "revoke", grant["id"]).code == 2
    assert cli("call", "save_note", "path=notes/d", "text=e", "--wait", "100ms").code == 4


def test_ids_that_do_not_exist(cli):
    assert cli("approvals", "allow", "a1").err == (
        "there is no approval 'a1': nothing was asked yet\n"
    )
    cli("call", "add", "a=1", "b=2")
    done = cli("approvals", "deny", "a1", "a2")
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 2


def test_an_answer_takes_the_beginning_of_an_id(cli):
    running, request = start_waiting(cli)
    wrong = cli("approvals", "deny", "nope")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == "there is no approval 'nope'. `toolcrib approvals` lists them\n"
    both = cli("approvals", "allow", request[:-1], "nope", request)
    assert both.code == 2
    assert both.out == f"{request}   allowed   save_note for local\n"
    assert both.err == wrong.err
    assert running.communicate(timeout=20)[0] == "saved notes/today\n"
    (unknown,) = cli("approvals", "deny", "nope", "--json").json
    assert (unknown["id"], unknown["request"]) == ("nope", None)


def test_a_beginning_that_fits_several_answers_none(cli):
    cli(*NOTE, "--wait", "10ms")
    cli(*NOTE[:2], "path=notes/other", *NOTE[3:], "--wait", "10ms")
    ids = [request["id"] for request in cli("approvals", "--json").json]
    assert len(ids) == 2
    done = cli("approvals", "allow", "a")
    assert done.code == 2
    assert done.err.startswith("'a' is the beginning of 2 approvals:\n")
    assert all(each in done.err for each in ids)
    assert len(cli("approvals", "--json").json) == 2
