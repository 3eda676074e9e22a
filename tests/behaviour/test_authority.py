"""Authority is never lent, widened or kept longer than it lasts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from toolcrib import (
    ApprovalDecision,
    Decision,
    NameTaken,
    NotFound,
    Principal,
    Profile,
    StoreError,
    ToolContext,
    ToolHost,
    ToolSpec,
    tool,
)
from toolcrib.core.names import wire_name
from toolcrib.testing import ApprovalSimulator, EventRecorder


@tool(effects=["write"])
async def deploy(ref: str = "main") -> str:
    """Deploy."""
    return ref


class Named:
    """A gate with a name that the host uses itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visible(self, spec: ToolSpec, principal: Principal, profile: Profile | None) -> bool:
        return True

    def check(self, ctx: ToolContext) -> Decision:
        if ctx.arguments.get("ref") == "evil":
            return Decision.deny("evil_ref")
        return Decision.abstain()


@pytest.mark.parametrize("name", ["role", "profile", "policy"])
async def test_a_gate_is_asked_for_every_call_whatever_its_name(name: str) -> None:
    async with ToolHost([deploy], gates=[Named(name)]) as host:
        assert (await host.call("deploy")).status == "ok"
        assert (await host.call("deploy", {"ref": "evil"})).reason == "evil_ref"


async def test_a_role_that_was_taken_away_is_gone_for_open_sessions(tmp_path: Path) -> None:
    page = tmp_path / "toolcrib.yaml"
    page.write_text(
        "profiles: {p: {rules: [{allow: deploy, when: {roles: [releaser]}}]}}\n"
        "principals: {ann: {roles: [releaser]}}\n"
    )
    async with (
        ToolHost([deploy], config=page) as host,
        host.session(principal="ann") as session,
    ):
        assert (await session.call("deploy")).status == "ok"
        page.write_text(page.read_text().replace("roles: [releaser]}}\n", "roles: [reader]}}\n"))
        await host.reload()
        assert (await session.call("deploy")).reason == "role_required"
        assert session.tools() == []


async def test_a_call_that_waits_when_its_session_ends_does_not_run() -> None:
    ran: list[str] = []

    @tool(effects=["write"], requires_approval=True)
    async def wipe() -> None:
        ran.append("wipe")

    async with ToolHost([wipe]) as host:
        recorder = EventRecorder(host)
        async with host.session(principal="ann") as session:
            call = asyncio.ensure_future(session.call("wipe"))
            await recorder.wait_for("approval.requested", timeout=5)
        (request,) = await host.approvals.list()
        await host.approvals.decide(request.id)
        assert (await call).reason == "unauthenticated"
    assert ran == []


async def test_a_restricted_principal_keeps_to_its_profiles_and_a_stranger_to_the_default() -> None:
    config: dict[str, Any] = {
        "host": {"profile": "strict"},
        "profiles": {"strict": {"rules": []}, "free": {"default": "allow"}},
        "principals": {"ci": {"profiles": ["strict"]}, "boss": {"profiles": ["strict", "free"]}},
    }
    async with ToolHost([deploy], config=config) as host:
        assert (await host.call("deploy", principal="boss", profile="free")).status == "ok"
        for who in ("ci", "cii", Principal("ci", roles=["releaser"])):
            result = await host.call("deploy", principal=who, profile="free")
            assert (result.status, result.reason) == ("denied", "not_in_profile"), who


async def test_names_that_models_see_belong_to_one_tool() -> None:
    def named(name: str) -> ToolSpec:
        async def run() -> str:
            return name

        return ToolSpec(name=name, config={"function": run})

    host = ToolHost([named("files.read")])
    wire = host.tools()[0].wire_name
    with pytest.raises(NameTaken, match=r"files\.read"):
        host.register(named(wire))
    assert (await host.call(wire)).output == "files.read"
    other = ToolHost([named(wire)])
    with pytest.raises(NameTaken, match="to a model"):
        other.register(named("files.read"))
    await host.stop()


async def test_tools_that_conflict_do_not_stand_side_by_side() -> None:
    rough = ToolSpec(name="rough", conflicts_with=frozenset({"fine"}), config={"function": deploy})
    fine = ToolSpec(name="fine", config={"function": deploy})
    for first, second in ((rough, fine), (fine, rough)):
        host = ToolHost([first])
        with pytest.raises(NameTaken, match="conflicts with"):
            host.register(second)
        host.unregister(first.name)
        host.register(second)


async def test_a_pinned_version_is_that_version_or_nothing() -> None:
    def version(number: str) -> ToolSpec:
        async def run() -> str:
            return number

        return ToolSpec(name="build", version=number, config={"function": run})

    profile = {"rules": [{"allow": "build"}], "versions": {"build": "1.0"}}
    config = {"profiles": {"pinned": profile, "free": {"rules": [{"allow": "build"}]}}}
    async with ToolHost([version("1.0"), version("2.0")], config=config) as host:
        assert (await host.call("build", profile="free")).output == "2.0"
        assert (await host.call("build@1.0", profile="free")).output == "1.0"
        assert (await host.call("build", profile="pinned")).output == "1.0"
        assert (await host.call("build@2.0", profile="pinned")).reason == "unknown_tool"
        host.unregister("build@1.0")
        assert (await host.call("build", profile="pinned")).reason == "unknown_tool"


async def test_a_large_output_is_cut_and_only_its_caller_gets_the_rest() -> None:
    @tool(effects=["read"])
    async def book() -> str:
        return "x" * 500

    async with ToolHost([book], config={"host": {"max_output": 100}}) as host:
        result = await host.call("book", principal="ann")
        assert result.truncated is not None
        assert (result.truncated.original, result.truncated.kept) == (500, 100)
        assert result.output.startswith("x" * 100 + "… [cut: 100 of 500")
        assert result.metadata["artifact"] == result.call_id
        assert host.output(result.call_id, principal="ann") == "x" * 500
        with pytest.raises(NotFound):
            host.output(result.call_id, principal="ben")


async def test_arguments_over_the_limit_are_refused() -> None:
    async with ToolHost([deploy], config={"host": {"max_arguments": "100B"}}) as host:
        result = await host.call("deploy", {"ref": "x" * 200})
        assert result.reason == "invalid_arguments"
        assert "too large" in str(result.error)


async def test_under_a_concealing_profile_a_refused_tool_is_one_that_does_not_exist() -> None:
    rules: list[dict[str, Any]] = [{"deny": "deploy"}]
    for profile in ({"conceal": True, "rules": rules}, {"conceal": True}):
        async with ToolHost([deploy], config={"profiles": {"p": profile}}) as host:
            hidden, absent = await host.call("deploy"), await host.call("deplox")
            assert hidden.status == absent.status == "error"
            assert hidden.error is not None
            assert absent.error is not None
            assert hidden.reason == absent.reason == "unknown_tool"
            assert hidden.error.message.replace("deploy", "") == (
                absent.error.message.replace("deplox", "")
            )
            assert hidden.error.details == absent.error.details
            kept = await host.trail(call_id=hidden.call_id)
            assert kept[-1].data["reason"] in ("denied_by_rule", "not_in_profile")


async def test_an_edit_that_leaves_a_hidden_value_alone_keeps_the_real_one() -> None:
    got: list[Any] = []

    @tool(effects=["write"], requires_approval=True)
    async def login(user: str, password: str) -> None:
        got.append((user, password))

    edited = {"user": "ben", "password": "«hidden»"}
    approver = ApprovalSimulator({"login": ApprovalDecision(answer="allow", arguments=edited)})
    config = {"profiles": {"p": {"default": "allow", "approval": {"edit": True}}}}
    async with ToolHost([login], config=config, approver=approver) as host:
        result = await host.call("login", {"user": "ann", "password": "hunter2hunter2"})
        assert result.status == "ok"
        (asked,) = approver.requests
        assert asked.arguments == {"user": "ann", "password": "«hidden»"}
    assert got == [("ben", "hunter2hunter2")]


async def test_what_was_refused_keeps_its_passwords_to_itself() -> None:
    @tool(effects=["read"])
    async def count(n: int) -> int:
        return n

    async with ToolHost([count]) as host:
        for arguments in ({"n": 1, "password": "hunter2"}, {"n": "x", "token": "abc123"}):
            await host.call("count", arguments)
        kept = str(await host.trail())
    assert "hunter2" not in kept
    assert "abc123" not in kept


async def test_times_on_the_trail_never_run_backwards() -> None:
    approver = ApprovalSimulator(default="allow")
    config = {"profiles": {"p": {"rules": [{"ask": "deploy"}]}}}
    async with ToolHost([deploy], config=config, approver=approver) as host:
        result = await host.call("deploy")
        events = await host.trail(call_id=result.call_id)
    types = [event.type for event in events]
    assert types == [
        "call.received", "call.decided", "approval.requested", "approval.decided", "approval.used",
        "call.started", "call.finished",
    ]  # fmt: skip
    times = [event.time for event in events]
    assert times == sorted(times)


async def test_a_trail_whose_key_is_lost_is_not_signed_with_another(tmp_path: Path) -> None:
    store, key = tmp_path / "trail.db", tmp_path / "trail.db.key"
    async with ToolHost([deploy], store=f"sqlite:{store}") as host:
        await host.call("deploy")
    key.unlink()
    host = ToolHost([deploy], store=f"sqlite:{store}")
    result = await host.call("deploy")
    assert (result.status, result.reason) == ("denied", "audit_unavailable")
    with pytest.raises(StoreError, match=r"its key .* is missing"):
        await host.start()
    assert not key.exists()


SLIPS: list[tuple[dict[str, Any], str]] = [
    ({"name": deploy}, "call() takes a tool's name"),
    ({"name": "deploy", "timeout": "5s"}, "timeout is a number of seconds"),
    ({"name": "deploy", "timeout": -1}, "timeout is a number of seconds"),
    ({"name": "deploy", "principal": 5}, "principal is a name or a Principal"),
    ({"name": "deploy", "call_id": "a\nb"}, "call_id is 1 to 128"),
]


@pytest.mark.parametrize(("given", "words"), SLIPS, ids=[words for _, words in SLIPS])
async def test_slips_of_the_programmer_are_told_in_words(given: dict[str, Any], words: str) -> None:
    async with ToolHost([deploy]) as host:
        with pytest.raises(TypeError) as told:
            await host.call(**given)
        assert words in str(told.value)


async def test_a_configuration_may_hold_several_versions(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "def old() -> str:\n    return 'old'\n\n\ndef new() -> str:\n    return 'new'\n"
    )
    page = tmp_path / "toolcrib.yaml"
    item = "  - {{name: build, version: '{}', module: shop.py, function: {}, effects: [read]}}\n"
    both = "tools:\n" + item.format("1.0", "old") + item.format("1.10", "new")
    page.write_text(both)
    async with ToolHost(config=page) as host:
        assert (await host.call("build")).output == "new"
        assert (await host.call("build@1.0")).output == "old"
        for version, output in (("1.0", "old"), ("1.10", "new")):
            assert (await host.call(wire_name(f"build@{version}"))).output == output
        page.write_text("tools:\n" + item.format("1.0", "old"))
        await host.reload()
        assert (await host.call("build")).output == "old"
        assert (await host.call("build@1.10")).reason == "unknown_tool"
        page.write_text(both)
        await host.reload()
        assert (await host.call("build")).output == "new"


async def test_a_sessions_tool_cannot_be_mistaken_for_another() -> None:
    @tool(name="Deploy", effects=["read"])
    async def deploy_alike() -> str:
        return "mine"

    @tool(name="own", effects=["read"])
    async def own() -> str:
        return "own"

    @tool(name="Own", effects=["read"])
    async def own_alike() -> str:
        return "Own"

    async with ToolHost([deploy]) as host, host.session() as session:
        with pytest.raises(NameTaken, match="looks like 'deploy'"):
            session.register(deploy_alike)
        session.register(own)
        with pytest.raises(NameTaken, match="looks like 'own'"):
            session.register(own_alike)
        with pytest.raises(NameTaken):
            session.register(own)
        session.register(own, replace=True)
        assert (await session.call("own")).output == "own"


@pytest.mark.parametrize("alias", ["a.secret_tool@0", "wire"])
async def test_another_name_of_a_concealed_tool_gives_nothing_away(alias: str) -> None:
    @tool(name="a.secret_tool", effects=["read"])
    def secret() -> int:
        return 1

    config = {"version": 1, "profiles": {"blind": {"default": "deny", "conceal": True}}}
    async with ToolHost([secret], config=config) as host:
        spec = host.get("a.secret_tool")
        assert spec is not None
        name = spec.wire_name if alias == "wire" else alias
        assert name != "a.secret_tool"
        for _ in range(2):
            result = await host.call(name)
            assert result.error is not None
            assert result.error.message == f"{name}: no such tool"
            assert result.reason == "unknown_tool"
        assert "a.secret_tool:" not in str(host.explain(name).to_dict())
        told = [event.data for event in await host.trail(call_id=result.call_id)]
    assert all(data.get("tool") in (None, name) for data in told)
