"""`toolcrib connect`: a client's file gets one entry, and nothing else changes."""

from __future__ import annotations

import json

import pytest

from toolcrib.cli.clients import CLIENTS
from toolcrib.cli.jsonc import Unreadable, read, with_member

URL = "http://127.0.0.1:8700/mcp"
ENTRY = {"type": "http", "url": URL}
KEYS = {
    "claude-code": ("mcpServers", ENTRY),
    "claude-desktop": ("mcpServers", {"command": "npx", "args": ["-y", "mcp-remote", URL]}),
    "cursor": ("mcpServers", {"url": URL}),
    "gemini-cli": ("mcpServers", {"httpUrl": URL}),
    "goose": (
        "extensions",
        {
            "enabled": True,
            "type": "streamable_http",
            "name": "toolcrib",
            "uri": URL,
            "timeout": 300,
            "description": "Tools of a Toolcrib host",
        },
    ),
    "vscode": ("servers", ENTRY),
    "windsurf": ("mcpServers", {"serverUrl": URL}),
    "zed": ("context_servers", {"url": URL}),
}
COMMENTED = """{
    // what I like
    "editor.fontSize": 14,
    "servers": {
        "other": {"url": "x"} /* keep, this */, // and this
    },
}
"""


def test_every_client_is_in_the_table():
    assert set(KEYS) == set(CLIENTS)


@pytest.mark.parametrize("client", KEYS)
def test_the_snippet_and_where_it_goes(empty, client, monkeypatch):
    monkeypatch.setenv("HOME", str(empty.folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    key, entry = KEYS[client]
    told = empty("connect", client, "--json").json
    assert told["snippet"] == {key: {"toolcrib": entry}}
    shown = empty("connect", client)
    assert shown.code == 0
    assert f" reads {told['file']}. Put this into it" in shown.err
    written = empty("connect", client, "--write", "--yes")
    assert written.code == 0, written.err
    text = (empty.folder / told["file"]).read_text()
    assert text.rstrip("\n") == shown.out.rstrip("\n")
    again = empty("connect", client, "--write")
    assert (again.code, again.err) == (0, f"{told['file']} has it already.\n")


def test_known_clients_are_listed_and_a_mistyped_one_is_guessed(empty):
    assert [row["client"] for row in empty("connect", "--json").json] == sorted(KEYS)
    assert empty("connect").out.splitlines()[1].startswith("claude-code")
    done = empty("connect", "curser")
    assert (done.code, done.err) == (2, "there is no client 'curser'. Did you mean cursor?\n")


def test_where_the_host_is(cli):
    text = (cli.folder / "toolcrib.yaml").read_text()
    cli.write("toolcrib.yaml", text + "serve: {http: {listen: '127.0.0.1:9001'}}\n")
    entry = cli("connect", "vscode", "--json").json["snippet"]["servers"]["toolcrib"]
    assert entry["url"] == "http://127.0.0.1:9001/mcp"
    words = ("connect", "vscode", "--json", "--name", "crib", "--url", "https://crib.example/v1")
    assert cli(*words).json["snippet"]["servers"] == {
        "crib": {"type": "http", "url": "https://crib.example/mcp"}
    }
    for wrong in ("unix:/run/x", "http://", "http://h?x", "http://a b"):
        assert cli("connect", "vscode", "--url", wrong).code == 2
    assert cli("connect", "vscode", "--name", "a b").code == 2


def test_comments_and_other_servers_stay_and_the_file_as_it_was_is_kept(empty):
    file = empty.write(".vscode/mcp.json", COMMENTED)
    file.chmod(0o640)
    done = empty("connect", "vscode", "--write", "--yes")
    assert done.code == 0
    text = file.read_text()
    for line in COMMENTED.splitlines()[:4]:
        assert line in text
    assert '"other": {"url": "x"} /* keep, this */, // and this\n' in text
    assert read(text)["servers"] == {"other": {"url": "x"}, "toolcrib": ENTRY}
    assert read(text)["editor.fontSize"] == 14
    assert file.stat().st_mode & 0o777 == 0o640
    backup = file.with_name("mcp.json.before-toolcrib")
    assert backup.read_text() == COMMENTED
    assert '+        "toolcrib": {' in done.err
    changed = empty("connect", "vscode", "--write", "--yes", "--url", "http://127.0.0.1:1")
    assert changed.code == 0
    assert read(file.read_text())["servers"]["toolcrib"]["url"] == "http://127.0.0.1:1/mcp"
    assert read(file.read_text())["servers"]["other"] == {"url": "x"}


def test_yaml_keeps_comments_and_other_extensions(empty):
    file = empty.write(
        "config.yaml", "# mine\nGOOSE_MODE: auto # stays\nextensions:\n  a: {b: 1}\n"
    )
    assert empty("connect", "goose", "--write", "--yes", "--file", "config.yaml").code == 0
    text = file.read_text()
    assert text.startswith("# mine\nGOOSE_MODE: auto # stays\nextensions:\n  a: {b: 1}\n")
    assert f"    uri: {URL}\n" in text


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"servers": []}', '{"a": 1, "a": 2}', "{'a': 1}", '{"a": 1} {}', "\udcff"],
    ids=["cut", "list", "no-object", "twice", "quotes", "more", "bytes"],
)
def test_a_file_that_cannot_be_read_is_left_alone(empty, text):
    file = empty.folder / "mcp.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    done = empty("connect", "vscode", "--write", "--yes", "--file", "mcp.json")
    assert (done.code, done.out) == (2, "")
    assert "so it is left as it is" in done.err
    assert file.read_bytes() == text.encode("utf-8", "surrogateescape")
    assert list(empty.folder.iterdir()) == [file]


@pytest.mark.parametrize("text", ["extensions: [", "- a\n", "extensions: 3\n"])
def test_yaml_that_cannot_be_read_is_left_alone(empty, text):
    file = empty.write("config.yaml", text)
    done = empty("connect", "goose", "--write", "--yes", "--file", "config.yaml")
    assert done.code == 2
    assert file.read_text() == text


@pytest.mark.parametrize("file", [".", "text/inside"])
def test_a_place_for_no_file_is_told_with_the_cure(empty, file):
    empty.write("text", "")
    done = empty("connect", "vscode", "--write", "--yes", "--file", file)
    assert (done.code, done.out) == (2, "")
    assert f"{file} cannot be changed: " in done.err
    assert "--file" in done.err


def test_it_asks_before_it_writes_and_enter_means_no(cli, terminal):
    child = terminal("connect", "vscode", "--write")
    child.expect(r"Change the file\? \[y/N\]: ")
    child.sendline("")
    child.expect("Nothing was changed.")
    child.wait()
    child.close()
    assert child.exitstatus == 2
    assert not (cli.folder / ".vscode").exists()
    child = terminal("connect", "vscode", "--write")
    child.expect(r"\[y/N\]: ")
    child.sendline("y")
    child.expect("Wrote .vscode/mcp.json.")
    child.wait()
    assert json.loads((cli.folder / ".vscode/mcp.json").read_text())["servers"]["toolcrib"] == ENTRY


def test_without_a_terminal_nothing_is_written_unasked(empty):
    done = empty("connect", "vscode", "--write")
    assert done.code == 2
    assert done.err.endswith(
        "there is no terminal to ask at. --yes changes the file without asking\n"
    )
    assert list(empty.folder.iterdir()) == []


def test_a_link_stays_a_link(empty):
    real = empty.write("dotfiles/mcp.json", "{}\n")
    link = empty.folder / "mcp.json"
    link.symlink_to(real)
    assert empty("connect", "vscode", "--write", "--yes", "--file", "mcp.json").code == 0
    assert link.is_symlink()
    assert read(real.read_text())["servers"]["toolcrib"] == ENTRY


TEXTS = [
    "",
    "{}",
    "{ }",
    '{"a": 1}',
    '{"a": 1,}',
    '{\n\t"a": [1, 2,], // x\n}',
    '{"servers": {}}',
    '{"servers": {"t": 1}}',
    '{"servers": {"t": {"old": 1}, "z": "\\u00e9\\n"} /* , */ , "b": null}',
    '// head\n{"servers": {"z": 1 // no, comma\n}}\n// foot\n',
    '\ufeff{"a": "//", "b": "/* */"}',
]


@pytest.mark.parametrize("text", TEXTS)
def test_one_member_is_set_and_all_others_stay(text):
    before = read(text) if text else {}
    made = with_member(text, ("servers", "t"), ENTRY)
    servers = before.get("servers", {}) | {"t": ENTRY}
    assert read(made) == before | {"servers": servers}
    assert with_member(made, ("servers", "t"), ENTRY) == made


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 01}', "{" * 300, '{"a": "\n"}', "/* {}"])
def test_what_is_no_json_is_not_read(text):
    with pytest.raises(Unreadable):
        read(text)
