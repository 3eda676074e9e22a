"""`toolcrib serve`, as an operator sees it."""

from __future__ import annotations

import json
import signal
import socket
import sys
import time

import pexpect
import pytest

NOTE = ("call", "save_note", "path=notes/today", "text=hello")
PROMPT = r"Refused by itself in \d:\d\d\.  > "
TOOLS = '''
from toolcrib import tool

@tool(effects=["read"])
def shout(text: str) -> str:
    """Say it loudly."""
    print("noise")
    return text.upper()
'''
SEED = """
from dataclasses import dataclass, field
from typing import Any

@dataclass
class HostToolDefinition:
    name: str
    description: str
    parameters: dict
    handler: Any
    category: str | None = None
    requires_approval: bool = False
    timeout: float | None = None

async def where(input, context):
    return f"{input['what']} in {context.cwd}"

def definition(name):
    schema = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
    return HostToolDefinition(name=name, description="Where.", parameters=schema, handler=where)
"""


def waited(child):
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def test_what_is_served_where_word_by_word(cli, terminal):
    child = terminal("serve", "--listen", "127.0.0.1:0", "--unix", "crib.sock")
    child.expect(r"Ctrl-C stops\.\r\n")
    shown = (child.before + child.after).replace("\r\n", "\n")
    port = shown.partition("http://127.0.0.1:")[2].partition("/")[0]
    from toolcrib import __version__

    assert int(port) > 1023
    assert shown == (
        f"toolcrib {__version__}   toolcrib.yaml   profile: developer\n"
        "\n"
        "  2 tools    add, save_note\n"
        f"  MCP        http://127.0.0.1:{port}/mcp\n"
        f"  HTTP       http://127.0.0.1:{port}/v1\n"
        f"  Unix       {cli.folder}/crib.sock\n"
        "  Trail      .toolcrib/trail.db\n"
        "\n"
        "Only this machine can connect. Ctrl-C stops.\n"
    )
    assert cli("call", "add", "a=1", "b=2", "--url", f"unix:{cli.folder}/crib.sock").out == "3\n"
    child.expect(r"\d\d:\d\d:\d\d  .*ok.*add  .* ms  for local")
    child.sendintr()
    child.expect("Stopped.")
    assert waited(child) == 0
    assert not (cli.folder / "crib.sock").exists()


def test_approvals_are_asked_in_the_serving_terminal(cli, terminal):
    child = terminal("serve", "--listen", "127.0.0.1:0")
    child.expect(r"http://127.0.0.1:(\d+)/v1")
    url = f"http://127.0.0.1:{child.match[1]}"
    call = cli.start(*NOTE, "--url", url)
    child.expect("local asks to run  save_note\r\n")
    child.expect("path +notes/today")
    child.expect("Asked because effects other than read are asked     toolcrib.yaml:10")
    child.expect(PROMPT)
    # A line about another call waits until the question is answered.
    assert cli("call", "add", "a=1", "b=2", "--url", url).out == "3\n"
    child.send("\r")
    early = child.expect(["add  .* ms  for local", pexpect.TIMEOUT], timeout=0.3)
    assert early == 1
    child.send("y")
    child.expect("add  .* ms  for local")
    out, _ = call.communicate(timeout=20)
    assert (call.returncode, out) == (0, "saved notes/today\n")
    child.sendintr()
    child.expect("Stopped.")
    assert waited(child) == 0


def test_a_question_answered_elsewhere_closes_in_the_serving_terminal(cli, terminal):
    child = terminal("serve", "--listen", "127.0.0.1:0")
    child.expect(r"http://127.0.0.1:(\d+)/v1")
    url = f"http://127.0.0.1:{child.match[1]}"
    call = cli.start(*NOTE, "--url", url)
    child.expect(PROMPT)
    (request,) = cli("approvals", "--json", "--url", url).json
    assert cli("approvals", "deny", request["id"], "--note", "no", "--url", url).code == 0
    child.expect("No longer asked here.")
    out, err = call.communicate(timeout=20)
    assert (call.returncode, out) == (4, "")
    assert "said no: no" in err
    child.sendintr()
    child.expect("Stopped.")
    assert waited(child) == 0


def test_no_approve_leaves_questions_to_others(cli, terminal):
    child = terminal("serve", "--listen", "127.0.0.1:0", "--no-approve")
    child.expect(r"http://127.0.0.1:(\d+)/v1")
    url = f"http://127.0.0.1:{child.match[1]}"
    assert cli(*NOTE, "--wait", "100ms", "--url", url).code == 4
    child.expect("asks.*local asks to run save_note")
    child.sendintr()
    child.expect("Stopped.")
    assert "Refused by itself" not in child.before
    assert waited(child) == 0


def test_a_port_in_use_is_told_with_the_cure(cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli("serve", "--listen", f"127.0.0.1:{port}")
    assert (done.code, done.out) == (5, "")
    assert done.err == (
        f"127.0.0.1:{port} is in use by another program. "
        "Stop that program, or listen elsewhere; port 0 takes a free one\n"
    )


def test_an_address_that_others_reach_needs_credentials(cli):
    done = cli("serve", "--listen", "0.0.0.0:0")
    assert (done.code, done.out) == (2, "")
    assert "ask nobody who they are" in done.err
    assert "toolcrib tokens new" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--listen", "nowhere:at:all"), "--listen has no port"),
        (("--listen", "99999999"), "--listen has no port"),
        (("--profile", "develper"), "there is no profile 'develper'. Did you mean developer?"),
        (("--approve",), "there is no terminal to ask at"),
        (("--stdio", "--json"), "standard output is for the protocol"),
        (("--host-tools", "gone.py"), "there is no file gone.py"),
        (
            ("--host-tools-module", "no.such.module"),
            "--host-tools-module: the module no.such.module",
        ),
    ],
    ids=["address", "port", "profile", "approve", "stdio", "file", "module"],
)
def test_mistakes_are_told_before_anything_is_served(cli, words, said):
    done = cli("serve", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_json_says_in_one_line_where_it_is(cli):
    with cli.serve() as running:
        told = running.told
        assert told["tools"] == ["add", "save_note"]
        assert (told["config"], told["profile"]) == ("toolcrib.yaml", "developer")
        assert told["trail"] == ".toolcrib/trail.db"
        assert told["pid"] == running.process.pid
        cli("call", "add", "a=1", "b=2", "--url", running.url)
        assert running.stop() == 0
    assert " ok " in running.log.read_text()


ROLES = """
version: 1
host: {profile: team, store: memory}
tools: [{python: tools.py}]
principals:
  reader: {roles: [reads], profiles: [readers]}
  writer: {roles: [writes], profiles: [team]}
profiles:
  team:
    rules:
      - {allow: whisper, when: {roles: [writes]}}
  readers:
    rules:
      - {allow: shout, when: {roles: [reads]}}
serve:
  http: {profile: team}
  tokens: {it: {secret: "${IT}", principal: writer}}
  stdio: {principal: reader, profile: readers}
"""


def test_the_tools_told_are_those_that_somebody_may_call_here(empty, monkeypatch):
    """Rules that ask for a role leave nothing to nobody; the callers of each door are known."""
    monkeypatch.setenv("IT", "a-token-of-some-length-0123")
    empty.write("tools.py", TOOLS + TOOLS.partition("\n\n")[2].replace("shout", "whisper"))
    empty.write("toolcrib.yaml", ROLES)
    told = empty("serve", "--stdio", stdin="").err
    assert "profile: readers\n" in told
    assert "  1 tool     shout\n" in told
    with empty.serve() as running:
        assert running.told["tools"] == ["whisper"]
        assert running.stop() == 0


def test_quiet_says_nothing_of_calls(cli):
    with cli.serve("--quiet") as running:
        assert cli("call", "add", "a=1", "b=2", "--url", running.url).out == "3\n"
        assert running.stop() == 0
    assert running.log.read_text() == "Stopped.\n"


MOODY = """
import json, pathlib, sys

starts = pathlib.Path("starts")
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
if len(starts.read_text()) <= 2:  # one that dies of the modern greeting is tried in the old way
    sys.exit("fatal: there is no licence")
for line in sys.stdin:
    asked = json.loads(line)
    result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}, "tools": []}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def test_a_provider_that_is_down_is_one_line_and_so_is_its_return(cli):
    cli.write("moody.py", MOODY)
    text = (cli.folder / "toolcrib.yaml").read_text()
    entry = json.dumps({"type": "mcp", "command": [sys.executable, "moody.py"]})
    cli.write("toolcrib.yaml", f"{text}\nproviders:\n  moody: {entry}\n")
    with cli.serve() as running:
        deadline = time.monotonic() + 20
        while "provider.up" not in running.log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert running.stop() == 0
    said = [line for line in running.log.read_text().splitlines() if "moody" in line]
    why = "the server ended with exit code 1; it said: fatal: there is no licence"
    assert said[0] == f"warning: provider moody is down: {why}"
    assert said[1].endswith("provider.up  provider=moody tools=0")
    assert len(said) == 2


def test_who_is_late_is_told_and_comes_later(cli, terminal):
    cli.write("late.py", MOODY.replace("if len(", "import time; time.sleep(1.5)\nif 2 < len("))
    text = (cli.folder / "toolcrib.yaml").read_text()
    entry = json.dumps({"type": "mcp", "command": [sys.executable, "late.py"]})
    cli.write("toolcrib.yaml", f"{text}\nhost: {{ready: 100ms}}\nproviders:\n  late: {entry}\n")
    child = terminal("serve", "--listen", "127.0.0.1:0")
    child.expect_exact("  Starting   late; their tools follow")
    child.expect_exact("provider.up  provider=late tools=0")
    child.sendintr()
    assert waited(child) == 0


def test_sighup_reads_the_configuration_again_and_a_wrong_one_changes_nothing(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    with cli.serve() as running:
        assert cli("call", "add", "a=1", "b=2", "--url", running.url).code == 0
        cli.write("toolcrib.yaml", text.replace("allow: {effects: [read]}", "deny: add"))
        running.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 20
        while cli("call", "add", "a=1", "b=2", "--url", running.url).code != 3:
            assert time.monotonic() < deadline
        cli.write("toolcrib.yaml", "profiles: [\n")
        running.process.send_signal(signal.SIGHUP)
        while "the configuration was not taken" not in running.log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert cli("call", "add", "a=1", "b=2", "--url", running.url).code == 3
        assert running.stop() == 0


def test_sigterm_lets_a_running_call_end(cli):
    cli.write(
        "tools.py",
        "import time\nfrom toolcrib import tool\n\n"
        "@tool(effects=['read'])\ndef slow() -> str:\n"
        "    open('begun', 'w').close()\n    time.sleep(1)\n    return 'done'\n",
    )
    cli.write(
        "toolcrib.yaml", "tools: [{python: tools.py}]\nprofiles: {p: {rules: [{allow: slow}]}}\n"
    )
    with cli.serve() as running:
        call = cli.start("call", "slow", "--url", running.url)
        deadline = time.monotonic() + 20
        while not (cli.folder / "begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert running.stop() == 0
        out, _ = call.communicate(timeout=20)
    assert (call.returncode, out) == (0, "done\n")


def test_host_tools_of_a_file_stand_beside_the_project(cli):
    cli.write("more.py", TOOLS)
    with cli.serve("--host-tools", "more.py") as running:
        assert running.told["tools"] == ["add", "save_note", "shout"]
        assert cli("call", "shout", "text=hey", "--url", running.url).out == "HEY\n"
        assert running.stop() == 0
    assert "noise\n" in running.log.read_text()


@pytest.mark.parametrize(
    "more",
    [
        "HOST_TOOLS = [definition('place')]\n",
        "def setup_host_tools(registry):\n    registry.register(definition('place'))\n",
        "async def setup_host_tools(registry):\n    await registry.register(definition('place'))\n",
    ],
    ids=["listed", "registered", "awaited"],
)
def test_host_tools_without_a_configuration_get_a_profile_of_their_own(empty, more):
    empty.write("mine.py", SEED + more)
    with empty.serve("--host-tools", "mine.py") as running:
        assert (running.told["profile"], running.told["tools"]) == ("host-tools", ["place"])
        assert running.told["config"] is None
        done = empty("call", "place", "what=hammer", "--url", running.url)
        assert done.out == f"hammer in {empty.folder}\n"
        assert running.stop() == 0
    assert not (empty.folder / ".toolcrib").exists()


def test_host_tools_by_module_and_by_description(empty):
    empty.write("app/__init__.py", "")
    empty.write("app/tools.py", TOOLS + "\ndef twice(n: int) -> int:\n    return 2 * n\n")
    empty.write(
        "tools.yaml",
        "tools:\n  - name: twice\n    description: Doubles.\n    module: app.tools\n"
        "    function: twice\n    parameters:\n      type: object\n"
        "      properties: {n: {type: integer}}\n      required: [n]\n",
    )
    words = ("--host-tools-module", "app.tools", "--host-tools", "tools.yaml")
    with empty.serve(*words) as running:
        assert running.told["tools"] == ["shout", "twice"]
        assert empty("call", "twice", "n=4", "--url", running.url).out == "8\n"
        assert empty("call", "shout", "text=a", "--url", running.url).out == "A\n"
        assert running.stop() == 0


def test_the_profile_of_host_tools_is_told_plainly(cli, terminal):
    (cli.folder / "toolcrib.yaml").unlink()
    cli.write("mine.py", TOOLS)
    child = terminal("serve", "--listen", "127.0.0.1:0", "--host-tools", "mine.py")
    child.expect("toolcrib .*   no toolcrib.yaml   profile: host-tools\r\n")
    child.expect("The profile host-tools was made for it: it allows these tools and no others.")
    child.expect("Trail      kept until the host stops: there is no toolcrib.yaml")
    child.sendintr()
    child.expect("Stopped.")
    assert waited(child) == 0


def test_a_file_without_tools_is_no_host_tools_file(empty):
    empty.write("none.py", "x = 1\n")
    done = empty("serve", "--host-tools", "none.py")
    assert done.code == 2
    assert done.err.startswith("none.py has no tool. Mark a function with @tool")


def test_stdio_carries_protocol_only(cli):
    cli.write("noisy.py", "print('at import')\n" + TOOLS)
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "host.info"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools.call",
            "params": {"name": "shout", "arguments": {"text": "hey"}},
        },
    ]
    lines = "".join(json.dumps(each) + "\n" for each in asked)
    done = cli("serve", "--stdio", "--host-tools", "noisy.py", stdin=lines)
    answers = {m["id"]: m for m in map(json.loads, done.out.splitlines()) if "id" in m}
    assert answers[1]["result"]["name"] == "toolcrib"
    assert answers[2]["result"]["output"] == "HEY"
    assert done.code == 0
    assert "at import\n" in done.err
    assert "noise" in done.err  # its line end may come after a line of ours
    assert "stdio      MCP or JSON-RPC, one message on a line\n" in done.err
    assert "Only the program that started it can connect." in done.err


def test_a_token_is_taken_from_the_environment_or_a_file(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "principals: {ann: {}}\n")
    secret = cli("tokens", "new", "ann", "--principal", "ann", "--json").json["token"]
    cli.write("token", f"{secret}\n")
    cli.write("wrong", "tcr_nothing-like-the-right-one-at-all\n")
    cli.write("empty", "\n")
    with cli.serve() as running:
        call = ("call", "add", "a=1", "b=2", "--url", running.url)
        assert cli(*call, "--token-file", "token").out == "3\n"
        nobody = cli(*call)
        assert (nobody.code, nobody.out) == (3, "")
        assert nobody.err.endswith("Set TOOLCRIB_TOKEN, or name a file with --token-file\n")
        wrong = cli(*call, "--token-file", "wrong")
        assert (wrong.code, wrong.out) == (3, "")
        assert "nothing-like" not in wrong.err
        assert cli(*call, "--token-file", "empty").code == 2
        assert cli(*call, "--token-file", "gone").code == 2
        # Whoever holds no right is told so, and with which exit code.
        refused = cli("audit", "verify", "--url", running.url, "--token-file", "token")
        assert (refused.code, refused.out) == (3, "")
        assert refused.err == "ann needs the permission toolcrib.audit for this\n"
        assert running.stop() == 0
        assert secret not in running.log.read_text()


def test_who_may_not_look_at_others_is_told_of_its_own_tools_only(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    more = "  guest: {trust: 1, rules: [{allow: add}]}\nprincipals: {ann: {profiles: [guest]}}\n"
    cli.write("toolcrib.yaml", f"{text}{more}host: {{profile: developer}}\n")
    words = ("tokens", "new", "ann", "--principal", "ann", "--profile", "guest", "--json")
    cli.write("token", cli(*words).json["token"])
    with cli.serve() as running:
        there = ("--url", running.url, "--token-file", "token")
        rows = cli("explain", "--all", "--json", *there).json
        assert [(row["tool"], row["verdict"]) for row in rows] == [("add", "allow")]
        assert [tool["name"] for tool in cli("tools", "--json", *there).json] == ["add"]
        for asked in (("tools", "show", "save_note"), ("config", "show"), ("tools", "--as", "bo")):
            refused = cli(*asked, *there)
            assert (refused.code, refused.out) == (3, "")
            assert refused.err == "ann needs the permission toolcrib.audit for this\n"
        for asked in (("tools", "check"), ("config", "check")):
            assert cli(*asked, *there).err == "ann needs the permission toolcrib.admin for this\n"


def test_nobody_answers_there(cli):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = cli("tools", "--url", f"http://127.0.0.1:{port}")
    assert (done.code, done.out) == (5, "")
    assert done.err.startswith(f"http://127.0.0.1:{port}: no connection: connection refused. ")
    assert "toolcrib serve" in done.err


@pytest.mark.parametrize(
    ("url", "cure"),
    [
        ("127.0.0.1:8700", "Did you mean http://127.0.0.1:8700?"),
        ("http://", "Write http://HOST:PORT"),
        ("stdio:", "Write http://HOST:PORT, ws://HOST:PORT or unix:PATH"),
    ],
    ids=["bare", "empty", "stdio"],
)
def test_what_is_no_address_is_the_users_mistake(cli, monkeypatch, url, cure):
    typed = cli("tools", "--url", url)
    assert (typed.code, typed.out) == (2, "")
    assert typed.err.startswith("--url: ")
    assert typed.err.endswith(f". {cure}\n")
    monkeypatch.setenv("TOOLCRIB_URL", url)
    assert cli("tools").err == typed.err.replace("--url", "TOOLCRIB_URL", 1)


def test_what_is_no_token_is_the_users_mistake(cli, monkeypatch):
    there = ("tools", "--url", "http://127.0.0.1:9")
    assert cli(*there, "--token-file", "gone").code == 2
    monkeypatch.setenv("TOOLCRIB_TOKEN", "two words")
    done = cli(*there)
    assert (done.code, done.out) == (2, "")
    assert done.err == "TOOLCRIB_TOKEN holds no token. Look for spaces and line ends in it\n"


def test_a_path_that_is_not_the_hosts_is_told(cli, server):
    done = cli("tools", "--url", f"{server.url}/elsewhere")
    assert done.code == 2
    assert "Check the path in --url" in done.err


def test_the_environment_names_a_host_and_options_beat_it(cli, server, monkeypatch):
    monkeypatch.setenv("TOOLCRIB_URL", server.url)
    before = len(cli("calls", "--json", "--config", "toolcrib.yaml").json)
    assert cli("call", "add", "a=1", "b=2").out == "3\n"
    doors = [call["door"] for call in cli("calls", "--json").json]
    assert (len(doors), doors[-1]) == (before + 1, "http")
    monkeypatch.setenv("TOOLCRIB_URL", "http://127.0.0.1:9")
    assert cli("tools", "--config", "toolcrib.yaml").code == 0
    assert cli("tools").code == 5
    both = cli("tools", "--url", server.url, "--config", "toolcrib.yaml")
    assert (both.code, both.err) == (
        2,
        "--config is a project here and --url a running host. Give one of them\n",
    )
