"""What a profile can hold an argument to. In doubt an allow rule fails and a deny rule holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib import ToolHost, tool
from toolcrib.tools.paths import PathsPolicy


@tool(effects=["read"], inline=True)
def use(value: Any) -> str:
    """Use a value of any kind."""
    return "ran"


CASES = [
    ({"in": ["a", 1]}, ["a", 1, ["a", 1]], ["b", True, None, [], ["a", "b"], {"a": 1}]),
    ({"not_in": ["a"]}, ["b", 1], ["a", ["b", "a"]]),
    ({"prefix": "src/"}, ["src/x", ["src/a", "src/b"]], ["x", "asrc/", 1, ["src/a", "etc"]]),
    ({"glob": "release/*"}, ["release/1"], ["release/1/2", "xrelease/1", "release/1\n/x", 5]),
    ({"glob": "**.py"}, ["a/b.py"], ["a/b.pyc"]),
    ({"regex": "^v[0-9]+$"}, ["v12"], ["v", "xv1", "v1x", 3]),
    ({"min": 2}, [2, 2.5], [1, "3", True, None]),
    ({"max": 3}, [3, -1], [3.01, "1", True]),
    ({"max_length": 3}, ["abc", ""], ["abcd", 5]),
    ({"max_items": 2}, [[1, 2], []], [[1, 2, 3], "ab"]),
    (
        {"host_in": ["good.com", "*.api.com"]},
        ["https://good.com/x", "good.com:443", "http://v1.api.com", "HTTPS://GOOD.COM."],
        ["https://evil.com", "https://good.com@evil.com/", "https://u:p@good.com/", "api.com",
         "https://evilapi.com", "https://good.com.evil.com", "https:evil.com", "//good.com",
         " https://good.com", "https://good.com\\@evil.com", "http://%67ood.com", "", 5],
    ),
]  # fmt: skip


def one(verdict: str, constraint: dict[str, Any]) -> dict[str, Any]:
    rule = {verdict: "use", "when": {"arguments": {"value": constraint}}}
    default = "deny" if verdict == "allow" else "allow"
    return {"profiles": {"p": {"default": default, "rules": [rule]}}}


@pytest.mark.parametrize(("constraint", "good", "bad"), CASES, ids=lambda v: str(v)[:30])
async def test_an_allow_rule_holds_for_what_surely_fits_and_for_nothing_else(
    constraint: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    async with ToolHost([use], config=one("allow", constraint)) as host:
        for value in good:
            assert (await host.call("use", {"value": value})).status == "ok", value
        for value in bad:
            assert (await host.call("use", {"value": value})).status == "denied", value


HOSTILE = {
    "host_in": (
        "evil.com",
        ["https://evil.com/", "evil.com", "http://u@evil.com/", "http:evil.com", "//evil.com/x",
         " http://evil.com", "http://evil.com:80\\", "http://%65vil.com", ["good.com", "evil.com"]],
        ["https://good.com"],
    ),
    "path_under": (
        "/etc",
        ["/etc/passwd", "/etc", "//etc/passwd", "/var/../etc/passwd", "/etc/\0", ["/tmp", "/etc/x"],
         [["/etc/x"]]],
        ["/etcetera", "/tmp/x"],
    ),
    "prefix": ("rm ", ["rm -rf", ["ls", "rm x"]], ["ls"]),
}  # fmt: skip


@pytest.mark.parametrize("verdict", ["deny", "ask"])
@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_deny_or_ask_rule_catches_what_may_fit(verdict: str, kind: str) -> None:
    limit, bad, good = HOSTILE[kind]
    async with ToolHost([use], config=one(verdict, {kind: limit})) as host:
        for value in bad:
            assert host.explain("use", {"value": value}).verdict == verdict, value
        for value in good:
            assert (await host.call("use", {"value": value})).output == "ran", value


async def test_a_dotted_path_reaches_through_lists() -> None:
    rule = {"deny": "use", "when": {"arguments": {"value.files.path": {"prefix": "/etc"}}}}
    config = {"profiles": {"p": {"default": "allow", "rules": [rule]}}}
    async with ToolHost([use], config=config) as host:
        files = {"files": [{"path": "/tmp/a"}, {"path": "/etc/passwd"}]}
        assert (await host.call("use", {"value": files})).reason == "denied_by_rule"
        assert (await host.call("use", {"value": {"files": [{"path": "/tmp"}]}})).status == "ok"


PATHS = [
    ("notes/a", True), (".", True), ("../other", False), ("/etc/passwd", False),
    ("notes/../../x", False), ("notes\0", False), ("//etc/passwd", False), ("a/../b", True),
]  # fmt: skip


@pytest.mark.parametrize(("path", "inside"), PATHS)
@pytest.mark.parametrize("with_session", [True, False])
async def test_paths_stay_below_the_folder(
    path: str, inside: bool, with_session: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    @tool(effects=["read"], policy=PathsPolicy(arguments=["path"]), inline=True)
    def read(path: str) -> str:
        return path

    rule = {"allow": "rule", "when": {"arguments": {"path": {"path_under": "."}}}}

    @tool(name="rule", effects=["read"], inline=True)
    def ruled(path: str) -> str:
        return path

    config = {"profiles": {"p": {"rules": [{"allow": "read"}, rule]}}}
    async with ToolHost([read, ruled], config=config) as host:
        session = host.session(cwd=tmp_path) if with_session else None
        if session is not None:
            await session.__aenter__()
        for name in ("read", "rule"):
            result = await host.call(name, {"path": path}, session=session)
            assert (result.status == "ok") is inside, (name, result)
            if not inside:
                assert result.reason == "path_outside_root"
        inner = await host.call("read", {"path": str(tmp_path / "x")}, session=session)
        assert inner.status == "ok"


async def test_a_rule_on_an_argument_that_no_tool_has_is_a_mistake() -> None:
    from toolcrib import ConfigError

    @tool(effects=["write"])
    async def deploy(target: str) -> str:
        return target

    rule = {"deny": "deploy", "when": {"arguments": {"tarfet": {"in": ["production"]}}}}
    host = ToolHost([deploy], config={"profiles": {"p": {"default": "allow", "rules": [rule]}}})
    with pytest.raises(ConfigError, match=r"argument 'tarfet'.*Did you mean target\?"):
        host.load()
