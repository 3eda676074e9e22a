"""Every example runs as its reader would run it, and says what it is there to show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

SAYS = {
    "quickstart/demo.py": [
        "The profile assistant lists: read_note, send_note",
        "ok       a tool crib for agents",
        "agent asks to run  send_note",
        "ok       sent 'ideas' to ann",
        "denied   approval_rejected: demo said no: not before the weekend",
        "denied   recipient_not_allowed: notes go to ann, ben only",
        "denied   denied_by_rule: nothing is thrown away here",
        "by deny effects destructive, toolcrib.yaml:12",
        "The trail has 6 endings:",
    ],
    "embed.py": [
        "the model sees: reserve, stock",
        'stock {"part": "bolt"} -> 40',
        '-> "reserved 5 of bolt"',
        "-> denied (reserve_at_most_ten): count must be at most 10",
        "-> error (invalid_arguments)",
    ],
    "session.py": [
        "ann: ['tea', 'milk', 'cake']",
        "ben: ['bread']",
        "ann: hello ann, it is noon",
        "ben: unknown_tool",
        "the basket of ann is put away with 3 things",
    ],
    "policy.py": [
        "files_reader: write docs/a.md: action_not_allowed",
        "files_writer: write docs/a.md: allow",
        "files_writer: write docs/../src/a.py: path_outside_root",
        "docs/4: too_many_files",
    ],
    "approvals.py": [
        "ann asks: transfer {'to': 'ben', 'amount': 1000}: the tool requires approval",
        "100 went to ben; carla said: a tenth for now",
        "offered: once, session",
        "6 went to dan (nobody was asked)",
        "remembered: transfer for ann, reach session",
        "on the trail: allow, allow",
    ],
    "plugin.py": [
        "Dear Ben, come on Friday.",
        "signed lease",
        "out_of_office",
        '{"tool": "sign", "reason": "out_of_office"',
    ],
}


def run(*words: str | Path, cwd: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT / "src"), path))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NO_COLOR": "1",
        },
    )


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_and_shows_its_point(name: str, tmp_path: Path) -> None:
    done = run(EXAMPLES / name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert [line for line in SAYS[name] if line not in done.stdout] == [], done.stdout
    assert list(tmp_path.iterdir()) == [], "an example leaves nothing behind"


def test_every_example_is_run() -> None:
    programs = {
        path.relative_to(EXAMPLES).as_posix()
        for path in EXAMPLES.glob("**/*.py")
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    }
    # The server runs in `test_every_kind.py`: it ends when it is told to.
    assert programs == {*SAYS, "kinds/server.py"}


PLUGIN_PROJECT = """
tools:
  - name: sign
    module: papers.py
    function: sign
    effects: [read]
    input_schema: {type: object, properties: {paper: {type: string}}}
    policy: {use: office-hours, present: [ann]}
  - name: invitation
    kind: letter
    effects: [read]
    input_schema: {type: object, properties: {name: {type: string}}, required: [name]}
    config: {text: "Dear $name, come on Friday."}
exporters:
  - denial-file: {file: denials.jsonl}
"""


def test_the_plugin_is_found_once_it_is_installed(tmp_path: Path) -> None:
    installed = tmp_path / "office-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: office\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[toolcrib.plugins]\noffice = plugin:plugin\n")
    path = os.pathsep.join((str(tmp_path), str(EXAMPLES)))
    done = run("-m", "toolcrib", "plugins", cwd=tmp_path, path=path)
    assert done.returncode == 0, done.stderr
    for words in (
        "office", "1.0", "executor letter", "exporter denial-file", "policy office-hours",
    ):  # fmt: skip
        assert words in done.stdout

    (tmp_path / "toolcrib.yaml").write_text(PLUGIN_PROJECT)
    (tmp_path / "papers.py").write_text("def sign(paper):\n    return f'signed {paper}'\n")
    call = ("-m", "toolcrib", "call", "sign", "paper=lease", "--as")
    done = run(*call, "ann", cwd=tmp_path, path=path)
    assert (done.returncode, done.stdout) == (0, "signed lease\n"), done.stderr
    done = run(*call, "ben", cwd=tmp_path, path=path)
    assert done.returncode == 3
    assert '"reason": "out_of_office"' in (tmp_path / "denials.jsonl").read_text()

    done = run("-m", "toolcrib", "call", "invitation", "name=Ben", cwd=tmp_path, path=path)
    assert (done.returncode, done.stdout) == (0, "Dear Ben, come on Friday.\n"), done.stderr
    (tmp_path / "toolcrib.yaml").write_text(PLUGIN_PROJECT.replace("$name", "$nmae"))
    done = run("-m", "toolcrib", "config", "check", cwd=tmp_path, path=path)
    assert done.returncode == 2
    assert "$nmae is no argument of the tool" in done.stdout + done.stderr


def test_the_quick_start_passes_the_checks_of_the_command_line(tmp_path: Path) -> None:
    config = EXAMPLES / "quickstart" / "toolcrib.yaml"
    done = run("-m", "toolcrib", "config", "check", "--config", config, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 tools, 1 profile" in done.stdout + done.stderr
