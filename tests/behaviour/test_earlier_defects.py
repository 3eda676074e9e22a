"""Defects that earlier tool hosts had, one test each."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest
from support import Counted, allowing, assert_one_ending, story

from toolcrib import (
    CallDenied,
    ConfigError,
    Decision,
    NameTaken,
    Principal,
    ToolContext,
    ToolHost,
    ToolPolicy,
    tool,
)
from toolcrib.testing import ApprovalSimulator


async def test_a_name_is_a_key_and_no_prefix_gives_ownership() -> None:
    weather, admin = Counted("weather"), Counted("weather-admin-reset")
    async with ToolHost([weather.tool, admin.tool], config=allowing("weather")) as host:
        assert (await host.call("weather")).success
        refused = await host.call("weather-admin-reset")
        assert (refused.status, refused.reason) == ("denied", "not_in_profile")
        assert admin.runs == 0


async def test_a_dash_in_a_name_is_no_separator() -> None:
    dashed = Counted("my-srv-read")
    async with ToolHost([dashed.tool], config=allowing("my-srv-read")) as host:
        assert (await host.call("my-srv-read")).success


async def test_what_is_not_listed_cannot_be_called() -> None:
    shown, hidden = Counted("shown"), Counted("hidden")
    async with ToolHost([shown.tool, hidden.tool], config=allowing("shown")) as host:
        assert [t.name for t in host.tools()] == ["shown"]
        for _ in range(2):  # also when its plan is known already
            assert (await host.call("hidden")).reason == "not_in_profile"
        assert hidden.runs == 0


async def test_an_exclude_list_is_enforced_at_the_call() -> None:
    kept, excluded = Counted("kept"), Counted("excluded")
    rules = {"default": "allow", "rules": [{"deny": "excluded"}]}
    config = {"profiles": {"only": rules}}
    async with ToolHost([kept.tool, excluded.tool], config=config) as host:
        assert [t.name for t in host.tools()] == ["kept"]
        assert (await host.call("kept")).success
        assert (await host.call("excluded")).reason == "denied_by_rule"
        assert excluded.runs == 0


async def test_listing_under_a_profile_that_does_not_exist_opens_no_door() -> None:
    secret = Counted("secret")
    config = {"profiles": {"only": {"rules": [{"deny": "secret"}]}}}
    async with ToolHost([secret.tool], config=config) as host:
        assert host.tools(profile="tpyo") == []
        for profile in (None, "only", "tpyo"):
            assert (await host.call("secret", profile=profile)).status == "denied"
        assert secret.runs == 0


async def test_nothing_is_listed_while_several_profiles_wait_to_be_chosen_from() -> None:
    work = Counted()
    config = {"profiles": {"a": {"default": "allow"}, "b": {"default": "allow"}}}
    async with ToolHost([work.tool], config=config) as host:
        assert host.tools() == []
        assert (await host.call("work")).reason == "not_in_profile"
        assert (await host.call("work", profile="b")).success


async def test_a_profile_that_a_principal_may_not_use_lists_nothing_for_it() -> None:
    work = Counted()
    config = {
        "principals": {"ci": {"profiles": ["narrow"]}},
        "profiles": {"narrow": {}, "wide": {"default": "allow"}},
    }
    async with ToolHost([work.tool], config=config) as host:
        assert host.tools(profile="wide", principal="ci") == []
        for who in ("ci", Principal("ci")):
            assert (await host.call("work", profile="wide", principal=who)).status == "denied"
        assert work.runs == 0


async def test_a_guard_that_raises_lets_nothing_run() -> None:
    class Broken:
        name = "broken"

        def visible(self, spec: Any, principal: Any, profile: Any) -> bool:
            return True

        def check(self, ctx: ToolContext) -> Decision:
            raise RuntimeError("no answer")

    work = Counted()
    async with ToolHost([work.tool], gates=[Broken()]) as host:
        result = await host.call("work")
        assert (result.status, result.reason) == ("denied", "guard_failed")
        assert work.runs == 0


async def test_permissions_are_asked_of_a_caller_without_a_name() -> None:
    work = Counted(permissions=["repo.write"])
    async with ToolHost([work.tool]) as host:
        assert (await host.call("work")).reason == "role_required"
        assert work.runs == 0
        holder = Principal("ann", permissions=["repo.write"])
        assert (await host.call("work", principal=holder)).success


async def test_a_denial_is_no_success() -> None:
    work = Counted()
    config = {"profiles": {"only": {}}}
    async with ToolHost([work.tool], config=config) as host:
        result = await host.call("work")
        assert not result.success
        assert result.to_dict()["status"] == "denied"
        assert result.output is None
        assert result.content is None
        with pytest.raises(CallDenied, match="not_in_profile"):
            result.unwrap()


async def test_a_denied_call_leaves_its_events() -> None:
    work = Counted()
    async with ToolHost([work.tool], config={"profiles": {"only": {}}}) as host:
        result = await host.call("work", {"n": 5}, principal="ann")
        events = await story(host, result.call_id)
        assert [e.type for e in events] == ["call.received", "call.decided", "call.denied"]
        received, decided, denied = (event.data for event in events)
        assert (received["principal"], received["arguments"]) == ("ann", {"n": 5})
        assert (decided["verdict"], decided["reason"]) == ("deny", "not_in_profile")
        assert denied["reason"] == "not_in_profile"


async def test_an_optional_parameter_is_optional() -> None:
    @tool(effects={"read"}, inline=True)
    def greet(name: str, mark: str = "!", title: str | None = None) -> str:
        return f"{title or ''}{name}{mark}"

    async with ToolHost([greet]) as host:
        assert host.tools()[0].input_schema["required"] == ["name"]
        assert (await host.call("greet", {"name": "Ann"})).output == "Ann!"
        assert (await host.call("greet", {"name": "Ann", "title": None})).output == "Ann!"


async def test_the_schema_that_is_shown_is_enforced() -> None:
    work = Counted()
    async with ToolHost([work.tool]) as host:
        unknown = await host.call("work", {"n": 1, "m": 2})
        assert (unknown.status, unknown.reason) == ("error", "invalid_arguments")
        assert "m" in unknown.error.message
        assert work.runs == 0


async def test_text_does_not_pass_for_a_number() -> None:
    got: list[object] = []

    @tool(effects={"read"}, inline=True)
    def square(n: int) -> int:
        got.append(n)
        return n * n

    async with ToolHost([square]) as host:
        for wrong in ("3", True, 2.5, None, [3]):
            assert (await host.call("square", {"n": wrong})).reason == "invalid_arguments", wrong
        assert got == []
        assert (await host.call("square", {"n": 3})).output == 9
        assert (await host.call("square", {"n": 3.0})).output == 9
        assert [type(n) for n in got] == [int, int]


class Knobs(ToolPolicy):
    allow_push: bool = False

    def check(self, ctx: ToolContext) -> Decision | None:
        return None if self.allow_push else self.deny("action_not_allowed")


async def test_an_unknown_policy_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="allow_psuh"):
        Knobs(allow_psuh=True)
    work = Counted(policy=Knobs)
    config = allowing("work", policies={"work": {"allow_psuh": True}})
    host = ToolHost([work.tool], config=config)
    with pytest.raises(ConfigError, match="allow_psuh"):
        host.load()
    good = allowing("work", policies={"work": {"allow_push": True}})
    async with ToolHost([work.tool], config=good) as host:
        assert (await host.call("work")).success
    async with ToolHost([work.tool], config=allowing("work")) as host:
        assert (await host.call("work")).reason == "action_not_allowed"


async def test_the_rule_read_is_about_read_only() -> None:
    read, more = Counted("read"), Counted("read_and_delete")
    async with ToolHost([read.tool, more.tool], config=allowing("read")) as host:
        assert (await host.call("read")).success
        assert (await host.call("read_and_delete")).reason == "not_in_profile"
        assert more.runs == 0


async def test_a_function_that_outlives_its_time_is_reported_and_not_repeated() -> None:
    started, leave = 0, threading.Event()

    @tool(effects={"read"}, idempotent=True, retry={"attempts": 3, "backoff": 0}, timeout=0.05)
    def stuck() -> int:
        nonlocal started
        started += 1
        leave.wait(5)
        return 1

    async with ToolHost([stuck]) as host:
        result = await host.call("stuck")
        assert result.reason == "timeout"
        assert result.error.still_running is True
        assert result.error.retryable is False
        ending = await assert_one_ending(host, result.call_id)
        assert ending.data["still_running"] is True
        leave.set()
    assert started == 1


async def test_a_second_tool_of_a_name_is_refused_with_both_owners() -> None:
    first, second = Counted("twin"), Counted("twin")
    host = ToolHost([first.tool])
    with pytest.raises(NameTaken) as caught:
        host.register(second.tool)
    assert str(caught.value).count("support.py:") == 2
    await host.call("twin")
    assert (first.runs, second.runs) == (1, 0)
    host.register(second.tool, replace=True)
    await host.call("twin")
    assert (first.runs, second.runs) == (1, 1)
    await host.stop()


async def test_names_that_only_look_different_are_refused() -> None:
    host = ToolHost([Counted("read_file").tool])
    with pytest.raises(NameTaken, match="looks like"):
        host.register(Counted("read-file").tool)


async def test_registering_from_other_threads_and_loops_loses_nothing() -> None:
    host = ToolHost()
    problems: list[BaseException] = []

    def many(prefix: str) -> None:
        async def go() -> None:
            for n in range(25):
                host.register(Counted(f"{prefix}{n}").tool)
                result = await host.call(f"{prefix}{n}", {"n": n})
                assert result.output == n, result
                if n % 5 == 0:
                    assert host.unregister(f"{prefix}{n}")

        try:
            asyncio.run(go())
        except BaseException as error:
            problems.append(error)

    async with host:
        threads = [threading.Thread(target=many, args=(letter,)) for letter in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert problems == []
        assert len(host.tools()) == 4 * 20


@pytest.mark.parametrize("spelling", ["plain", "version", "wire"])
async def test_an_unregistered_tool_is_gone_under_every_spelling(spelling: str) -> None:
    work = Counted("shop.work")
    async with ToolHost([work.tool]) as host:
        wire = host.tools()[0].wire_name
        name = {"plain": "shop.work", "version": "shop.work@0", "wire": wire}[spelling]
        async with host.session() as session:
            for _ in range(2):
                assert (await session.call(name)).success
                assert (await host.call(name)).success
            assert host.unregister("shop.work")
            assert (await session.call(name)).reason == "unknown_tool"
            assert (await host.call(name)).reason == "unknown_tool"
        assert work.runs == 4


@pytest.mark.parametrize("spelling", ["plain", "version", "wire"])
async def test_a_replaced_tool_is_replaced_under_every_spelling(spelling: str) -> None:
    old, new = Counted("shop.work"), Counted("shop.work")
    async with ToolHost([old.tool]) as host:
        wire = host.tools()[0].wire_name
        name = {"plain": "shop.work", "version": "shop.work@0", "wire": wire}[spelling]
        await host.call(name)
        host.register(new.tool, replace=True)
        assert (await host.call(name)).success
        assert (old.runs, new.runs) == (1, 1)


async def test_a_tool_registered_later_reaches_live_sessions() -> None:
    later = Counted("later")
    async with ToolHost() as host, host.session() as session:
        assert (await session.call("later")).reason == "unknown_tool"
        host.register(later.tool)
        assert [t.name for t in session.tools()] == ["later"]
        assert (await session.call("later")).success


@pytest.mark.parametrize("answer", ["allow_once", "yes", 1, None, {"answer": "allow"}])
async def test_an_unknown_approval_option_is_no_yes(answer: object) -> None:
    work = Counted(requires_approval=True)
    approver = ApprovalSimulator({"work": lambda request: answer})
    async with ToolHost([work.tool], approver=approver) as host:
        result = await host.call("work")
        assert result.status == "denied"
        assert work.runs == 0
        assert len(approver.requests) == 1


async def test_silence_is_no_persons_no() -> None:
    work = Counted(requires_approval=True)
    config = allowing("work", approval={"timeout": "50ms"})
    approver = ApprovalSimulator({"work": "expire"})
    async with ToolHost([work.tool], config=config, approver=approver) as host:
        result = await host.call("work")
        assert (result.status, result.reason) == ("denied", "approval_expired")
        decided = [e.data for e in await host.trail() if e.type == "approval.decided"]
        assert [d["state"] for d in decided] == ["expired"]
        assert not decided[0].get("by")
        assert work.runs == 0


@dataclasses.dataclass
class Row:
    id: int
    label: str


async def test_the_model_gets_values_and_no_python_spelling() -> None:
    class Opaque:
        pass

    @tool(effects={"read"}, inline=True)
    def row() -> Row:
        return Row(1, "one")

    @tool(effects={"read"}, inline=True)
    def opaque() -> Any:
        return {"thing": Opaque()}

    async with ToolHost([row, opaque]) as host:
        assert (await host.call("row")).output == {"id": 1, "label": "one"}
        result = await host.call("opaque")
        assert (result.status, result.reason) == ("error", "invalid_output")
        assert "object at 0x" not in str(result.to_dict())


async def test_tools_do_not_get_the_environment_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOOLCRIB_TEST_PRIVATE", "do-not-pass-on")
    seen: list[dict[str, str]] = []

    @tool(effects={"read"})
    async def look(ctx: ToolContext) -> int:
        seen.append(dict(ctx.environment))
        return len(ctx.environment)

    async with ToolHost([look]) as host:
        assert (await host.call("look")).output == 0
        async with host.session(environment={"LANG": "C"}) as session:
            assert (await session.call("look")).output == 1
    assert seen == [{}, {"LANG": "C"}]


async def test_a_broken_entry_stops_the_start_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from toolcrib import tool\n\n@tool\ndef good() -> int:\n    return 1\n"
    )
    path = tmp_path / "toolcrib.yaml"
    path.write_text("version: 1\ntools:\n  - python: tools.py\n  - name: broken\n    kind: shel\n")
    with pytest.raises(ConfigError) as caught:
        ToolHost.from_config(path)
    assert caught.value.line in (4, 5)
    host = ToolHost(config=path)
    with pytest.raises(ConfigError):
        await host.call("good")
    assert len(host.catalog) == 0


async def test_a_reload_that_fails_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(
        "from toolcrib import tool\n\n@tool(effects={'read'})\ndef old() -> int:\n    return 1\n"
    )
    (tmp_path / "new.py").write_text(
        "from toolcrib import tool\n\n"
        "@tool(effects={'read'})\ndef fresh() -> int:\n    return 1\n\n"
        "@tool(effects={'read'})\ndef taken() -> int:\n    return 1\n"
    )
    path = tmp_path / "toolcrib.yaml"
    path.write_text("version: 1\ntools:\n  - python: old.py\n")
    async with ToolHost([Counted("taken").tool], config=path) as host:
        assert (await host.call("old")).output == 1
        path.write_text("version: 1\ntools:\n  - python: new.py\n")
        with pytest.raises(ConfigError, match="taken"):
            await host.reload()
        assert [t.name for t in host.tools()] == ["old", "taken"]
        assert (await host.call("old")).output == 1


async def test_a_principal_of_the_configuration_keeps_its_roles_on_every_call() -> None:
    work = Counted()
    config = {
        "principals": {"local": {"roles": ["owner"]}},
        "profiles": {"only": {"rules": [{"allow": "work", "when": {"roles": ["owner"]}}]}},
    }
    async with ToolHost([work.tool], config=config) as host:
        for _ in range(3):
            assert (await host.call("work")).success


async def test_a_reload_that_restricts_a_principal_holds_at_once() -> None:
    work = Counted()
    config: dict[str, Any] = {"profiles": {"wide": {"default": "allow"}, "none": {}}}
    async with ToolHost([work.tool], config=config) as host:
        ci = Principal("ci")
        assert (await host.call("work", principal=ci, profile="wide")).success
        config["principals"] = {"ci": {"profiles": ["none"]}}
        await host.reload()
        refused = await host.call("work", principal=ci, profile="wide")
        assert refused.status == "denied"
        assert work.runs == 1


async def test_starting_is_not_needed_to_look() -> None:
    work = Counted()
    before = threading.active_count()
    host = ToolHost([work.tool])
    assert host.explain("work", {"n": "x"}).reason == "invalid_arguments"
    assert host.explain("work").verdict == "allow"
    assert [t.name for t in host.tools()] == ["work"]
    assert threading.active_count() == before
    assert work.runs == 0
