"""Commands that only look: they change nothing, and nobody waits for what they do not need."""

from __future__ import annotations

from pathlib import Path

import pytest

CONFIG = """\
version: 1
host:
  audit: {key: the.key, anchor: anchors.jsonl}
tools:
  - {name: shout, module: words, function: shout, effects: [read], description: Shout.,
     input_schema: {type: object, properties: {text: {type: string}}, required: [text]}}
  - {name: "true", kind: shell, config: {argv: ["true"], sandbox: subprocess}, effects: [read],
     description: Nothing., input_schema: {type: object}}
providers:
  memo: {type: storage}
exporters:
  - json: {file: events.jsonl}
profiles:
  all: {rules: [{allow: "*"}]}
"""


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize(
    "words",
    ["tools", "tools show shout", "tools check", "explain shout text=a", "explain --all",
     "providers", "doctor", "policy verify", "config check", "calls", "approvals", "audit search"],
)  # fmt: skip
def test_looking_leaves_nothing_behind(empty, monkeypatch, words):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    empty.write("words.py", "def shout(text: str) -> str:\n    return text.upper()\n")
    empty.write("toolcrib.yaml", CONFIG)
    (empty.folder / ".git").mkdir()
    before = tree(empty.folder)
    done = empty(*words.split())
    assert done.code == 0, (done.out, done.err)
    assert tree(empty.folder) == before


def test_the_mistakes_of_exporters_are_told_by_whoever_looks(empty):
    empty.write("words.py", "def shout(text: str) -> str:\n    return text.upper()\n")
    empty.write("toolcrib.yaml", CONFIG.replace("file:", "flie:"))
    done = empty("tools")
    assert done.code == 2
    assert "Did you mean file?" in done.err


def test_a_call_that_asks_nobody_imports_nothing_to_ask_with(cli):
    code = (
        "import sys\n"
        "from toolcrib.cli.main import main\n"
        "try:\n    main(['call', 'add', 'a=1', 'b=2'])\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "print(*(m for m in sys.modules if m.startswith('toolcrib.approvals.')))\n"
    )
    done = cli.python(code)
    answer, modules = done.out.splitlines()
    assert answer == "3"
    assert not {"terminal", "prompt", "editing"} & {
        name.rpartition(".")[2] for name in modules.split()
    }
