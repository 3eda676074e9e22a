"""What the README shows of the quick start is what its host answers."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from markdown_runner import read_blocks, read_commands, same_words
from needs import needs

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
ADDRESS = "127.0.0.1:8700"


def shown(language):
    blocks = [b for b in read_blocks(README) if b.language == language and ADDRESS in b.text]
    assert blocks
    return blocks


def copied(folder):
    """The quick start without what somebody's host has left in it."""
    place = folder / "examples" / "quickstart"
    shutil.copytree(ROOT / "examples" / "quickstart", place, ignore=lambda *_: [".toolcrib"])
    return place


@pytest.fixture
def quickstart(cli_in, tmp_path):
    shutil.copytree(
        ROOT / "examples" / "quickstart", tmp_path / "q", ignore=lambda *_: [".toolcrib"]
    )
    cli = cli_in(tmp_path / "q")
    with cli.serve() as running:
        yield cli, running


def there(text, running):
    return text.replace(ADDRESS, running.url.removeprefix("http://").removesuffix("/v1"))


def test_the_commands_of_the_readme(quickstart, command_environment):
    needs("curl", "curl")
    cli, running = quickstart
    environment = command_environment()
    (block,) = (b for b in shown("console") if "make serve" not in b.text)
    commands = read_commands(README, block)
    assert len(commands) > 4
    for command in commands:
        text = there(command.text, running)
        if text.startswith("export "):
            name, _, value = text.removeprefix("export ").partition("=")
            environment[name] = value
            continue
        done = subprocess.run(
            ["sh", "-c", text],
            cwd=cli.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=60,
        )
        assert same_words(command.output.split(), done.stdout.split()), done.stdout


def test_the_python_of_the_readme(quickstart):
    cli, running = quickstart
    (block,) = shown("python")
    body = textwrap.indent(there(block.text, running), "    ")
    code = f"import asyncio\nasync def main():\n{body}\nasyncio.run(main())\nprint('ok')\n"
    done = cli.python(code)
    assert (done.code, done.out) == (0, "ok\n"), done.err


def test_make_serve_prints_what_the_readme_shows(tmp_path):
    (block,) = (b for b in shown("console") if "make serve" in b.text)
    lines = block.text.splitlines()
    words = lines[lines.index("$ make serve") + 1 :]
    line = next(
        line for line in (ROOT / "Makefile").read_text().splitlines() if "toolcrib serve" in line
    )
    typed = (
        line.strip().removeprefix("@$(RUN) -m toolcrib ").removesuffix(" $(SERVE_FLAGS)").split()
    )
    assert typed == ["serve", "--config", "examples/quickstart/toolcrib.yaml"]
    copied(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "toolcrib", *typed, "--listen", "127.0.0.1:0"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        told = [process.stderr.readline().rstrip("\n") for _ in words]
    finally:
        process.terminate()
        process.communicate(timeout=20)
    port = told[3].partition("127.0.0.1:")[2].partition("/")[0]
    assert [line.replace(port, "8700") if port else line for line in told] == words
    assert process.returncode == 0
