"""The contract suites pass on what Toolcrib brings, and catch what is broken."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolcrib.approvals.approvers import AutomaticApprover, CallbackApprover, ChainApprover
from toolcrib.catalog.signature import describe
from toolcrib.core.approval import ApprovalDecision
from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Decision
from toolcrib.core.events import Event
from toolcrib.core.protocols import Extension
from toolcrib.core.result import ToolResult
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, Denial, ToolFailure
from toolcrib.executors.python import PythonExecutor
from toolcrib.observe.log import HumanLog, JsonLog
from toolcrib.stores.memory import MemoryStore
from toolcrib.stores.sqlite import SqliteStore
from toolcrib.testing import (
    ApprovalSimulator,
    ApproverContract,
    EventRecorder,
    ExecutorContract,
    ExporterContract,
    ExtensionContract,
    FakeClock,
    GateContract,
    LoaderContract,
    MockExecutor,
    ProviderContract,
    StoreContract,
    TransportContract,
    broken_promises,
)


async def catches(suite: Callable[[], Any], *tests: str) -> None:
    """These tests of a suite, and perhaps others, find the fault and name the promise."""
    broken = await broken_promises(suite)
    assert set(tests) <= set(broken), broken
    for test in tests:
        assert broken[test].startswith("broken promise: "), broken[test]


async def test_a_suite_that_is_none_does_not_pass() -> None:
    with pytest.raises(TypeError, match="has no tests"):
        await broken_promises(object)


async def test_a_suite_that_is_not_finished_does_not_pass() -> None:
    broken = await broken_promises(StoreContract)
    assert len(broken) == len([name for name in dir(StoreContract) if name.startswith("test_")])
    assert set(broken.values()) == {
        "TypeError: StoreContract does not define `make`; its contract's docstring says what for"
    }


# Executors


SPEC = {"input_schema": {"type": "object"}}


class Functions:
    """The real Python executor behind the executor protocol."""

    kind = "function"

    def __init__(self) -> None:
        self._python = PythonExecutor()

    async def execute(self, ctx: ToolContext) -> Any:
        async def double(n: int) -> Any:
            if n < 0:
                raise ToolFailure("n is negative")
            if n > 100:
                await asyncio.sleep(600)
            return {"n": n * 2}

        return await self._python.bind(double, describe(double, name="double"), inline=False)(ctx)


class TestFunctions(ExecutorContract):
    executor: Any = Functions
    kind = "function"

    def make(self) -> Any:
        return self.executor()

    def good_call(self) -> Any:
        return ToolSpec(name="double", kind=self.kind, **SPEC), {"n": 2}

    def failing_call(self) -> Any:
        return ToolSpec(name="double", kind=self.kind, **SPEC), {"n": -1}

    def slow_call(self) -> Any:
        return ToolSpec(name="double", kind=self.kind, **SPEC), {"n": 101}


async def double(ctx: ToolContext) -> Any:
    n = ctx.arguments["n"]
    if n < 0:
        return ctx.error("n is negative")
    if n > 100:
        await asyncio.sleep(600)
    return ctx.ok(n * 2)


class TestMockExecutor(TestFunctions):
    kind = "shell"

    def make(self) -> Any:
        return MockExecutor("shell", side_effect=double)


async def objects(ctx: ToolContext) -> Any:
    return object() if ctx.arguments["n"] >= 0 else await double(ctx)


async def greedy(ctx: ToolContext) -> Any:
    given = await double(ctx)
    ctx.arguments.clear()
    return given


async def cheerful(ctx: ToolContext) -> Any:
    return "sorry, that did not work" if ctx.arguments["n"] < 0 else await double(ctx)


async def noisy(ctx: ToolContext) -> Any:
    if ctx.arguments["n"] < 0:
        raise ValueError("n is negative")
    return await double(ctx)


async def deaf(ctx: ToolContext) -> Any:
    try:
        return await double(ctx)
    except asyncio.CancelledError:
        return "finished anyway"


async def halved(ctx: ToolContext) -> Any:
    if ctx.arguments["n"] < 0:
        return ToolResult(status="error")
    return await double(ctx)


class Shared:
    """Keeps the call in itself."""

    kind = "function"

    async def execute(self, ctx: ToolContext) -> Any:
        self.ctx = ctx
        await asyncio.sleep(0)
        return await double(self.ctx)


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (objects, "test_it_gives_json_or_a_result"),
        (greedy, "test_it_leaves_the_call_as_it_is"),
        (cheerful, "test_a_failure_is_reported_as_one"),
        (noisy, "test_a_failure_is_reported_as_one"),
        (noisy, "test_it_runs_in_a_host"),
        (halved, "test_a_failure_is_reported_as_one"),
        (deaf, "test_a_cancelled_call_stops"),
        (Shared, "test_calls_at_the_same_time_do_not_disturb_each_other"),
        (lambda: MockExecutor("other"), "test_it_has_the_kind_of_its_specs"),
    ],
)
async def test_broken_executors_are_caught(broken: Any, test: str) -> None:
    class Suite(TestFunctions):
        def make(self) -> Any:
            if asyncio.iscoroutinefunction(broken):
                return MockExecutor("function", side_effect=broken)
            return broken()

    await catches(Suite, test)


# Providers


class Shelf:
    """A provider that keeps texts."""

    name = "shelf"
    kind = "storage"

    async def __aenter__(self) -> Any:
        self.texts = {"a": "first"}
        return self

    async def __aexit__(self, *exc: object) -> Any:
        return None

    async def list_tools(self) -> Any:
        schema = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
        return [
            ToolSpec(name="shelf-read", kind=self.kind, input_schema=schema, effects={"read"}),
            ToolSpec(name="shelf-drop", kind=self.kind, input_schema=schema),
        ]

    async def execute(self, ctx: ToolContext) -> Any:
        if ctx.tool not in ("shelf-read", "shelf-drop"):
            raise Denial("action_not_allowed", f"there is no {ctx.tool}")
        if ctx.arguments["key"] not in self.texts:
            raise ToolFailure("no such key")
        read = ctx.tool == "shelf-read"
        return self.texts[ctx.arguments["key"]] if read else self.texts.pop(ctx.arguments["key"])


class TestShelf(ProviderContract):
    def make(self) -> Any:
        return Shelf()

    def good_call(self) -> Any:
        return "shelf-read", {"key": "a"}

    def failing_call(self) -> Any:
        return "shelf-read", {"key": "z"}


class Nameless(Shelf):
    name = ""


class Restless(Shelf):
    def __init__(self) -> None:
        self.listed = 0

    async def list_tools(self) -> Any:
        self.listed += 1
        return [
            changed(spec, description=f"listing {self.listed}")
            for spec in await super().list_tools()
        ]


def changed(spec: ToolSpec, **changes: Any) -> ToolSpec:
    fields = {name: getattr(spec, name) for name in ("name", "kind", "input_schema", "effects")}
    return ToolSpec(**(fields | changes))


class Mixed(Shelf):
    async def list_tools(self) -> Any:
        return [changed(spec, kind="http") for spec in await super().list_tools()]


class Twice(Shelf):
    async def list_tools(self) -> Any:
        return 2 * await super().list_tools()


class Bare(Shelf):
    async def list_tools(self) -> Any:
        wrong = {"type": "object", "properties": {"key": {"type": "text"}}}
        return [changed(spec, input_schema=wrong) for spec in await super().list_tools()]


class Obliging(Shelf):
    async def execute(self, ctx: ToolContext) -> Any:
        if ctx.tool == "shelf-read":
            return self.texts.get(ctx.arguments["key"], "")
        return "done"


class Swallowing(Shelf):
    async def __aexit__(self, *exc: object) -> Any:
        return True


@pytest.mark.parametrize(
    ("broken", "tests"),
    [
        (Nameless, ["test_it_has_a_name_and_a_kind"]),
        (Restless, ["test_it_lists_the_same_tools_twice"]),
        (Mixed, ["test_it_lists_specs_of_its_kind"]),
        (Twice, ["test_it_lists_specs_of_its_kind"]),
        (Bare, ["test_it_lists_specs_of_its_kind"]),
        (
            Obliging,
            ["test_a_failure_is_reported_as_one", "test_it_refuses_what_it_does_not_list"],
        ),
        (Swallowing, ["test_leaving_hides_no_exception"]),
    ],
)
async def test_broken_providers_are_caught(broken: Any, tests: list[str]) -> None:
    class Suite(TestShelf):
        def make(self) -> Any:
            return broken()

    await catches(Suite, *tests)


# Loaders


class JsonLoader:
    """Reads specs from text with one JSON object a line."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()

    async def load(self) -> Any:
        specs: list[ToolSpec] = []
        for number, line in enumerate(self.lines, 1):
            try:
                fields = json.loads(line)
                specs.append(ToolSpec(source=f"tools.jsonl:{number}", **fields))
            except (ValueError, TypeError, ConfigError) as error:
                raise ConfigError(str(error), file="tools.jsonl", line=number) from error
        return specs


GOOD_LINES = '{"name": "a"}\n{"name": "b", "description": "B."}'
BAD_LINES = '{"name": "a"}\n{"name": 7, "colour": "red"}'


class TestJsonLoader(LoaderContract):
    loader: Any = JsonLoader

    def make(self) -> Any:
        return self.loader(GOOD_LINES)

    def make_broken(self) -> Any:
        return self.loader(BAD_LINES)


class Placeless(JsonLoader):
    async def load(self) -> Any:
        return [ToolSpec(**json.loads(line)) for line in self.lines]


class Lenient(JsonLoader):
    async def load(self) -> Any:
        return [ToolSpec(name=f"t{n}", source="here") for n in range(len(self.lines))]


class Doubled(JsonLoader):
    async def load(self) -> Any:
        return 2 * await super().load()


class Vague(JsonLoader):
    async def load(self) -> Any:
        try:
            return await super().load()
        except ConfigError:
            raise ConfigError("something is wrong") from None


@pytest.mark.parametrize(
    ("broken", "tests"),
    [
        (
            Placeless,
            ["test_its_specs_say_where_they_stand", "test_a_wrong_source_is_a_config_error"],
        ),
        (Lenient, ["test_a_wrong_source_is_a_config_error"]),
        (Doubled, ["test_it_gives_specs"]),
        (Vague, ["test_a_wrong_source_is_a_config_error"]),
    ],
)
async def test_broken_loaders_are_caught(broken: Any, tests: list[str]) -> None:
    class Suite(TestJsonLoader):
        loader = broken

    await catches(Suite, *tests)


# Gates


class OfficeHours:
    """Refuses deployments outside the staging environment."""

    name = "staging-only"

    def visible(self, spec: Any, principal: Any, profile: Any) -> Any:
        return principal.name != "guest"

    def check(self, ctx: ToolContext) -> Any:
        if ctx.arguments.get("env") == "staging":
            return Decision.allow()
        return Decision.deny("argument_not_allowed", "only staging", rule="staging")


class TestOfficeHours(GateContract):
    gate: Any = OfficeHours

    def make(self) -> Any:
        return self.gate()

    def contexts(self) -> Sequence[ToolContext]:
        spec = ToolSpec(name="deploy", kind="shell", input_schema={"type": "object"})
        return [
            ToolContext(tool="deploy", arguments={"env": "staging"}),
            ToolContext(tool="deploy", arguments={"env": "live"}, spec=spec),
            ToolContext(tool="deploy", principal="guest"),
        ]


class Silent(OfficeHours):
    def check(self, ctx: ToolContext) -> Any:
        return None


class Late(OfficeHours):
    async def check(self, ctx: ToolContext) -> Any:
        return Decision.allow()


class Shouting(OfficeHours):
    def check(self, ctx: ToolContext) -> Any:
        return Decision.deny("Only Staging!") if ctx.arguments else Decision.abstain()


class Counting(OfficeHours):
    def __init__(self) -> None:
        self.asked = 0

    def check(self, ctx: ToolContext) -> Any:
        self.asked += 1
        return super().check(ctx) if self.asked < 3 else Decision.deny("quota_exceeded")


class Meddling(OfficeHours):
    def check(self, ctx: ToolContext) -> Any:
        ctx.arguments["env"] = "staging"
        return super().check(ctx)


class Raising(OfficeHours):
    def check(self, ctx: ToolContext) -> Any:
        return Decision.allow() if ctx.arguments["env"] == "staging" else Decision.deny("x")


class Yielding(OfficeHours):
    def check(self, ctx: ToolContext) -> Any:
        return Decision.allow()


class Truthy(OfficeHours):
    def visible(self, spec: Any, principal: Any, profile: Any) -> Any:
        return principal.name


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Silent, "test_it_answers_with_a_decision"),
        (Late, "test_it_answers_with_a_decision"),
        (Shouting, "test_it_answers_with_a_decision"),
        (Counting, "test_it_is_pure"),
        (Meddling, "test_it_leaves_the_call_as_it_is"),
        (Raising, "test_it_answers_with_a_decision"),
        (Yielding, "test_it_refuses_some_calls_and_not_others"),
        (Truthy, "test_it_says_what_is_listed"),
    ],
)
async def test_broken_gates_are_caught(broken: Any, test: str) -> None:
    class Suite(TestOfficeHours):
        gate = broken

    await catches(Suite, test)


# Extensions


class Timing(Extension):
    """Measures with before and after."""

    async def before_execute(self, ctx: ToolContext) -> None:
        ctx.scratch = {"began": 1}

    async def after_execute(self, ctx: ToolContext, result: ToolResult) -> ToolResult:
        assert ctx.scratch == {"began": 1}
        return msgspec.structs.replace(result, metadata={"timed": True})


class Wrapping(Extension):
    """Goes around the call."""

    async def __call__(self, ctx: ToolContext, call_next: Any) -> ToolResult:
        return await call_next(ctx)


class TestTiming(ExtensionContract):
    extension: Any = Timing

    def make(self) -> Any:
        return self.extension()


class TestWrapping(TestTiming):
    extension = Wrapping


class TestPlainExtension(TestTiming):
    extension = Extension


class Unordered(Wrapping):
    priority: Any = "first"


class Refusing(Extension):
    async def before_execute(self, ctx: ToolContext) -> None:
        raise RuntimeError("not configured")


class Eager(Wrapping):
    async def __call__(self, ctx: ToolContext, call_next: Any) -> ToolResult:
        await call_next(ctx)
        return await call_next(ctx)


class Rewriting(Extension):
    async def before_execute(self, ctx: ToolContext) -> None:
        ctx.arguments["text"] = "rewritten"


class Soothing(Wrapping):
    async def __call__(self, ctx: ToolContext, call_next: Any) -> ToolResult:
        try:
            result = await call_next(ctx)
        except Exception:
            return ctx.ok("never mind")
        return result if result.success else ctx.ok("never mind")


class Forgetful(Extension):
    async def before_execute(self, ctx: ToolContext) -> None:
        self.n = ctx.arguments.get("n")

    async def after_execute(self, ctx: ToolContext, result: ToolResult) -> ToolResult:
        return msgspec.structs.replace(result, output=self.n)


class Clinging(Wrapping):
    async def __call__(self, ctx: ToolContext, call_next: Any) -> ToolResult:
        try:
            return await call_next(ctx)
        except asyncio.CancelledError:
            return ctx.error("stopped")


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Refusing, "test_a_call_passes_through_it"),
        (Eager, "test_a_call_passes_through_it"),
        (Rewriting, "test_the_tool_gets_the_arguments_that_were_decided_on"),
        (Soothing, "test_a_failure_stays_a_failure"),
        (Forgetful, "test_calls_at_the_same_time_do_not_disturb_each_other"),
        (Clinging, "test_cancellation_passes_through_it"),
    ],
)
async def test_broken_extensions_are_caught(broken: Any, test: str) -> None:
    class Suite(TestTiming):
        extension = broken

    await catches(Suite, test)


async def test_an_extension_without_a_proper_priority_is_caught() -> None:
    class Suite(TestTiming):
        extension = Unordered

    with pytest.raises(AssertionError, match="priority is a whole number"):
        await Suite().test_it_has_a_priority()


# Approvers


class TestAutomaticApprover(ApproverContract):
    def make(self, answer: Any) -> Any:
        return AutomaticApprover(answer)


class TestCallbackApprover(ApproverContract):
    def make(self, answer: Any) -> Any:
        return CallbackApprover(lambda request: answer == "allow")


class TestChainApprover(ApproverContract):
    def make(self, answer: Any) -> Any:
        def escalate(request: Any) -> ApprovalDecision:
            return ApprovalDecision(answer="escalate")

        return ChainApprover([escalate, AutomaticApprover(answer)])


class TestApprovalSimulator(ApproverContract):
    def make(self, answer: Any) -> Any:
        return ApprovalSimulator(default=answer)


class Polite:
    """Says yes to everybody."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def ask(self, request: Any) -> Any:
        return ApprovalDecision(answer="allow")


class Loose(Polite):
    async def ask(self, request: Any) -> Any:
        return self.answer == "allow"


class Generous(Polite):
    async def ask(self, request: Any) -> Any:
        return ApprovalDecision(answer=self.answer, reach="always")


class Editing(Polite):
    async def ask(self, request: Any) -> Any:
        request.arguments["env"] = "live"
        return ApprovalDecision(answer=self.answer)


class OneAtATime(Polite):
    busy = False

    async def ask(self, request: Any) -> Any:
        if self.busy:
            return ApprovalDecision(answer="escalate")
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        return ApprovalDecision(answer=self.answer)


@pytest.mark.parametrize(
    ("broken", "tests"),
    [
        (Polite, ["test_it_answers_with_a_decision", "test_a_no_lets_nothing_run"]),
        (Loose, ["test_it_answers_with_a_decision"]),
        (Generous, ["test_it_stays_within_what_is_offered", "test_a_yes_lets_one_call_run"]),
        (Editing, ["test_it_leaves_the_request_alone"]),
        (OneAtATime, ["test_questions_at_the_same_time_are_answered_each"]),
    ],
)
async def test_broken_approvers_are_caught(broken: Any, tests: list[str]) -> None:
    class Suite(ApproverContract):
        def make(self, answer: Any) -> Any:
            return broken(answer)

    await catches(Suite, *tests)


# Exporters


class TestJsonLog(ExporterContract):
    exporter: Any = JsonLog

    def make(self) -> Any:
        self.stream = io.StringIO()
        return self.exporter(self.stream)

    def arrived(self, exporter: Any, event: Event) -> bool:
        return f'"{event.id}"' in self.stream.getvalue()


class TestHumanLog(TestJsonLog):
    exporter = HumanLog

    def arrived(self, exporter: Any, event: Event) -> bool:
        lines = [line for line in self.stream.getvalue().splitlines() if str(event.call_id) in line]
        return len(lines) == 1 and event.data["status"] in lines[0]


class TestEventRecorder(ExporterContract):
    def make(self) -> Any:
        return EventRecorder()

    def arrived(self, exporter: Any, event: Event) -> bool:
        return event in exporter.events


class Modeless(JsonLog):
    mode: Any = "sometimes"


class Choosy(JsonLog):
    async def export(self, batch: Any) -> None:
        await super().export([event for event in batch if event.type != "call.denied"])


class Demanding(JsonLog):
    async def export(self, batch: Any) -> None:
        for event in batch:
            self.write(msgspec.structs.replace(event, type=event.data["tool"]))


class Grabbing(JsonLog):
    async def export(self, batch: Any) -> None:
        for event in batch:
            event.data.clear()


class Unclosable(JsonLog):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Choosy, "test_it_carries_the_end_of_every_call"),
        (Demanding, "test_a_host_counts_no_failure_of_it"),
        (Demanding, "test_it_takes_any_event"),
        (Grabbing, "test_it_changes_no_event"),
        (Unclosable, "test_it_can_be_closed_twice"),
    ],
)
async def test_broken_exporters_are_caught(broken: Any, test: str) -> None:
    class Suite(TestJsonLog):
        exporter = broken

    await catches(Suite, test)


async def test_an_exporter_without_a_proper_mode_is_caught() -> None:
    class Suite(TestJsonLog):
        exporter = Modeless

    with pytest.raises(AssertionError, match="inline or queued"):
        await Suite().test_it_has_a_mode()


# Stores


class TestMemoryStore(StoreContract):
    store: Any = MemoryStore

    def make(self, clock: FakeClock) -> Any:
        return self.store(clock=clock)


class TestSqliteStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make(self, clock: FakeClock) -> Any:
        return SqliteStore(self.folder / "store.db", clock=clock)


class Generosity(MemoryStore):
    """Lets a request be used as often as wanted."""

    async def redeem_request(self, id: str, **how: Any) -> bool:
        found = await self.get_request(id)
        return found is not None and found.state in ("allowed", "used")


class Undying(MemoryStore):
    """Takes answers at any time and forgets the expiry of grants."""

    async def answer_request(self, request: Any, *, grant: Any = None) -> bool:
        kept = await self.get_request(request.id)
        if kept is not None:
            request = msgspec.structs.replace(request, decided=kept.created)
        return await super().answer_request(request, grant=grant)

    async def grants(self, *, live: bool = True) -> Any:
        return [grant for grant in await super().grants(live=False) if grant.revoked is None]


class Trailless(MemoryStore):
    """Never takes what the trail has."""

    def attach(self, trail: Any) -> None:
        pass

    def poke(self, *, now: bool) -> None:
        pass


class Unfenced(MemoryStore):
    """Lets any runner finish, and claims twice."""

    async def claim_call(self, id: str, **how: Any) -> Any:
        return await super().claim_call(id, **how) or 1

    async def finish_call(self, id: str, *, fence: int, **how: Any) -> bool:
        found = await self.get_call(id)
        return await super().finish_call(id, fence=found.fence if found else fence, **how)


class Afterlife(MemoryStore):
    """Answers when it is closed, and sleeps through changes."""

    async def close(self) -> None:
        pass

    async def wait(self, *, timeout: float) -> bool:
        return False


@pytest.mark.parametrize(
    ("broken", "tests"),
    [
        (
            Generosity,
            ["test_an_allowed_request_is_used_once", "test_many_redeemers_use_a_request_once"],
        ),
        (
            Undying,
            [
                "test_an_answer_that_does_not_fit_changes_nothing",
                "test_grants_live_until_revoked_or_over",
            ],
        ),
        (
            Unfenced,
            ["test_a_call_is_claimed_by_one", "test_a_call_goes_from_ready_to_its_end"],
        ),
        (
            Afterlife,
            [
                "test_a_closed_store_says_so",
                "test_waiting_ends_with_a_change_or_in_time",
                "test_a_change_wakes_other_threads",
                "test_closing_carries_the_records",
            ],
        ),
    ],
)
async def test_broken_stores_are_caught(broken: Any, tests: list[str]) -> None:
    class Suite(TestMemoryStore):
        store = broken

    await catches(Suite, *tests)


@pytest.mark.parametrize(
    "test", ["test_every_change_carries_the_records", "test_closing_carries_the_records"]
)
async def test_a_store_without_a_trail_is_caught(test: str) -> None:
    class Suite(TestMemoryStore):
        store = Trailless

    with pytest.raises(AssertionError, match="broken promise"):
        await getattr(Suite(), test)()


# Transports


class Hatch:
    """A door within the process: requests and answers as JSON through a queue."""

    name = "hatch"

    def __init__(self) -> None:
        self.requests: asyncio.Queue[Any] = asyncio.Queue()

    async def serve(self, host: Any, *, ready: Callable[[], None]) -> None:
        async with asyncio.TaskGroup() as group, host.session(door=self.name) as session:
            ready()
            while True:
                group.create_task(self.answer(session, *await self.requests.get()))

    async def answer(self, session: Any, name: str, text: str, reply: Any) -> None:
        result = await session.call(name, json.loads(text))
        if not reply.done():
            reply.set_result(json.dumps(self.shape(result.to_dict())))

    def shape(self, result: dict[str, Any]) -> dict[str, Any]:
        return result


class TestHatch(TransportContract):
    door: Any = Hatch

    def make(self) -> Any:
        return self.door()

    async def call(self, door: Any, name: str, arguments: Mapping[str, Any]) -> Any:
        reply: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        await door.requests.put((name, json.dumps(arguments), reply))
        return json.loads(await asyncio.wait_for(reply, 5))


class Apologetic(Hatch):
    def shape(self, result: dict[str, Any]) -> dict[str, Any]:
        if result["status"] == "denied":
            return {**result, "status": "ok", "error": None, "output": "sorry"}
        return result


class Unmarked(Hatch):
    async def serve(self, host: Any, *, ready: Callable[[], None]) -> None:
        async with asyncio.TaskGroup() as group, host.session() as session:
            ready()
            ready()
            while True:
                group.create_task(self.answer(session, *await self.requests.get()))


class Ajar(Hatch):
    async def serve(self, host: Any, *, ready: Callable[[], None]) -> None:
        ready()


class InTurn(Hatch):
    async def serve(self, host: Any, *, ready: Callable[[], None]) -> None:
        async with host.session(door=self.name) as session:
            ready()
            while True:
                await self.answer(session, *await self.requests.get())


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Apologetic, "test_the_same_result_leaves_through_it"),
        (Unmarked, "test_the_trail_says_through_which_door"),
        (Unmarked, "test_it_says_once_that_it_is_open"),
        (Ajar, "test_it_closes_when_it_is_told_to"),
        (InTurn, "test_a_slow_call_holds_up_no_other"),
    ],
)
async def test_broken_doors_are_caught(broken: Any, test: str) -> None:
    class Suite(TestHatch):
        door = broken
        patience = 0.2

    with pytest.raises(AssertionError, match="broken promise"):
        await getattr(Suite(), test)()
