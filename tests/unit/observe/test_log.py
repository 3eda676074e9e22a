"""One line per ending, for people and for machines."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import toolcrib.observe
from toolcrib.core.events import Event
from toolcrib.observe.log import HumanLog, JsonLog, escape

Make = Callable[..., list[Event]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(log: HumanLog | JsonLog, stream: io.StringIO, events: list[Event]) -> list[str]:
    for event in events:
        log.write(event)
    return stream.getvalue().splitlines()


def test_a_good_call_is_one_line(make_call: Make) -> None:
    stream = io.StringIO()
    (line,) = lines(HumanLog(stream), stream, make_call())
    assert line[8:] == "  ok       add  250.0 ms  for ci  c1"


def test_a_refusal_names_reason_rule_file_and_line(make_denied: Make) -> None:
    stream = io.StringIO()
    (line,) = lines(HumanLog(stream), stream, make_denied(tool="run_tests"))
    assert line[8:] == (
        "  denied   run_tests  path_outside_root: '../other' is outside the session's folder"
        "  by policy run_tests toolcrib.yaml:14  for ci  c1"
    )


def test_the_policy_of_a_tool_is_named_once(make_denied: Make) -> None:
    stream = io.StringIO()
    (line,) = lines(HumanLog(stream), stream, make_denied(rule="policy of add"))
    assert "  by policy of add toolcrib.yaml:14  " in line


def test_told_live_the_line_is_the_same(
    make_denied: Make, make_halves: Callable[[list[Event]], tuple[list[Event], ...]]
) -> None:
    whole, live = io.StringIO(), io.StringIO()
    opened, began, closed = make_halves(make_denied())
    expected = lines(HumanLog(whole), whole, make_denied())
    assert lines(HumanLog(live), live, [*opened, *began, *closed]) == expected


def test_a_failure_tells_why(make_call: Make) -> None:
    stream = io.StringIO()
    events = make_call(
        status="error",
        reason="timeout",
        message="5 s were not enough",
        attempts=3,
        still_running=True,
    )
    (line,) = lines(HumanLog(stream), stream, events)
    assert line[8:] == (
        "  error    add  timeout: 5 s were not enough  250.0 ms  for ci  3 attempts"
        "  still running  c1"
    )


def test_questions_and_changes(make_fact: Callable[..., Event]) -> None:
    stream = io.StringIO()
    asked = make_fact(
        "approval.requested", "c1", principal="ci", tool="deploy", source="toolcrib.yaml:31"
    )
    changed = make_fact("config.rejected", file="toolcrib.yaml", error="line 3: no such key")
    quiet = make_fact("call.progress", "c1", fraction=0.5)
    many = make_fact("provider.accepted", provider="up", tools=["a", "b", "c", "d", "e"])
    said = lines(HumanLog(stream), stream, [asked, quiet, changed, many])
    assert [line[8:] for line in said] == [
        "  asks     ci asks to run deploy  toolcrib.yaml:31  c1",
        "           config.rejected  file=toolcrib.yaml error=line 3: no such key",
        '           provider.accepted  provider=up tools=["a","b","c", … 2 more]',
    ]


HOSTILE = "a\x1b[2Jb\nc\rd\u202ee\u200bf\x9bg\U000e0041h\u2028i\x07"


def test_an_answer_is_one_plain_line(make_fact: Callable[..., Event]) -> None:
    stream = io.StringIO()
    told = {"request": "a1", "tool": "deploy", "principal": "ci", "wait_s": 4.7001}
    allowed = make_fact(
        "approval.decided", "c1", **told, state="allowed", by="ann", reach="session", note="go"
    )
    expired = make_fact("approval.decided", "c1", **told, state="expired", reach="once")
    first, second = lines(HumanLog(stream), stream, [allowed, expired])
    assert first[8:] == "  allowed  deploy  by ann  for ci  reaches session  go  a1  c1"
    assert second[8:] == "  expired  deploy  for ci  a1  c1"


def test_control_characters_are_escaped(make_call: Make, make_fact: Callable[..., Event]) -> None:
    events = make_call(status="error", reason="tool_error", message=HOSTILE, tool=HOSTILE)
    events += [make_fact("tool.log", HOSTILE, message=HOSTILE)]
    for kind in (HumanLog, JsonLog):
        stream = io.StringIO()
        for line in lines(kind(stream), stream, events):
            assert line.isprintable(), ascii(line)
    assert escape("\x1b[2J\U000e0041") == "\\u001b[2J\\udb40\\udc41"


def test_json_lines_carry_the_whole_event(make_call: Make) -> None:
    events = make_call(arguments={"text": HOSTILE})
    stream = io.StringIO()
    said = lines(JsonLog(stream), stream, events)
    assert [json.loads(line) for line in said] == [e.to_dict() for e in events]


def test_an_event_that_json_cannot_say_does_not_stop_the_others() -> None:
    stream = io.StringIO()
    odd = Event(id="", type="tool.log", time=1.0, call_id="c1", data={"x": "\ud800"})
    good = Event(id="", type="tool.log", time=1.0, data={"x": object})
    said = lines(JsonLog(stream), stream, [odd, good])
    assert json.loads(said[0])["data"] == {"unwritable": True}
    assert json.loads(said[1])["data"] == {"x": "<class 'object'>"}
    human = io.StringIO()
    assert "x=\\ud800" in lines(HumanLog(human), human, [odd])[0]


@pytest.mark.parametrize(
    ("stream", "environment", "colour", "painted"),
    [
        (Terminal, {}, None, True),
        (Terminal, {"NO_COLOR": "1"}, None, False),
        (Terminal, {"NO_COLOR": ""}, None, True),
        (Terminal, {"TERM": "dumb"}, None, False),
        (io.StringIO, {}, None, False),
        (io.StringIO, {"NO_COLOR": "1"}, True, True),
        (Terminal, {}, False, False),
    ],
)
def test_colour(
    stream: type[io.StringIO],
    environment: dict[str, str],
    colour: bool | None,
    painted: bool,
    make_call: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = stream()
    (line,) = lines(HumanLog(out, colour), out, make_call())
    assert ("\x1b[32m" in line) is painted
    assert " ok " in line.replace("\x1b[32m", "")


def test_lines_are_held_back_while_a_prompt_is_open(make_call: Make) -> None:
    stream = io.StringIO()
    log = HumanLog(stream)
    with log.hold():
        with log.hold():
            lines(log, stream, make_call("c1"))
        lines(log, stream, make_call("c2"))
        assert stream.getvalue() == ""
    assert [line.split()[-1] for line in stream.getvalue().splitlines()] == ["c1", "c2"]
    lines(log, stream, make_call("c3"))
    assert len(stream.getvalue().splitlines()) == 3


def test_lines_beyond_the_limit_are_owned_up_to(
    make_call: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.observe.log.HELD_LINES", 2)
    stream = io.StringIO()
    log = HumanLog(stream)
    with log.hold():
        for number in range(5):
            lines(log, stream, make_call(f"c{number}"))
    said = stream.getvalue().splitlines()
    assert len(said) == 3
    assert said[-1].startswith("3 more lines")


def test_a_stream_with_a_narrow_encoding(make_denied: Make) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    HumanLog(stream).write(make_denied(message="«hidden»")[-1])
    assert b"\\xabhidden\\xbb" in raw.getvalue()


def test_standard_error_is_looked_up_when_written(
    make_call: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    log = HumanLog()
    log.write(make_call()[-1])
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("c1\n")


def test_importing_configures_no_logging() -> None:
    code = (
        "import logging, threading; before = list(logging.root.handlers), logging.root.level\n"
        "import toolcrib.observe.bus, toolcrib.observe.log, toolcrib.observe.metrics\n"
        "import toolcrib.observe.legacy, toolcrib.observe.otel, sys\n"
        "assert (list(logging.root.handlers), logging.root.level) == before\n"
        "assert not logging.getLogger('toolcrib').handlers\n"
        "assert threading.active_count() == 1\n"
        "heavy = {'prometheus_client', 'opentelemetry', 'rich', 'click'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    sources = str(Path(toolcrib.observe.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": sources},
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_levels_of_the_applications_logging_change_nothing(make_denied: Make) -> None:
    stream = io.StringIO()
    logging.disable(logging.CRITICAL)
    try:
        said: list[Any] = lines(HumanLog(stream), stream, make_denied())
    finally:
        logging.disable(logging.NOTSET)
    assert len(said) == 1
