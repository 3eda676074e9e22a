"""At a running host: looking on, asking and answering, from another process."""

from __future__ import annotations

import json
import signal
import threading

import pytest

NOTE = ("call", "save_note", "path=notes/today", "text=hello")
PROMPT = r"Refused by itself in \d:\d\d\.  > "


class Following:
    """A command that is left running, line by line."""

    def __init__(self, cli, *words):
        self.process = cli.start(*words)
        # A test that fails must not wait for lines for ever.
        self._alarm = threading.Timer(60, self.process.kill)
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

    def ended(self):
        out, err = self.process.communicate(timeout=40)
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
    import pexpect

    child.expect(pexpect.EOF)
    child.close()
    return child.before.replace("\r\n", "\n"), child.exitstatus


def test_tail_follows_the_event_stream(cli, server, follow):
    there = ("--url", server.url)
    cli("call", "add", "a=1", "b=1", *there)
    tail = follow("calls", "tail", *there)
    tail.says("Following calls. Ctrl-C stops.")
    cli("call", "add", "a=1", "b=2", *there)
    cli("call", "save_note", "path=../x", "text=y", *there)
    first, second = tail.line(), tail.line()
    known = [call["id"] for call in cli("calls", "--json", *there).json]
    assert known[1] in first
    assert first.split()[3:6] == ["add", "local", "ok"]
    assert known[2] in second
    assert second.split()[3:7] == ["save_note", "local", "denied", "path_outside_root"]
    assert tail.interrupt()[:2] == (130, "")


def test_tail_filters_and_prints_what_the_list_prints(cli, server, follow):
    there = ("--url", server.url)
    tail = follow("calls", "tail", "--json", "--status", "denied", *there)
    tail.says("Following calls.")
    cli("call", "add", "a=1", "b=2", *there)
    cli("call", "save_note", "path=../x", "text=y", *there)
    shown = json.loads(tail.line())
    (listed,) = cli("calls", "--status", "denied", "--json", *there).json
    assert shown.pop("time") == pytest.approx(listed.pop("time"), abs=1e-2)
    assert shown == listed


def test_tail_can_be_stopped_while_the_host_is_gone(cli, server, follow):
    tail = follow("calls", "tail", "--url", server.url)
    tail.says("Following calls.")
    server.process.kill()
    server.process.wait(20)
    tail.process.send_signal(signal.SIGINT)
    code, out, _ = tail.ended()
    assert (code, out) == (130, "")


def test_a_call_is_stopped_from_another_process(cli, server, follow):
    there = ("--url", server.url)
    call = follow(*NOTE, *there)
    call.says("waits for approval")
    (open_one,) = cli("calls", "--json", *there).json
    known = open_one["id"]
    done = cli("calls", "cancel", known[:-1], *there)
    assert (done.code, done.out, done.err) == (0, f"{known}   cancelled\n", "")
    code, out, err = call.ended()
    assert (code, out) == (1, "")
    assert "cancelled" in err
    again = cli("calls", "cancel", known, "--json", *there)
    assert (again.code, again.json) == (2, [{"id": known, "cancelled": False}])
    assert f"{known} does not run there." in again.err
    assert cli("calls", "cancel", "zz", *there).code == 2


def test_what_a_host_runs_is_stopped_by_that_host(cli):
    done = cli("calls", "cancel", "c1")
    assert (done.code, done.out) == (2, "")
    assert "Name that host with --url" in done.err


def test_watch_asks_what_waits_at_the_host(cli, server, terminal, follow):
    there = ("--url", server.url)
    watch = terminal("approvals", "watch", *there)
    watch.expect("Waiting for requests. Ctrl-C stops.")
    call = follow(*NOTE, *there)
    watch.expect("local asks to run  save_note\r\n")
    watch.expect(PROMPT)
    watch.send("m")
    watch.expect(PROMPT)
    watch.send("y")
    watch.expect(r"(a[0-9a-f]+)   allowed   save_note for local")
    assert call.line() == "saved notes/today\n"
    again = follow("call", "save_note", "path=notes/b", "text=c", *there)
    watch.expect("notes/b")
    watch.expect(PROMPT)
    (request,) = cli("approvals", "--json", *there).json
    assert cli("approvals", "deny", request["id"], "--note", "not now", *there).code == 0
    watch.expect("No longer asked here.")
    watch.expect(f"{request['id']}   denied by ")
    code, out, err = again.ended()
    assert (code, out) == (4, "")
    assert "said no: not now" in err
    watch.sendintr()
    assert ended(watch)[1] == 130


def test_watch_prints_one_line_a_request(cli, server, follow):
    there = ("--url", server.url)
    assert cli(*NOTE, "--wait", "100ms", *there).code == 4
    watch = follow("approvals", "watch", "--json", *there)
    watch.says("Waiting for requests.")
    assert json.loads(watch.line())["arguments"]["path"] == "notes/today"
    other = ("call", "save_note", "path=notes/b", "text=c", "--wait", "100ms")
    assert cli(*other, *there).code == 4
    assert json.loads(watch.line())["arguments"]["path"] == "notes/b"
    assert watch.interrupt()[:2] == (130, "")


def test_a_call_at_a_terminal_asks_there(cli, server, terminal):
    child = terminal(*NOTE, "--url", server.url)
    child.expect("local asks to run  save_note\r\n")
    child.expect(PROMPT)
    child.send("y")
    words, code = ended(child)
    assert code == 0
    assert "saved notes/today\n" in words


def test_a_call_that_waits_says_how_to_answer_it_and_ctrl_c_leaves_the_question(
    cli, server, follow
):
    there = ("--url", server.url)
    call = follow(*NOTE, *there)
    call.says("save_note: waits for approval a")
    call.says("asked because   effects other than read are asked   toolcrib.yaml:10")
    line = call.process.stderr.readline()
    assert "to allow        toolcrib approvals allow a" in line
    assert line.endswith(f"--url {server.url.removesuffix('/v1')}\n")
    code, out, _ = call.interrupt()
    assert (code, out) == (130, "")
    (request,) = cli("approvals", "--json", *there).json
    assert request["state"] == "pending"
    words = line.partition("toolcrib ")[2].split()
    assert cli(*words).out == f"{request['id']}   allowed   save_note for local\n"
    assert cli(*NOTE, "--wait", "100ms", *there).out == "saved notes/today\n"


def test_the_same_call_again_finds_its_question(cli, server):
    words = (*NOTE, "--wait", "100ms", "--url", server.url)
    first, second = cli(*words), cli(*words)
    assert (first.code, second.code) == (4, 4)
    assert second.err == first.err


def test_an_answer_reaches_as_far_as_it_says_and_is_taken_back(cli, follow):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "    approval: {remember: [once, 1h], edit: true}\n")
    with cli.serve() as running:
        there = ("--url", running.url)
        assert cli(*NOTE, "--wait", "100ms", *there).code == 4
        (request,) = cli("approvals", "--json", *there).json
        unfit = ("approvals", "allow", request["id"][:6], "--arguments", '{"path": 7, "text": "x"}')
        refused = cli(*unfit, *there)
        assert (refused.code, refused.out) == (2, "")
        said = f"the arguments do not fit save_note; {request['id']} waits:\n  path "
        assert refused.err.startswith(said)
        done = cli("approvals", "allow", request["id"][:6], "--reach", "1h", *there)
        assert done.out == f"{request['id']}   allowed   save_note for local\n"
        (grant,) = cli("grants", "--json", *there).json
        explained = cli("explain", "save_note", "path=notes/z", "text=x", *there)
        assert f"\na grant covers this: {grant['id']} until 20" in explained.out
        shown = cli("approvals", "show", request["id"], *there).out
        assert f"a grant covers this: {grant['id']}" in shown
        assert cli("call", "save_note", "path=notes/z", "text=x", *there).out == "saved notes/z\n"
        assert cli("grants", "revoke", grant["id"], *there).out == f"{grant['id']}   revoked\n"
        assert cli("grants", *there).err == "No approval is remembered.\n"
        again = cli("approvals", "allow", request["id"], *there)
        assert again.code == 2
        assert again.err.startswith(f"{request['id']}: ")


def test_commands_without_a_url_work_on_the_same_store(cli, server):
    assert cli(*NOTE, "--wait", "100ms", "--url", server.url).code == 4
    (request,) = cli("approvals", "--json").json
    assert cli("approvals", "allow", request["id"]).code == 0
    assert cli(*NOTE, "--url", server.url).out == "saved notes/today\n"
    assert [call["door"] for call in cli("calls", "--json").json] == ["http", "http"]


def test_as_is_not_for_a_running_host(cli, server):
    done = cli("call", "add", "a=1", "b=2", "--as", "bo", "--url", server.url)
    assert (done.code, done.out) == (2, "")
    assert done.err == "--as is for a project here: at a running host you are who your token says\n"


def test_export_of_a_long_trail_is_whole(cli, server):
    there = ("--url", server.url)
    for _ in range(3):
        cli("call", "add", "a=1", "b=2", *there)
    done = cli("audit", "export", *there)
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [e["id"] for e in lines] == [
        e["id"] for e in cli("audit", "search", "--json", *there).json
    ]
    saved = cli("audit", "export", "-o", "trail.jsonl", "--json", *there)
    assert saved.json == {"events": len(lines), "output": "trail.jsonl"}
    many = cli("audit", "search", "--limit", "5000", "--json", *there).json
    assert len(many) == len(lines)
    assert cli("calls", "--limit", "5000", *there).code == 2
