"""What an ending means on every door, also for reasons that are not in the table."""

from __future__ import annotations

from toolcrib import ToolHost, tool
from toolcrib.cli.endings import exit_code
from toolcrib.errors import Denial, ToolFailure
from toolcrib.reasons import reason


def test_a_reason_of_somebodys_own_means_what_the_status_says() -> None:
    assert reason("file_not_found", "error")[1:4] == ("error", 200, 1)
    assert reason("too_early", "denied")[1:4] == ("denied", 403, 3)
    assert reason("too_early")[1:4] == ("denied", 403, 3)
    assert reason("timeout", "denied").status == "error"  # the table knows better


async def test_a_tools_own_failure_is_no_refusal() -> None:
    @tool(effects=["read"])
    async def look(kind: str) -> None:
        """Fail in one of two ways."""
        if kind == "failure":
            raise ToolFailure("there is no such file", reason="file_not_found")
        raise Denial("too_early", "come back at noon")

    async with ToolHost([look]) as host:
        failure = await host.call("look", {"kind": "failure"})
        refusal = await host.call("look", {"kind": "refusal"})
    assert (failure.status, failure.reason, exit_code(failure)) == ("error", "file_not_found", 1)
    assert (refusal.status, refusal.reason, exit_code(refusal)) == ("denied", "too_early", 3)
