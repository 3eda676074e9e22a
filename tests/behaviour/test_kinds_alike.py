"""A tool's kind is a detail: the same call ends in the same way whatever runs it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kinds import MUCH, NAMES, Kind, kind, written
from support import asked, assert_one_ending, story

from executing import children, descriptors, until
from toolcrib import ToolHost, ToolResult
from toolcrib.testing import ApprovalSimulator

SECRET = "s3cr3t-Zebra-4711-0815"
ALL: Mapping[str, Any] = {"profiles": {"only": {"rules": [{"allow": "*"}]}}}


@pytest.fixture(params=NAMES)
async def made(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kind]:
    async with kind(request.param, tmp_path) as found:
        yield found


@asynccontextmanager
async def running(
    made: Kind,
    config: Mapping[str, Any] = ALL,
    *,
    fields: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[ToolHost]:
    file = written(made.folder, {**made.config(fields or {}), **config})
    async with ToolHost.from_config(file, **options) as host:
        yield host


async def ended(
    host: ToolHost, made: Kind, how: str = "say", text: str = "hello", **options: Any
) -> ToolResult:
    """How such a call ends: the trail says once what the result says."""
    result = await host.call(*made.call(how, text), **options)
    ending = await assert_one_ending(host, result.call_id)
    assert ending.data["status"] == result.status
    assert ending.data.get("reason") == result.reason
    return result


async def test_it_runs_once_and_gives_what_it_was_given(made: Kind) -> None:
    async with running(made) as host:
        result = await ended(host, made)
        assert result.status == "ok", result
        assert made.said(result.output) == "hello"
        assert made.ran() == 1
        assert host.explain(*made.call("say")).verdict == "allow"
        assert made.ran() == 1


async def test_arguments_that_do_not_fit_run_nothing(made: Kind) -> None:
    async with running(made) as host:
        for wrong in made.wrong():
            result = await host.call(made.tool, wrong)
            assert result.reason == "invalid_arguments", wrong
            said = host.explain(made.tool, wrong)
            assert (said.verdict, said.reason) == ("deny", "invalid_arguments")
            await assert_one_ending(host, result.call_id)
    assert made.ran() == 0


async def test_a_rule_refuses_it_and_says_where_it_stands(made: Kind) -> None:
    rules = [{"allow": "*"}, {"deny": made.tool}]
    async with running(made, {"profiles": {"only": {"rules": rules}}}) as host:
        result = await ended(host, made)
        assert (result.status, result.reason) == ("denied", "denied_by_rule")
        assert result.error.details["source"].endswith("toolcrib.yaml:1")
        said = host.explain(*made.call("say"))
        assert (said.verdict, said.reason) == ("deny", result.reason)
        assert result.error.details["rule"] in {step.rule for step in said.steps}
        assert made.tool not in {tool.name for tool in host.tools()}
    assert made.ran() == 0


async def test_a_rule_on_its_effects_finds_it(made: Kind) -> None:
    rules = [{"allow": "*"}, {"deny": {"effects": ["write"]}}]
    async with running(made, {"profiles": {"only": {"rules": rules}}}) as host:
        assert (await ended(host, made)).reason == "denied_by_rule"
    assert made.ran() == 0


@pytest.mark.parametrize("conceal", [False, True], ids=["open", "concealed"])
async def test_what_no_rule_speaks_of_is_refused(made: Kind, conceal: bool) -> None:
    profile = {"rules": [{"allow": "other*"}], "conceal": conceal}
    async with running(made, {"profiles": {"only": profile}}) as host:
        result = await host.call(*made.call("say"))
        assert result.reason == ("unknown_tool" if conceal else "not_in_profile")
        ending = await assert_one_ending(host, result.call_id)
        assert ending.data["reason"] == "not_in_profile"
        assert host.tools() == []
    assert made.ran() == 0


@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_a_person_is_asked_before_it_runs(made: Kind, answer: str) -> None:
    rules = [{"ask": "*"}]
    config = {"profiles": {"only": {"rules": rules, "approval": {"timeout": "30s"}}}}
    async with running(made, config, approver=ApprovalSimulator(default="escalate")) as host:
        assert host.explain(*made.call("say")).verdict == "ask"
        call = asyncio.ensure_future(ended(host, made))
        request = await asked(host)
        assert (request.tool, made.ran()) == (made.tool, 0)
        await host.approvals.decide(request.id, answer == "allow", by="ann")
        result = await call
    assert result.reason == (None if answer == "allow" else "approval_rejected")
    assert made.ran() == (1 if answer == "allow" else 0)


async def test_a_definition_that_is_not_the_pinned_one_is_refused(made: Kind) -> None:
    profile = {"rules": [{"allow": "*"}], "pins": {made.tool: "0" * 64}}
    async with running(made, {"profiles": {"only": profile}}) as host:
        assert (await ended(host, made)).reason == "definition_changed"
    assert made.ran() == 0


async def test_limits_count_it(made: Kind) -> None:
    profile = {"rules": [{"allow": "*"}], "limits": {"calls": "1/h"}}
    async with running(made, {"profiles": {"only": profile}}) as host:
        assert (await ended(host, made)).status == "ok"
        over = await ended(host, made)
        assert (over.status, over.reason) == ("denied", "rate_limited")
        assert over.error.retry_after > 0
        assert host.explain(*made.call("say")).reason == "rate_limited"
    assert made.ran() == 1


async def test_time_that_is_up_ends_it(made: Kind) -> None:
    async with running(made) as host:
        await ended(host, made)
        before = made.ran()
        async with made.busy():
            result = await ended(host, made, "hang", "late", timeout=0.3)
        assert result.reason == "timeout"
        assert result.error.still_running is made.goes_on
        assert made.said((await ended(host, made, text="hello")).output) == "hello"
        if made.name in ("storage", "template"):
            assert made.ran() <= before + 1  # what was late was not written


async def test_a_cancel_ends_it(made: Kind) -> None:
    async with running(made) as host:
        await ended(host, made)
        async with made.busy():
            call = asyncio.ensure_future(ended(host, made, "hang", "late", call_id="c1"))
            await _started(host, "c1")
            if made.goes_on:
                await until(lambda: made.ran() == 2)
            assert host.cancel("c1")
            result = await call
        assert (result.reason, result.error.still_running) == ("cancelled", made.goes_on)


async def _started(host: ToolHost, call_id: str) -> None:
    for _ in range(1000):
        if any(event.type == "call.started" for event in await story(host, call_id)):
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never began")


async def test_a_failure_is_told_in_its_words_and_not_repeated(made: Kind) -> None:
    fields = {"retry": {"attempts": 3, "backoff": "0s", "retry_on": [made.failure]}}
    async with running(made, fields=fields) as host:
        result = await ended(host, made, "fail", "you")
        assert (result.status, result.reason) == ("error", made.failure)
        assert "you" in result.error.message + json.dumps(result.error.details)
        assert await _repeats(host, result) == 0  # it writes: nobody knows what it did


async def test_what_may_be_repeated_is(made: Kind) -> None:
    retry = {"attempts": 3, "backoff": "0s", "retry_on": [made.failure]}
    async with running(made, fields={"retry": retry, "idempotent": True}) as host:
        result = await ended(host, made, "fail")
        # A store's tools say for themselves what may be repeated.
        assert await _repeats(host, result) == (0 if made.name == "storage" else 2)


async def _repeats(host: ToolHost, result: ToolResult) -> int:
    events = await story(host, result.call_id)
    return sum(event.type == "call.attempt" for event in events)


async def test_long_output_is_cut_visibly_and_kept(made: Kind) -> None:
    async with running(made, {**ALL, "host": {"max_output": 1000}}) as host:
        if made.name == "storage":
            await host.call("notes-write", {"key": "much", "value": "y" * MUCH})
        result = await ended(host, made, "much", "y")
        assert result.status == "ok"
        assert result.truncated.kept == 1000 < MUCH <= result.truncated.original
        assert "[cut: 1000 of" in result.output
        assert "y" * MUCH in host.output(result.call_id)


async def test_secrets_are_in_nothing_that_leaves(
    made: Kind, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KEPT", SECRET)
    caplog.set_level(logging.DEBUG)
    more = {"principals": {"ann": {"attributes": {"key": "${KEPT}"}}}}
    seen: list[str] = []
    async with running(made, {**ALL, **more}) as host:
        host.on_event(lambda event: seen.append(repr(event)))
        for how in ("say", "fail", "break"):
            name, arguments = made.call(how, SECRET)
            result = await ended(host, made, how, SECRET)
            seen += [repr(result), repr(host.explain(name, arguments))]
            seen += [repr(event) for event in await story(host, result.call_id)]
        wrong = {key: [SECRET] for key in made.call("say")[1]}
        seen += [repr(await host.call(made.tool, wrong)), repr(host.explain(made.tool, wrong))]
    seen.append(caplog.text)
    assert made.ran() > 0
    assert "«hidden»" in "".join(seen)
    assert [text for text in seen if SECRET in text] == []


async def test_many_at_once_do_not_mix(made: Kind) -> None:
    async with running(made) as host:
        texts = [f"text-{n}" for n in range(12)]
        results = await asyncio.gather(*(ended(host, made, text=text) for text in texts))
        if made.name == "storage":
            reads = [host.call("notes-read", {"key": text}) for text in texts]
            results = list(await asyncio.gather(*reads))
        assert [made.said(result.output) for result in results] == texts
    assert made.ran() == 12


async def test_nothing_is_left_of_it(made: Kind) -> None:
    async def stay() -> None:
        async with running(made) as host:
            await ended(host, made)
            await ended(host, made, "fail")
            async with made.busy():
                await ended(host, made, "hang", "late", timeout=0.2)

    await stay()  # what is opened once for the whole process is open now
    await asyncio.sleep(0.05)  # the server of the test lets go of its end too
    before = children(), descriptors()
    await stay()
    await until(lambda: children() == before[0] and descriptors() <= before[1])


async def _command(made: Kind, *words: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "toolcrib", *words,
        cwd=made.folder,
        env={**os.environ, "COLUMNS": "200"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_the_command_calls_and_explains_it(made: Kind) -> None:
    written(made.folder, {**made.config({}), **ALL})
    name, arguments = made.call("say")
    (made.folder / "arguments.json").write_text(json.dumps(arguments))
    words = (name, "--input", "arguments.json", "--json")
    code, out, err = await _command(made, "explain", *words)
    assert (code, json.loads(out)["verdict"]) == (0, "allow"), err
    assert made.ran() == 0
    code, out, err = await _command(made, "call", *words)
    assert code == 0, err
    assert made.said(json.loads(out)["output"]) == "hello"
    assert made.ran() == 1
