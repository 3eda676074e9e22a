"""The examples of README.md and docs/ run, and the runner that says so can say no."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from markdown_runner import ROOT, ExampleError, run_page, same_words

PAGES = [
    page for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))) if page.is_file()
]

RunPage = Callable[[str], None]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_examples_of_a_page_do_what_they_say(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)


@pytest.fixture
def run(tmp_path: Path) -> RunPage:
    """Runs a page given as text."""

    def run_text(text: str) -> None:
        page = tmp_path / "page.md"
        page.write_text(dedent(text), encoding="utf-8")
        run_page(page, tmp_path)

    return run_text


def test_python_blocks_share_names_and_the_loop(run: RunPage) -> None:
    run(
        """
        ```python
        import asyncio

        async def answer() -> int:
            return 42

        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        ```

        Between them stands a sentence.

        ```python
        assert await answer() == 42
        assert asyncio.get_running_loop() is loop
        ```
        """
    )


def test_a_failing_python_block_fails_and_points_into_the_page(run: RunPage) -> None:
    with pytest.raises(AssertionError) as caught:
        run(
            """
            ```python
            fine = True

            assert not fine
            ```
            """
        )
    last = caught.traceback[-1]
    assert Path(last.path).name == "page.md"
    assert last.lineno + 1 == 5


def test_future_imports_of_the_runner_do_not_reach_the_examples(run: RunPage) -> None:
    run(
        """
        ```python
        def double(number: int) -> int:
            return 2 * number

        assert double.__annotations__["number"] is int
        ```
        """
    )


def test_classes_with_quoted_annotations_resolve_on_the_page(run: RunPage) -> None:
    run(
        """
        ```python
        from __future__ import annotations
        from dataclasses import dataclass
        from typing import get_type_hints

        @dataclass
        class Leaf:
            size: int

        @dataclass
        class Tree:
            leaf: Leaf

        assert get_type_hints(Tree) == {"leaf": Leaf}
        assert __name__ == "__main__"
        ```
        """
    )


def test_named_blocks_become_files_for_later_blocks(run: RunPage) -> None:
    run(
        """
        ```yaml
        # profiles/reader.yml
        trust: 1
        ```

        ```python
        # shelf.py
        size = 1
        ```

        ```python
        from pathlib import Path
        import shelf
        assert shelf.size == 1
        assert Path("profiles/reader.yml").read_text().splitlines()[1] == "trust: 1"
        ```

        ```python
        # shelf.py
        size = 2
        ```

        ```python
        import shelf
        assert shelf.size == 2
        ```

        ```console
        $ python -c "import shelf; print('size', shelf.size)"
        size 2
        ```
        """
    )
    assert "shelf" not in sys.modules


def test_a_comment_that_is_no_file_name_leaves_the_block_an_example(run: RunPage) -> None:
    with pytest.raises(LookupError):
        run("```python\n# host.call\nraise LookupError\n```\n")


def test_output_is_compared_by_words(run: RunPage) -> None:
    run(
        """
        ```console
        $ python -c "print('ok   call_17\\n took 3 ms')"
        ok call_…
           took … ms
        ```
        """
    )


@pytest.mark.parametrize(
    "shown", ["one two", "one two three four", "one three two", "one … four", "One two three"]
)
def test_other_output_fails_and_shows_both(run: RunPage, shown: str) -> None:
    with pytest.raises(ExampleError, match=r"page.md:3: `echo one two three`") as caught:
        run(f"\n```console\n$ echo one two three\n{shown}\n```\n")
    assert f"-{shown}" in str(caught.value)
    assert "+one two three" in str(caught.value)


def test_standard_error_is_part_of_the_output(run: RunPage) -> None:
    run(
        """
        ```console
        $ python -c "import sys; sys.exit('no such tool')"
        no such tool
        $ echo $?
        1
        ```
        """
    )


def test_a_command_without_shown_output_has_to_succeed(run: RunPage) -> None:
    with pytest.raises(ExampleError, match="ended with exit code 3"):
        run('\n```console\n$ python -c "raise SystemExit(3)"\n```\n')


def test_toolcrib_is_this_interpreters_module(run: RunPage) -> None:
    run(
        """
        ```python
        # toolcrib/__init__.py
        ```

        ```python
        # toolcrib/__main__.py
        import os, sys
        print(*sys.argv[1:], os.environ["CRIB_TOKEN"], os.environ.get("STAGE", "none"))
        print(sys.executable)
        ```

        ```console
        $ export CRIB_TOKEN="not secret"
        $ STAGE=test toolcrib call add \\
        >     a=1
        call add a=1 not secret test
        """
        + sys.executable
        + """
        $ toolcrib tools | cat
        tools not secret none …
        ```

        ```python
        import os
        assert os.environ["CRIB_TOKEN"] == "not secret"
        ```
        """
    )
    assert "CRIB_TOKEN" not in os.environ


def test_commands_for_the_reader_only_are_not_run(run: RunPage) -> None:
    run("\n```console\n$ false\nshown to the reader\n```\n")


def test_a_skipped_block_is_not_run(run: RunPage) -> None:
    run("<!-- example: skip because it needs a person -->\n```python\nraise RuntimeError\n```\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- example: skip -->\n```python\n1\n```\n", "page.md:1: write .*skip because REASON"),
        ("<!-- example: skp because -->\n```python\n```\n", "skip because REASON"),
        ("\n```python\nprint(1)\n", "page.md:2: this block is never closed"),
        ("```py\n1\n```\n", "page.md:1: write `python` instead of `py`"),
        ("```pycon\n>>> 1\n```\n", "write `python` instead of `pycon`"),
        ("```console\ntoolcrib tools\n```\n", "page.md:2: a console block begins with"),
    ],
    ids=["skip without reason", "unknown word", "never closed", "py", "pycon", "no command"],
)
def test_a_malformed_example_is_refused(run: RunPage, text: str, message: str) -> None:
    with pytest.raises(ExampleError, match=message):
        run(text)


def test_blocks_inside_a_longer_fence_and_other_languages_are_text(run: RunPage) -> None:
    run("````markdown\n```python\nraise RuntimeError\n```\n````\n\n```json\n{\n```\n")


def test_blocks_in_a_list_lose_their_indentation(run: RunPage) -> None:
    with pytest.raises(ZeroDivisionError):
        run("1. First\n\n   ```python\n   if True:\n       1 / 0\n   ```\n")


def test_the_page_leaves_directory_and_program_as_they_were(run: RunPage) -> None:
    directory, main = Path.cwd(), sys.modules["__main__"]
    with pytest.raises(LookupError):
        run("```python\nraise LookupError\n```\n")
    assert Path.cwd() == directory
    assert sys.modules["__main__"] is main


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("…", "", True),
        ("… end", "a b end", True),
        ("… end", "end of it", False),
        ("a … b … c", "a 1 b 2 b c", True),
        ("[a]*?", "[a]*?", True),
        ("[a]*?", "axy", False),
        ("v…", "v1.2", True),
        ("v…", "w1.2", False),
        ("", "", True),
    ],
)
def test_words(shown: str, printed: str, same: bool) -> None:
    assert same_words(shown.split(), printed.split()) is same
