"""The approver at the terminal, with real keys on a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import io
import os
import select
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import pytest

from toolcrib.approvals.terminal import TerminalApprover
from toolcrib.core.approval import ApprovalDecision, ApprovalRequest


class Screen(io.StringIO):
    """What the person sees."""

    async def shows(self, text: str, times: int = 1) -> None:
        for _ in range(5000):
            if self.getvalue().count(text) >= times:
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"the screen does not show {text!r}:\n{self.getvalue()}")


class Person:
    """Types on a terminal and reads the screen."""

    def __init__(self, clock: Any) -> None:
        self.hand, self._slave = os.openpty()
        self.input: TextIO = os.fdopen(self._slave, "r")
        self.screen = Screen()
        self.held: list[str] = []
        self.approver = TerminalApprover(
            input=self.input, output=self.screen, hold=self._hold, clock=clock
        )

    @contextmanager
    def _hold(self) -> Iterator[None]:
        self.held.append("hold")
        yield
        self.held.append("release")

    def asked(self, request: ApprovalRequest) -> asyncio.Task[ApprovalDecision]:
        return asyncio.create_task(self.approver.ask(request))

    async def types(self, keys: str) -> None:
        os.write(self.hand, keys.encode())

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._slave)


@pytest.fixture
def person(clock: Any) -> Iterator[Person]:
    person = Person(clock)
    yield person
    os.close(person.hand)
    person.input.close()


@pytest.mark.parametrize(
    ("key", "reach"), [("y", "once"), ("s", "session"), ("h", "1h"), ("a", "always")]
)
async def test_one_key_allows(person: Person, make_request: Any, key: str, reach: str) -> None:
    before = person.modes()
    asking = person.asked(make_request(offered=("once", "session", "1h", "always")))
    await person.screen.shows(">")
    assert not person.modes()[3] & (termios.ICANON | termios.ECHO)
    await person.types(key)
    decision = await asking
    assert (decision.answer, decision.reach, decision.by) == ("allow", reach, "terminal")
    assert person.modes() == before
    assert person.held == ["hold", "release"]


async def test_the_prompt_reads_as_designed(person: Person, make_request: Any, clock: Any) -> None:
    request = make_request()
    clock.now += 2
    asking = person.asked(request)
    await person.screen.shows(">")
    assert person.screen.getvalue() == (
        "\n"
        "  claude-code asks to run  run_tests\n"
        "    path        tests/integration\n"
        "  Effects       unknown, treated as the worst case\n"
        "  Asked because effects other than read are asked     toolcrib.yaml:31\n"
        "\n"
        "  y  allow once     s  allow run_tests in this session     n  refuse     m  more\n"
        "  Refused by itself in 4:58.  > "
    )
    await person.types("y")
    await asking


async def test_enter_does_nothing(person: Person, make_request: Any) -> None:
    asking = person.asked(make_request())
    await person.screen.shows(">")
    shown = person.screen.getvalue()
    for key in ("\r", "\n", "\r\n"):
        await person.types(key)
        await asyncio.sleep(0.02)
    assert not asking.done()
    assert person.screen.getvalue() == shown
    await person.types("n")
    await person.screen.shows("note")
    await person.types("\n")
    assert (await asking).answer == "deny"


@pytest.mark.parametrize("keys", ["x", "Y", "h", "a", "yes", "\x1b[A", "\x1by", " ", "ü", "\x1b"])
async def test_another_key_does_nothing_and_reminds(
    person: Person, make_request: Any, keys: str
) -> None:
    asking = person.asked(make_request())
    await person.screen.shows(">")
    await person.types(keys)
    await person.screen.shows("does nothing; press y, s, n or m.")
    assert not asking.done()
    assert "\x1b" not in person.screen.getvalue()
    await person.screen.shows("Refused by itself in", times=2)
    await person.types("y")
    assert (await asking).answer == "allow"


async def test_refusing_takes_a_note_with_the_terminals_own_editing(
    person: Person, make_request: Any
) -> None:
    before = person.modes()
    asking = person.asked(make_request())
    await person.screen.shows(">")
    await person.types("n")
    await person.screen.shows("A note for the model, or Enter for none: ")
    assert person.modes()[3] & termios.ICANON
    await person.types("not on a Fx\x7friday\n")
    decision = await asking
    assert (decision.answer, decision.note) == ("deny", "not on a Friday")
    assert person.modes() == before


async def test_more_shows_all_and_asks_again(person: Person, make_request: Any) -> None:
    asking = person.asked(make_request(arguments={"path": "x" * 300}))
    await person.screen.shows(">")
    assert "x" * 300 not in person.screen.getvalue()
    await person.types("m")
    await person.screen.shows("Refused by itself in", times=2)
    shown = person.screen.getvalue()
    for part in ("x" * 300, "c1", "d1", "reviewer"):
        assert part in shown
    await person.types("y")
    assert (await asking).answer == "allow"


async def test_keys_typed_before_the_question_do_not_answer_it(
    person: Person, make_request: Any
) -> None:
    await person.types("y")
    assert os.read(person.hand, 1) == b"y"  # the echo: the terminal has it
    await refuses(person, make_request())


async def test_keys_typed_while_the_question_is_drawn_do_not_answer_it(
    person: Person, make_request: Any
) -> None:
    drawn = person.screen.write

    def typing(text: str) -> int:
        if "asks to run" in text:
            os.write(person.hand, b"y")
            while not select.select([person.input], [], [], 0.01)[0]:
                pass
        return drawn(text)

    person.screen.write = typing
    await refuses(person, make_request())


async def refuses(person: Person, request: ApprovalRequest) -> None:
    asking = person.asked(request)
    await person.screen.shows(">")
    await asyncio.sleep(0.02)
    assert not asking.done()
    await person.types("n")
    await person.screen.shows("note")
    await person.types("\n")
    assert (await asking).answer == "deny"


async def test_one_question_at_a_time_in_order(person: Person, make_request: Any) -> None:
    requests = [make_request(tool=f"tool{n}", offered=("once",)) for n in range(3)]
    asks = [person.asked(request) for request in requests]
    for n, key in enumerate("yny"):
        await person.screen.shows(f"asks to run  tool{n}")
        await person.screen.shows("  > ", times=n + 1)
        assert f"tool{n + 1}" not in person.screen.getvalue()
        await person.types(key)
        if key == "n":
            await person.screen.shows("note")
            await person.types("\n")
        await asks[n]
    assert [task.result().answer for task in asks] == ["allow", "deny", "allow"]
    assert person.held == ["hold", "release"] * 3


async def test_a_question_answered_elsewhere_closes_and_restores(
    person: Person, make_request: Any, desk: Any
) -> None:
    before = person.modes()
    inbox = desk.inbox(person.approver)
    request = make_request()
    waiting = asyncio.create_task(inbox.ask(request))
    await person.screen.shows(">")
    await inbox.decide(request.id, allow=True, by="ana", via="console")
    assert (await waiting).by == "ana"
    await person.screen.shows("No longer asked here.")
    await inbox.close()
    assert person.modes() == before


async def test_a_question_that_waits_for_its_turn_can_be_withdrawn(
    person: Person, make_request: Any
) -> None:
    first = person.asked(make_request(tool="one"))
    await person.screen.shows(">")
    second = person.asked(make_request(tool="two"))
    await asyncio.sleep(0.01)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await person.types("y")
    assert (await first).answer == "allow"
    assert "two" not in person.screen.getvalue()


async def test_time_that_runs_out_is_no_answer(
    person: Person, make_request: Any, clock: Any
) -> None:
    before = person.modes()
    request = make_request(expires=clock.now + 0.05)
    assert (await person.approver.ask(request)).answer == "escalate"
    assert person.screen.getvalue().endswith("\n  Nobody answered in time.\n")
    assert person.modes() == before


async def test_end_of_input_leaves_it_pending(person: Person, make_request: Any) -> None:
    asking = person.asked(make_request())
    await person.screen.shows(">")
    await person.types("\x04")
    assert (await asking).answer == "escalate"
    assert "it stays pending" in person.screen.getvalue()


async def test_through_the_inbox_the_answer_counts_as_cli(
    person: Person, make_request: Any, desk: Any
) -> None:
    inbox = desk.inbox(person.approver)
    waiting = asyncio.create_task(inbox.ask(make_request(via=("cli",))))
    await person.screen.shows(">")
    await person.types("s")
    final = await waiting
    assert (final.state, final.reach) == ("allowed", "session")
    assert desk.data("approval.decided")["via"] == "cli"


async def answers(lines: str, *requests: ApprovalRequest, clock: Any) -> tuple[list[str], str]:
    """What a pipe with these lines answers, and the screen."""
    near, far = os.pipe()
    os.write(far, lines.encode())
    os.close(far)
    screen = Screen()
    with os.fdopen(near, "r") as stream:
        approver = TerminalApprover(input=stream, output=screen, clock=clock)
        return [
            f"{d.answer}:{d.reach}:{d.note}"
            for d in [await approver.ask(request) for request in requests]
        ], screen.getvalue()


async def test_a_pipe_answers_by_lines(make_request: Any, clock: Any) -> None:
    one, two, three = make_request(), make_request(), make_request()
    got, _ = await answers("y\nn\ntoo risky\ns\n", one, two, three, clock=clock)
    assert got == ["allow:once:None", "deny:once:too risky", "allow:session:None"]


async def test_a_pipe_needs_the_key_and_nothing_else(make_request: Any, clock: Any) -> None:
    got, screen = await answers("\n\nyes\nok\ny ; rm\n n \n", make_request(), clock=clock)
    assert got == ["deny:once:None"]
    assert screen.count("does nothing") == 3


async def test_the_end_of_a_pipe_is_no_answer(make_request: Any, clock: Any) -> None:
    got, _ = await answers("", make_request(), make_request(), clock=clock)
    assert got == ["escalate:once:None"] * 2
    got, _ = await answers("y", make_request(), make_request(), clock=clock)
    assert got == ["allow:once:None", "escalate:once:None"]


async def test_a_stream_without_a_descriptor_works_too(make_request: Any, clock: Any) -> None:
    screen = Screen()
    approver = TerminalApprover(input=io.StringIO("q\ny\n"), output=screen, clock=clock)
    assert (await approver.ask(make_request())).answer == "allow"
    assert (await approver.ask(make_request())).answer == "escalate"


async def test_an_interrupt_leaves_it_pending(make_request: Any, clock: Any) -> None:
    class Interrupted(io.StringIO):
        def readline(self, size: int | None = -1, /) -> str:
            raise KeyboardInterrupt

    approver = TerminalApprover(input=Interrupted(), output=Screen(), clock=clock)
    assert (await approver.ask(make_request())).answer == "escalate"


async def test_prompts_go_to_standard_error(
    make_request: Any, clock: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    approver = TerminalApprover(input=io.StringIO("y\n"), clock=clock)
    await approver.ask(make_request())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "asks to run" in captured.err


async def test_a_screen_that_lacks_characters_gets_their_codes(
    make_request: Any, clock: Any
) -> None:
    raw = io.BytesIO()
    output = io.TextIOWrapper(raw, encoding="ascii")
    approver = TerminalApprover(input=io.StringIO("y\n"), output=output, clock=clock)
    assert (await approver.ask(make_request(arguments={"path": "ü"}))).answer == "allow"
    assert b"\\xfc" in raw.getvalue()
