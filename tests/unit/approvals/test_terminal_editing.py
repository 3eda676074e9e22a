"""Changing arguments at the terminal, and what `m` tells of the calls before."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import pytest

from toolcrib.approvals.rendering import PastCall
from toolcrib.approvals.terminal import TerminalApprover
from toolcrib.core.approval import ApprovalDecision, ApprovalRequest


class Seat:
    """A person at a pseudo-terminal: both the keys and the screen are real."""

    def __init__(self, clock: Any, **options: Any) -> None:
        self.hand, slave = os.openpty()
        self.input: TextIO = os.fdopen(slave, "r")
        self.output: TextIO = os.fdopen(os.dup(slave), "w")
        os.set_blocking(self.hand, False)
        self.seen = ""
        self.approver = TerminalApprover(
            input=self.input, output=self.output, clock=clock, **options
        )

    def asked(self, request: ApprovalRequest) -> asyncio.Task[ApprovalDecision]:
        return asyncio.create_task(self.approver.ask(request))

    async def shows(self, text: str, times: int = 1) -> str:
        for _ in range(5000):
            try:
                self.seen += os.read(self.hand, 65536).decode().replace("\r\n", "\n")
            except BlockingIOError:
                await asyncio.sleep(0.002)
            if self.seen.count(text) >= times:
                return self.seen
        raise AssertionError(f"the screen does not show {text!r}:\n{self.seen}")

    def types(self, keys: str) -> None:
        os.write(self.hand, keys.encode())

    def close(self) -> None:
        self.input.close()
        self.output.close()
        os.close(self.hand)


@pytest.fixture
def seats(clock: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes seats, without an editor unless the test names one."""
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    made: list[Seat] = []

    def make(**options: Any) -> Seat:
        made.append(Seat(clock, **options))
        return made[-1]

    yield make
    for seat in made:
        seat.close()


@pytest.fixture
def edit_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes an editor of a few lines of Python, which find the file's path in `file`."""

    def make(code: str, variable: str = "EDITOR") -> None:
        script = tmp_path / "editor.py"
        script.write_text(f"import os, sys\nfile = sys.argv[-1]\n{code}\n")
        monkeypatch.setenv(variable, f"{sys.executable} '{script}' --wait")

    return make


ASKED = "Refused by itself in"


async def test_e_opens_the_editor_on_a_private_file_and_shows_what_will_run(
    seats: Any, edit_with: Any, make_request: Any, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    edit_with(
        f"""
open({str(report)!r}, "w").write(f"{{os.stat(file).st_mode:o}} {{open(file).read()}}{{file}}")
open(file, "w").write('{{"path": "tests/unit"}}')
"""
    )
    seat = seats()
    asking = seat.asked(make_request(edit=True))
    assert "  y  allow once     s  allow run_tests in this session     e  edit     n  refuse" in (
        await seat.shows(ASKED)
    )
    seat.types("e")
    shown = await seat.shows(ASKED, times=2)
    assert not asking.done(), "the person sees the changed arguments before the last key"
    assert '  To be run with\n  {\n    "path": "tests/unit"\n  }\n\n  y  allow once' in shown
    seat.types("y")
    decision = await asking
    assert (decision.answer, decision.arguments) == ("allow", {"path": "tests/unit"})
    mode, _, rest = report.read_text().partition(" ")
    assert stat.S_IMODE(int(mode, 8)) == 0o600
    text, _, file = rest.rpartition("\n")
    assert json.loads(text) == {"path": "tests/integration"}
    assert not Path(file).parent.exists(), "nothing is left behind"


async def test_visual_is_preferred_and_gets_the_terminal_as_it_was(
    seats: Any, edit_with: Any, make_request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit_with(
        "import termios\n"
        "assert os.isatty(0) and os.isatty(1)\n"
        "assert termios.tcgetattr(0)[3] & termios.ICANON\n"
        'open(file, "w").write(\'{"path": "here"}\')',
        "VISUAL",
    )
    monkeypatch.setenv("EDITOR", "false")
    seat = seats()
    asking = seat.asked(make_request(edit=True))
    await seat.shows(ASKED)
    seat.types("e")
    await seat.shows("here")
    await seat.shows(ASKED, times=2)
    seat.types("s")
    decision = await asking
    assert (decision.reach, decision.arguments) == ("session", {"path": "here"})


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("open(file, 'w').write('{\"a\": ')", "this is not JSON: "),
        ("open(file, 'w').write('{\"a\": 1, \"a\": 2}')", "this is not JSON: "),
        ("open(file, 'w').write('[1]')", "the arguments must be a JSON object"),
        ("open(file, 'wb').write(b'\\xff')", "the file cannot be read as text"),
        ("os.unlink(file)", "the file cannot be read as text"),
        ("open(file, 'w').write('x' * 1_000_001)", "is over 1000000 characters long"),
        ("sys.exit(3)", "ended with 3; nothing was changed"),
    ],
    ids=["cut", "twice", "list", "bytes", "gone", "long", "failed"],
)
async def test_what_cannot_be_used_is_told_and_asked_again(
    seats: Any, edit_with: Any, make_request: Any, code: str, words: str
) -> None:
    edit_with(code)
    seat = seats()
    asking = seat.asked(make_request(edit=True))
    await seat.shows(ASKED)
    seat.types("e")
    shown = await seat.shows(ASKED, times=2)
    assert "  The arguments cannot be used; e edits them again.\n" in shown
    assert words in shown
    seat.types("y")
    assert (await asking).arguments is None


async def test_an_editor_that_is_not_there_is_told(
    seats: Any, make_request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    seat = seats()
    asking = seat.asked(make_request(edit=True))
    await seat.shows(ASKED)
    seat.types("e")
    await seat.shows("/no/such/editor cannot be started: No such file or directory")
    await seat.shows(ASKED, times=2)
    seat.types("y")
    assert (await asking).answer == "allow"


async def test_arguments_that_do_not_fit_the_schema_are_told_and_kept_for_the_next_try(
    seats: Any, edit_with: Any, make_request: Any
) -> None:
    def check(request: ApprovalRequest, arguments: dict[str, Any]) -> Sequence[str]:
        return [] if arguments["path"] == "2" else [f"path {arguments['path']} is \x1b[2J wrong"]

    edit_with(
        "import json\n"
        "tried = json.load(open(file))['path']\n"
        "open(file, 'w').write(json.dumps({'path': '2' if tried == '1' else '1'}))"
    )
    seat = seats(check=check)
    asking = seat.asked(make_request(edit=True))
    await seat.shows(ASKED)
    seat.types("e")
    shown = await seat.shows(ASKED, times=2)
    assert "    path 1 is \\u001b[2J wrong\n" in shown
    assert "To be run with" not in shown
    seat.types("e")
    await seat.shows("To be run with")
    await seat.shows(ASKED, times=3)
    seat.types("y")
    assert (await asking).arguments == {"path": "2"}


async def test_a_check_that_fails_lets_nothing_through(
    seats: Any, edit_with: Any, make_request: Any
) -> None:
    def check(request: ApprovalRequest, arguments: dict[str, Any]) -> Sequence[str]:
        raise RuntimeError("secret words")

    edit_with("open(file, 'w').write('{\"path\": 1}')")
    seat = seats(check=check)
    asking = seat.asked(make_request(edit=True))
    await seat.shows(ASKED)
    seat.types("e")
    shown = await seat.shows(ASKED, times=2)
    assert "they cannot be checked: RuntimeError" in shown
    assert "secret words" not in shown
    seat.types("y")
    assert (await asking).arguments is None


async def test_without_an_editor_one_line_is_asked_for(seats: Any, make_request: Any) -> None:
    seat = seats()
    asking = seat.asked(make_request(edit=True, arguments={"path": "a\u202eb\U000e0041"}))
    await seat.shows(ASKED)
    seat.types("e")
    shown = await seat.shows("The arguments as one line of JSON, or Enter to leave them: ")
    assert '  {"path": "a\\u202eb\\udb40\\udc41"}\n' in shown
    seat.types('{"path": "q"}\n')
    await seat.shows("To be run with")
    await seat.shows(ASKED, times=2)
    seat.types("y")
    assert (await asking).arguments == {"path": "q"}


async def test_enter_leaves_the_arguments_and_so_does_the_same_text(
    seats: Any, make_request: Any
) -> None:
    seat = seats()
    asking = seat.asked(make_request(edit=True))
    await seat.shows(ASKED)
    seat.types("e")
    await seat.shows("or Enter to leave them: ")
    seat.types("\n")
    await seat.shows(ASKED, times=2)
    seat.types("e")
    await seat.shows("or Enter to leave them: ", times=2)
    seat.types('{"path": "tests/integration"}\n')
    await seat.shows("The arguments are as they were.")
    await seat.shows(ASKED, times=3)
    assert not asking.done()
    seat.types("y")
    assert (await asking).arguments is None


async def test_e_does_nothing_where_editing_is_not_permitted(seats: Any, make_request: Any) -> None:
    seat = seats()
    asking = seat.asked(make_request())
    assert "e  edit" not in await seat.shows(ASKED)
    seat.types("e")
    await seat.shows("e does nothing; press y, s, n or m.")
    await seat.shows(ASKED, times=2)
    seat.types("y")
    assert (await asking).answer == "allow"


async def test_an_answer_from_elsewhere_closes_the_editor(
    seats: Any, edit_with: Any, make_request: Any, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    edit_with(f"import time\nopen({str(started)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    seat = seats()
    asking = seat.asked(make_request(edit=True))
    await seat.shows(ASKED)
    seat.types("e")
    for _ in range(5000):
        if started.exists() and started.read_text():
            break
        await asyncio.sleep(0.002)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await seat.shows("No longer asked here.")
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


async def test_time_runs_out_for_the_editor_too(
    seats: Any, edit_with: Any, make_request: Any, clock: Any
) -> None:
    edit_with("import time\ntime.sleep(60)")
    seat = seats()
    asking = seat.asked(make_request(edit=True, expires=clock.now + 0.5))
    await seat.shows(ASKED)
    seat.types("e")
    began = time.monotonic()
    assert (await asking).answer == "escalate"
    assert time.monotonic() - began < 30
    await seat.shows("Nobody answered in time.")


async def test_more_tells_the_calls_before(seats: Any, make_request: Any) -> None:
    async def past(request: ApprovalRequest) -> list[PastCall]:
        return [PastCall("git", "ok", "12:00:01"), PastCall("rm\x1b", "denied, why", "12:00:02")]

    seat = seats(past=past)
    asking = seat.asked(make_request())
    await seat.shows(ASKED)
    seat.types("m")
    shown = await seat.shows(ASKED, times=2)
    assert "  Calls before, in this session\n" in shown
    assert "    git                    ok                     12:00:01\n" in shown
    assert "    rm\\u001b               denied, why            12:00:02\n" in shown
    behind = shown.rpartition("12:00:02")[2]
    assert "  claude-code asks to run  run_tests\n" in behind, "what is asked stands below again"
    seat.types("y")
    await asking


@pytest.mark.parametrize(
    ("session", "words"), [("s1", "in this session"), (None, "of this principal")]
)
async def test_more_says_when_nothing_came_before(
    seats: Any, make_request: Any, session: str | None, words: str
) -> None:
    async def past(request: ApprovalRequest) -> list[PastCall]:
        return []

    seat = seats(past=past)
    asking = seat.asked(make_request(session=session, offered=("once",)))
    await seat.shows(ASKED)
    seat.types("m")
    await seat.shows(f"  No calls before, {words}\n")
    await seat.shows(ASKED, times=2)
    seat.types("y")
    await asking


async def test_calls_that_cannot_be_read_do_not_stop_the_question(
    seats: Any, make_request: Any
) -> None:
    async def past(request: ApprovalRequest) -> list[PastCall]:
        raise OSError("no")

    seat = seats(past=past)
    asking = seat.asked(make_request())
    await seat.shows(ASKED)
    seat.types("m")
    assert "before" not in await seat.shows(ASKED, times=2)
    seat.types("y")
    assert (await asking).answer == "allow"


async def test_a_host_lends_what_it_knows_where_nothing_was_given(
    seats: Any, make_request: Any
) -> None:
    class Records:
        def problems(self, request: ApprovalRequest, arguments: dict[str, Any]) -> list[str]:
            return ["the host says no"]

        async def past(self, request: ApprovalRequest) -> list[PastCall]:
            return [PastCall("add", "ok", "now")]

    seat = seats(check=lambda request, arguments: ["my own says no"])
    seat.approver.use_records(Records())
    asking = seat.asked(make_request(edit=True))
    await seat.shows(ASKED)
    seat.types("m")
    await seat.shows("    add                    ok ")
    await seat.shows(ASKED, times=2)
    seat.types("e")
    await seat.shows("or Enter to leave them: ")
    seat.types("{}\n")
    await seat.shows("my own says no")
    await seat.shows(ASKED, times=3)
    seat.types("y")
    await asking
