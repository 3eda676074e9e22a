"""Servers that are started here: both eras, and everything that such a server can do wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_upstreams import (
    Link,
    call,
    command,
    context,
    descriptors,
    entered,
    failure,
    lives,
    provider,
    until,
)
from toolcrib.core.context import ToolContext
from toolcrib.core.link import LINK, CallerLink, InputRefused, UpstreamError
from toolcrib.errors import ToolcribError, ToolFailure
from toolcrib.protocol.mcp.results import upstream_error
from toolcrib.providers.mcp import greeting

ERAS = pytest.mark.parametrize("era", ["handshake", "modern"])


@contextmanager
def linked(link: CallerLink) -> Any:
    token = LINK.set(link)
    try:
        yield link
    finally:
        LINK.reset(token)


@ERAS
async def test_calls_pass_through_and_eras_are_found_out(tmp_path: Path, era: str) -> None:
    async with entered(tmp_path, {"command": command(era=era)}) as up:
        assert up.relay.era == era
        result = await call(up, "echo", text="hä")
        assert (result.status, result.output) == ("ok", "hä")
        assert result.content == [{"type": "text", "text": "hä"}]
        wrong = await call(up, "is_error")
        assert (wrong.status, wrong.reason) == ("error", "tool_error")
        assert wrong.error is not None
        assert wrong.error.message == "it went wrong"


async def test_a_server_of_both_eras_is_spoken_to_in_the_newer_one(tmp_path: Path) -> None:
    async with entered(tmp_path, {"command": command(era="both")}) as up:
        assert up.relay.era == "modern"
    async with entered(tmp_path, {"command": command(era="both"), "era": "handshake"}) as up:
        assert up.relay.era == "handshake"


async def test_an_old_server_that_stays_silent_is_greeted_in_the_old_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greeting, "_PATIENCE", 0.05)
    async with entered(tmp_path, {"command": command(era="handshake", silent=True)}) as up:
        assert up.relay.era == "handshake"
        assert (await call(up, "echo", text="a")).output == "a"


async def test_an_old_server_that_dies_of_the_question_is_started_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    settings = {"command": command(era="handshake", dies_of_discover=True, log=str(log))}
    async with entered(tmp_path, settings) as up:
        assert up.relay.era == "handshake"
    async with entered(tmp_path, settings) as up:
        assert up.relay.era == "handshake"
    methods = [json.loads(line)["method"] for line in log.read_text().splitlines()]
    assert methods.count("server/discover") == 1, "what it is was not remembered"


@ERAS
async def test_an_error_of_the_protocol_is_kept_as_it_was(tmp_path: Path, era: str) -> None:
    async with entered(tmp_path, {"command": command(era=era)}) as up:
        error = await failure(up, "error")
        assert error.reason == "upstream_error"
        made = context(up, "error").error(error.message, error.reason, **error.details)
        kept = upstream_error(made)
        assert kept is not None
        assert (kept.code, kept.message, kept.data) == (-32021, "no such capability", {"a": 1})


@ERAS
@pytest.mark.parametrize("kind", ["die", "garbage"])
async def test_a_server_that_breaks_leaves_the_outcome_unknown(
    tmp_path: Path, era: str, kind: str
) -> None:
    told: list[None] = []
    settings = {"command": command(era=era)}
    async with entered(tmp_path, settings, lambda: told.append(None)) as up:
        other = asyncio.ensure_future(failure(up, "hang"))
        await asyncio.sleep(0)
        error = await failure(up, kind)
        assert error.reason == "outcome_unknown"
        assert (await other).reason == "outcome_unknown"
        assert told, "nobody was told that it is gone"
        with pytest.raises(ToolcribError):
            await up.health()
        assert (await failure(up, "echo")).reason == "upstream_error"


async def test_a_call_that_may_be_repeated_says_so(tmp_path: Path) -> None:
    settings = {"command": command(), "effects": {"read": ["die"]}}
    async with entered(tmp_path, settings) as up:
        error = await failure(up, "die")
        assert (error.reason, error.retryable) == ("upstream_error", True)


async def test_what_was_answered_before_the_end_counts(tmp_path: Path) -> None:
    async with entered(tmp_path, {"command": command()}) as up:
        assert (await call(up, "dies_after")).output == "last"


async def test_answers_that_nobody_asked_are_dropped(tmp_path: Path) -> None:
    async with entered(tmp_path, {"command": command()}) as up:
        assert (await call(up, "wrong_id")).output == "right"


async def test_a_message_without_end_is_refused_while_it_comes(tmp_path: Path) -> None:
    settings = {"command": command(), "max_message": "2MB"}
    async with entered(tmp_path, settings) as up:
        error = await failure(up, "huge")
        assert "more than 2000000 bytes" in error.message


@ERAS
async def test_a_call_that_is_cancelled_is_called_off_at_the_server(
    tmp_path: Path, era: str
) -> None:
    log = tmp_path / "log"
    async with entered(tmp_path, {"command": command(era=era, log=str(log))}) as up:
        ctx = context(up, "late")
        task = asyncio.ensure_future(up.execute(ctx))
        await until(lambda: log.exists() and '"late"' in log.read_text())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ctx.still_running
        await until(lambda: "notifications/cancelled" in log.read_text())
        # Its answer comes late, and is nobody's.
        assert (await call(up, "echo", text="b")).output == "b"
        sent = [json.loads(line) for line in log.read_text().splitlines()]
        ids = {m["params"]["name"]: m["id"] for m in sent if m["method"] == "tools/call"}
        off = next(m for m in sent if m["method"] == "notifications/cancelled")
        assert off["params"]["requestId"] == ids["late"]


@ERAS
async def test_progress_reaches_the_trail_and_the_caller(tmp_path: Path, era: str) -> None:
    steps: list[dict[str, Any]] = []

    class Runtime:
        def announce(self, ctx: Any, type: str, data: dict[str, Any]) -> None:
            steps.append(data)

    async with entered(tmp_path, {"command": command(era=era)}) as up:
        with linked(Link()) as link:
            ctx = context(up, "progress")
            ctx.runtime = Runtime()  # type: ignore[assignment]
            await up.execute(ctx)
        assert [step["fraction"] for step in steps] == [0.25, 0.5, 1.0]
        assert steps[0]["message"] == "step 1"
        assert [params for _, params in link.told] == [
            {"progress": step, "total": 4, "message": f"step {step}"} for step in (1, 2, 4)
        ]


ACCEPTED = {"action": "accept", "content": {"name": "ada"}}


@ERAS
async def test_questions_are_put_to_the_caller_if_that_is_granted(tmp_path: Path, era: str) -> None:
    settings = {"command": command(era=era), "grants": ["elicitation"]}
    async with entered(tmp_path, settings) as up:
        with linked(Link(ACCEPTED, elicitation={"form": {}})) as link:
            result = await call(up, "ask")
        (asked,) = link.asked
        (request,) = asked.values()
        assert request["method"] == "elicitation/create"
        assert request["params"]["message"] == "who?"
        heard = json.loads(result.output)
        assert heard == ([{"who": ACCEPTED}, "opaque"] if era == "modern" else ACCEPTED)


@ERAS
@pytest.mark.parametrize("why", ["not granted", "not offered", "nobody linked"])
async def test_questions_go_nowhere_otherwise(tmp_path: Path, era: str, why: str) -> None:
    settings: dict[str, Any] = {"command": command(era=era)}
    if why != "not granted":
        settings["grants"] = ["elicitation"]
    link = Link(ACCEPTED) if why == "not offered" else Link(ACCEPTED, elicitation={})
    async with entered(tmp_path, settings) as up:
        with linked(None if why == "nobody linked" else link):  # type: ignore[arg-type]
            if era == "modern":
                error = await failure(up, "ask")
                assert "cannot be asked" in error.message
            else:
                assert json.loads((await call(up, "ask")).output)["code"] == -32601
        assert link.asked == []


async def test_a_caller_that_goes_away_is_a_cancelled_question(tmp_path: Path) -> None:
    settings = {"command": command(era="handshake"), "grants": ["elicitation"]}
    async with entered(tmp_path, settings) as up:
        with linked(Link(None, elicitation={})):
            assert json.loads((await call(up, "ask")).output) == {"action": "cancel"}


async def test_of_two_callers_none_is_asked_what_may_be_the_others(tmp_path: Path) -> None:
    settings = {"command": command(era="handshake"), "grants": ["elicitation"]}
    async with entered(tmp_path, settings) as up:
        with linked(Link(ACCEPTED, elicitation={})) as other:
            waiting = asyncio.ensure_future(call(up, "hang"))
            await asyncio.sleep(0)
        with linked(Link(ACCEPTED, elicitation={})) as link:
            assert json.loads((await call(up, "ask")).output)["code"] == -32601
        assert other.asked == link.asked == []
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_server_cannot_ask_for_ever(tmp_path: Path) -> None:
    settings = {"command": command(era="modern", asks_for_ever=True), "grants": ["elicitation"]}
    async with entered(tmp_path, settings) as up:
        with linked(Link(ACCEPTED, elicitation={})) as link:
            assert "more than 20 times" in (await failure(up, "ask")).message
        assert len(link.asked) == 21


async def test_the_caller_is_mirrored_and_its_own_hop_is_not(tmp_path: Path) -> None:
    settings = {"command": command(era="modern"), "grants": ["elicitation"]}
    tasks = {"io.modelcontextprotocol/tasks": {}, "com.example/other": {}}
    async with entered(tmp_path, settings) as up:
        with linked(Link(elicitation={"form": {}}, sampling={}, extensions=tasks)):
            meta = json.loads((await call(up, "meta")).output)
        assert meta["traceparent"] == "00-1-2-01"
        assert meta["io.modelcontextprotocol/clientCapabilities"] == {
            "elicitation": {"form": {}},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        }
        assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "toolcrib"
        alone = json.loads((await call(up, "meta")).output)
        assert alone["io.modelcontextprotocol/clientCapabilities"] == {}


async def test_a_task_is_handed_on_whole(tmp_path: Path) -> None:
    async with entered(tmp_path, {"command": command()}) as up:
        result = await call(up, "task")
        assert result.output == {"task": {"taskId": "t1", "status": "working"}}
        assert result.metadata["mcp"]["resultType"] == "task"


@ERAS
async def test_a_changed_list_is_noticed_and_an_old_definition_refused(
    tmp_path: Path, era: str
) -> None:
    told: list[None] = []
    settings = {"command": command(era=era)}
    async with entered(tmp_path, settings, lambda: told.append(None)) as up:
        await call(up, "change")
        await until(lambda: told)
        assert "up-echo" not in [spec.name for spec in await up.list_tools()]


@pytest.mark.parametrize(
    ("pages", "words"), [("endless", "more than 1000 pages"), ("loop", "same page again")]
)
async def test_a_list_without_end_is_given_up(tmp_path: Path, pages: str, words: str) -> None:
    async with provider(tmp_path, {"command": command(pages=pages)}) as up:
        with pytest.raises(ToolFailure, match=words):
            await up.list_tools()


async def test_pages_are_put_together(tmp_path: Path) -> None:
    async with entered(tmp_path, {"command": command(pages="two")}) as up:
        assert {"up-ask", "up-meta"} <= {spec.name for spec in await up.list_tools()}


async def test_bad_definitions_are_problems_and_others_stay(tmp_path: Path) -> None:
    bad = [
        {"name": "two words", "inputSchema": {"type": "object"}},
        {"name": "no_schema"},
        {"name": "echo", "inputSchema": {"type": "object"}},
        {"name": "hints", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": 1}},
        "nonsense",
    ]
    async with entered(tmp_path, {"command": command(tools=bad)}) as up:
        assert len(up.problems) == len(bad)
        assert "up-echo" in {spec.name for spec in await up.list_tools()}


async def test_only_wanted_tools_are_listed(tmp_path: Path) -> None:
    tools = {"include": ["e*"], "exclude": ["env"]}
    async with entered(tmp_path, {"command": command(), "tools": tools}) as up:
        assert [spec.name for spec in await up.list_tools()] == ["up-echo", "up-error"]


async def test_resources_and_prompts_are_tools_too(tmp_path: Path) -> None:
    capabilities = {"resources": {}, "prompts": {}}
    async with entered(tmp_path, {"command": command(capabilities=capabilities)}) as up:
        assert await call(up, "read_resource", uri="a:b") == {"got": "a:b"}
        assert await call(up, "get_prompt", name="p") == {"got": "p"}
        assert up.relay.tools == {"resources": "up-read_resource", "prompts": "up-get_prompt"}
        assert await up.relay.request("resources/read", {"uri": "c:d"}) == {"got": "c:d"}


async def test_the_environment_is_not_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_TEST_SECRET", "s3cret")
    async with entered(tmp_path, {"command": command(), "env": {"GIVEN": "yes"}}) as up:
        env = json.loads((await call(up, "env")).output)
        assert env["GIVEN"] == "yes"
        assert env["PATH"]
        assert "TOOLCRIB_TEST_SECRET" not in env


async def test_what_it_says_beside_goes_to_the_log_without_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolcrib")
    settings = {
        "command": command(stderr="starting with tok3n-value \x1b[31m", banner="Welcome!"),
        "env": {"TOKEN": "tok3n-value"},
    }
    async with entered(tmp_path, settings):
        await until(lambda: "starting with" in caplog.text)
    assert "up: starting with *** \\u001b[31m" in caplog.text
    assert "up: Welcome!" in caplog.text
    assert "tok3n-value" not in caplog.text


async def test_nothing_is_left_behind(tmp_path: Path) -> None:
    before = descriptors()
    tasks = asyncio.all_tasks()
    async with entered(tmp_path, {"command": command()}) as up:
        child = int((await call(up, "child")).output)
        waiting = asyncio.ensure_future(failure(up, "hang"))
        await asyncio.sleep(0)
        assert lives(child)
    await waiting
    assert not lives(child)
    assert asyncio.all_tasks() == tasks
    assert descriptors() <= before + 1  # the loop's own may be new


LAST_WORK = """
import json, pathlib, sys, time
here = pathlib.Path(sys.argv[1])
for line in sys.stdin:
    (here / "began").touch()
    asked = json.loads(line)
    if sys.argv[2] == "talks" and "id" in asked:
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        found = {"protocolVersion": "2025-06-18", **about, "tools": []}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": found}), flush=True)
time.sleep(0.5)
(here / "ended").touch()
"""


@pytest.mark.parametrize("kind", ["talks", "is silent"])
async def test_only_a_server_that_talked_is_given_time_to_end(tmp_path: Path, kind: str) -> None:
    started = [sys.executable, "-I", "-c", LAST_WORK, str(tmp_path), kind]
    made = provider(tmp_path, {"command": started, "era": "handshake"})
    entering = asyncio.ensure_future(made.__aenter__())
    await until((tmp_path / "began").exists)
    if kind == "talks":
        await entering
        await made.__aexit__(None, None, None)
    else:
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)
    assert (tmp_path / "ended").exists() is (kind == "talks")


NOT_FOUND = "on the PATH of this host. Install"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("nope", f"there is no program nope {NOT_FOUND} it, or name its path"),
        (
            "npx",
            f"there is no program npx {NOT_FOUND} Node.js, which brings it, or name its path",
        ),
        ("./nope", "./nope cannot be started: there is no such program"),
    ],
)
async def test_a_program_that_does_not_exist_is_said_plainly(
    tmp_path: Path, program: str, words: str
) -> None:
    settings = {"command": [program], "env": {"PATH": str(tmp_path)}}
    with pytest.raises(ToolFailure) as caught:
        async with provider(tmp_path, settings):
            pass
    assert str(caught.value) == words


LAST_WORDS = {
    "the last line": ("starting\nno licence key", "no licence key"),
    "an error before its trace": (
        "Error: Cannot find module 'x'\n    at load (loader.js:1)\n\nNode.js v24",
        "Error: Cannot find module 'x'",
    ),
    "an error after its trace": (
        "Traceback (most recent call last):\n  raise KeyError\nKeyError: 'a'",
        "KeyError: 'a'",
    ),
    "what was wrong before what is right": (
        "Unknown transport: x\nAvailable:\n- stdio",
        "Unknown transport: x",
    ),
    "an error, and not what it was warned of before": (
        "npm warn Unknown user config\nnpm error code E404\nnpm error A log is in /x",
        "npm error code E404",
    ),
    "no secret": ("fatal: tok3n-value is refused", "fatal: *** is refused"),
}


@pytest.mark.parametrize(("text", "said"), LAST_WORDS.values(), ids=LAST_WORDS.keys())
async def test_why_a_server_ended_is_told_as_it_said_it_itself(
    tmp_path: Path, text: str, said: str
) -> None:
    program = f"import sys; sys.stderr.write({text!r}); sys.exit(3)"
    settings = {"command": [sys.executable, "-c", program], "env": {"TOKEN": "tok3n-value"}}
    with pytest.raises(ToolcribError) as caught:
        async with provider(tmp_path, settings):
            pass
    assert str(caught.value) == "the server ended with exit code 3"
    assert caught.value.__notes__ == [f"it said: {said}"]


AS_TASK = {
    "name": "as_task",
    "inputSchema": {"type": "object"},
    "execution": {"taskSupport": "required"},
}
TASKS = {"tasks": {"requests": {"tools": {"call": {}}}}}


async def test_a_tool_that_runs_only_as_a_task_is_one_call_all_the_same(tmp_path: Path) -> None:
    options = {"era": "handshake", "tools": [AS_TASK]}
    settings = {"command": command(**options, capabilities=TASKS)}
    async with entered(tmp_path, settings) as up:
        assert (await call(up, "as_task")).output == "done t7"
    async with entered(tmp_path, {"command": command(**options)}) as up:
        assert "only as a task" in (await failure(up, "as_task")).message


async def test_a_task_is_called_off_with_its_call(tmp_path: Path) -> None:
    log = tmp_path / "log"
    made = command(
        era="handshake", tools=[AS_TASK], capabilities=TASKS, slow_task=True, log=str(log)
    )
    async with entered(tmp_path, {"command": made}) as up:
        task = asyncio.ensure_future(call(up, "as_task"))
        await until(lambda: "tasks/result" in log.read_text())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: "tasks/cancel" in log.read_text())


@ERAS
async def test_the_clock_stands_still_while_the_caller_is_asked(tmp_path: Path, era: str) -> None:
    inside: list[bool] = []
    stopped = 0

    class Clocked(ToolContext):
        @contextmanager
        def waiting(self) -> Any:
            nonlocal stopped
            stopped += 1
            yield
            stopped -= 1

    class Slow(Link):
        async def ask(self, requests: Any) -> dict[str, Any]:
            inside.append(stopped == 1)
            return await super().ask(requests)

    settings = {"command": command(era=era), "grants": ["elicitation"]}
    async with entered(tmp_path, settings) as up:
        plain = context(up, "ask")
        with linked(Slow(ACCEPTED, elicitation={})):
            await up.execute(Clocked(tool=plain.tool, spec=plain.spec))
    assert inside == [True]
    assert stopped == 0


async def test_what_the_caller_answers_with_an_error_is_told_as_it_was(tmp_path: Path) -> None:
    class Refusing(Link):
        async def ask(self, requests: Any) -> dict[str, Any]:
            raise InputRefused("no") from UpstreamError(-7, "not now", {"a": 1})

    settings = {"command": command(era="handshake"), "grants": ["elicitation"]}
    async with entered(tmp_path, settings) as up:
        with linked(Refusing(None, elicitation={})):
            heard = json.loads((await call(up, "ask")).output)
    assert heard == {"code": -7, "message": "not now", "data": {"a": 1}}


@ERAS
async def test_roots_are_the_operators_or_else_the_callers(tmp_path: Path, era: str) -> None:
    theirs = {"roots": [{"uri": "file:///caller"}]}
    made = {"command": command(era=era)}

    def heard(result: Any) -> Any:
        found = json.loads(result.output)
        return found[0]["who"] if era == "modern" else found

    async with entered(tmp_path, {**made, "roots": ["here"]}) as up:
        with linked(Link(theirs, roots={})) as link:
            own = heard(await call(up, "roots"))
        assert [root["uri"] for root in own["roots"]] == [(tmp_path / "here").as_uri()]
        assert link.asked == []
    async with entered(tmp_path, {**made, "grants": ["roots"]}) as up:
        with linked(Link(theirs, roots={})):
            assert heard(await call(up, "roots")) == theirs
    async with entered(tmp_path, made) as up:
        with linked(Link(theirs, roots={})) as link:
            if era == "modern":
                assert "cannot be asked" in (await failure(up, "roots")).message
            else:
                assert heard(await call(up, "roots"))["code"] == -32601
        assert link.asked == []
