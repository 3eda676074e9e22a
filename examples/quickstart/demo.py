"""A round of calls at the quick start's host: some run, some are refused, one is asked about.

Runs by itself and needs nothing but Toolcrib:  python examples/quickstart/demo.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from toolcrib import ApprovalDecision, ApprovalRequest, ToolHost, ToolResult
from toolcrib.approvals.rendering import question

HERE = Path(__file__).parent

CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("A call that is allowed", "read_note", {"name": "ideas"}),
    ("Arguments that do not fit", "read_note", {"title": "ideas"}),
    ("A person is asked", "send_note", {"name": "ideas", "to": "ann"}),
    ("The person says no", "send_note", {"name": "shopping", "to": "ben"}),
    ("The policy says no, so nobody is asked", "send_note", {"name": "ideas", "to": "eve"}),
    ("A rule says no", "burn_note", {"name": "ideas"}),
]


async def person(request: ApprovalRequest) -> ApprovalDecision:
    """Stands in for somebody at the terminal, so that the demo ends by itself."""
    print(question(request))
    if request.arguments["to"] == "ann":
        print("  > y        (the demo answers by itself)")
        return ApprovalDecision(answer="allow", by="demo")
    print("  > n        (the demo answers by itself)")
    return ApprovalDecision(answer="deny", note="not before the weekend", by="demo")


def show(result: ToolResult) -> None:
    """How a call ended, and why."""
    if result.error is None:
        print(f"  ok       {result.output}")
        return
    error = result.error
    print(f"  {result.status:<8} {error.reason}: {error.message}")
    if "source" in error.details:
        print(f"           by {error.details['rule']}, {error.details['source']}")


async def main() -> None:
    """Make the calls, then show what the trail has of them."""
    async with ToolHost.from_config(HERE / "toolcrib.yaml", approver=person) as host:
        listed = ", ".join(tool.name for tool in host.tools())
        print(f"The profile assistant lists: {listed}\n")
        for number, (title, tool, arguments) in enumerate(CALLS, 1):
            given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            print(f"{number}. {title}: {tool}({given})")
            show(await host.call(tool, arguments, principal="agent"))
            print()
        why = host.explain("send_note", {"name": "ideas", "to": "eve"}, principal="agent")
        print(f"Why would send_note(to='eve') be refused? Verdict: {why.verdict}")
        for step in why.steps:
            if step.verdict != "abstain":
                words = f"{step.reason or ''} {step.message or step.rule or ''}".strip()
                print(f"  {step.gate:<9} {step.verdict:<6} {words}")
        endings = [e for e in await host.trail() if e.type in ("call.finished", "call.denied")]
        print(f"\nThe trail has {len(endings)} endings:")
        for event in endings:
            status, tool, reason = (event.data[key] for key in ("status", "tool", "reason"))
            print(f"  {status:<7} {tool:<10} {reason or ''}".rstrip())


if __name__ == "__main__":
    asyncio.run(main())
