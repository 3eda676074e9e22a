"""Code that calls tools: every call is decided and recorded like any other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from broad import broad_host
from toolcrib import ToolHost, ToolResult, tool
from toolcrib.tools.python_code import TEMPLATE

PRICES = {"lamp": 9, "rug": 40}


@tool(name="shop-price", effects=["read"])
async def price(item: str) -> dict[str, int]:
    """Look a price up."""
    return {"price": PRICES[item]}


@tool(effects=["write"])
async def order(item: str) -> str:
    """Order something."""
    return f"ordered {item}"


def shop(tmp_path: Path, *others: Any, profile: Any = None, **knobs: Any) -> ToolHost:
    knobs.setdefault("allowed_tools", ["shop-price"])
    return broad_host(TEMPLATE, knobs, tmp_path, price, order, *others, profile=profile)


async def run(host: ToolHost, code: str) -> ToolResult:
    return await host.call("python_code", {"code": code})


async def received(host: ToolHost) -> dict[str, str | None]:
    """The tools of the calls on the trail, and the call that each was made by."""
    calls = [event for event in await host.trail() if event.type == "call.received"]
    return {event.data["tool"]: event.data["parent"] for event in calls}


async def test_a_tool_is_an_async_function(tmp_path: Path) -> None:
    code = (
        "total = 0\nfor item in ['lamp', 'rug']:\n"
        "    total += (await shop_price(item=item))['price']\ntotal"
    )
    async with shop(tmp_path) as host:
        assert (await run(host, code)).unwrap()["result"] == 49
        assert "await shop_price(…)" in host.get("python_code").description


async def test_calls_are_on_the_trail_with_their_parent(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        result = await run(host, "await shop_price(item='rug')")
        assert await received(host) == {"python_code": None, "shop-price": result.call_id}


async def test_several_calls_at_once(tmp_path: Path) -> None:
    both = asyncio.Barrier(2)

    @tool(effects=["read"])
    async def meet(n: int) -> int:
        """Wait for the other call."""
        await asyncio.wait_for(both.wait(), 10)
        return n

    code = "import asyncio\nf = meet\nawait asyncio.gather(f(n=1), meet(n=2))"
    async with shop(tmp_path, meet, allowed_tools=["meet"]) as host:
        assert (await run(host, code)).unwrap()["result"] == [1, 2]


async def test_only_the_tools_on_the_list(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        for code in ("await order(item='x')", "await python_code(code='1')", "order"):
            result = await run(host, code)
            assert "NameError" in result.error.message
        assert set(await received(host)) == {"python_code"}


async def test_a_listed_tool_still_needs_the_profile(tmp_path: Path) -> None:
    profile = {"rules": [{"allow": ["python_code", "shop-price"]}]}
    code = (
        "try:\n    await order(item='rug')\n"
        "except PermissionError as error:\n    told = str(error)\ntold"
    )
    async with shop(tmp_path, profile=profile, allowed_tools=["order", "shop-price"]) as host:
        assert (await run(host, code)).unwrap()["result"].startswith("not_in_profile: ")


async def test_a_profile_shortens_the_list(tmp_path: Path) -> None:
    profile = {
        "rules": [{"allow": "*"}],
        "policies": {"python_code": {"allowed_tools": []}},
    }
    async with shop(tmp_path, profile=profile) as host:
        assert "NameError" in (await run(host, "await shop_price(item='rug')")).error.message


async def test_wrong_calls_are_exceptions_in_the_code(tmp_path: Path) -> None:
    async with shop(tmp_path, max_calls=2) as host:
        for code, words in (
            ("await shop_price('rug')", "keyword arguments only"),
            ("await shop_price(item={1})", "a set is not JSON"),
            ("await shop_price(thing=1)", "invalid_arguments"),
            ("for _ in range(3):\n    await shop_price(item='rug')", "too many calls"),
        ):
            result = await run(host, code)
            assert result.reason == "tool_error"
            assert words in result.error.message


async def test_a_failure_of_a_tool_can_be_handled(tmp_path: Path) -> None:
    code = "try:\n    await shop_price(item='boat')\nexcept RuntimeError:\n    x = 'none'\nx"
    async with shop(tmp_path) as host:
        assert (await run(host, code)).unwrap()["result"] == "none"


async def test_a_call_that_is_not_awaited_never_runs(tmp_path: Path) -> None:
    async with shop(tmp_path, allowed_tools=["order"]) as host:
        result = await run(host, "order(item='boat')\n1")
        assert "write await order(…)" in result.error.message
        assert set(await received(host)) == {"python_code"}


async def test_time_spent_waiting_for_tools_does_not_count(tmp_path: Path) -> None:
    @tool(effects=["read"])
    async def slow() -> int:
        """Take longer than the code may."""
        await asyncio.sleep(0.4)
        return 1

    async with shop(tmp_path, slow, allowed_tools=["slow"], timeout="200ms") as host:
        assert (await run(host, "await slow()")).unwrap()["result"] == 1
        assert (await run(host, "await slow()\nwhile True: pass")).reason == "timeout"


async def test_a_cancelled_run_cancels_its_tools(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool(effects=["read"])
    async def forever() -> None:
        """Wait for ever."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with shop(tmp_path, forever, allowed_tools=["forever"]) as host:
        call = asyncio.ensure_future(run(host, "await forever()"))
        await begun.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert ended.is_set()


async def test_code_that_calls_itself_meets_the_depth_limit(tmp_path: Path) -> None:
    knobs = {"allowed_tools": ["python_code"]}
    again = "await python_code(code=code, inputs={'code': code})"
    async with broad_host(TEMPLATE, knobs, tmp_path) as host:
        result = await run(host, f"code = {again!r}\n{again}")
        assert "call_depth_exceeded" in result.error.message
