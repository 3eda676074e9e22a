"""How a call ended and why, in words."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolcrib.cli.output import put, put_lines, say
from toolcrib.cli.samples import sample_arguments, typed
from toolcrib.core.context import LOCAL
from toolcrib.core.decision import Explanation, Step
from toolcrib.core.result import Failure, ToolResult
from toolcrib.core.spec import ToolSpec
from toolcrib.reasons import reason

_TEXT = 38
_LETTERS = 400
"""Characters of base64 that are shown; of more only how many there are."""
_VERDICTS = {"allow": "allowed", "ask": "a person is asked", "deny": "denied"}
_DOWN = frozenset({"tool_unavailable", "sandbox_unavailable"})


def exit_code(result: ToolResult) -> int:
    """The exit code of an ending; a call that still waits for a person is about approval."""
    failure = result.error
    if failure is None:
        return 0
    return 4 if still_waits(failure) else reason(failure.reason, result.status).exit


def still_waits(failure: Failure) -> bool:
    """Whether the caller left while a person had not answered yet."""
    return failure.reason == "cancelled" and "request" in failure.details


def show_output(result: ToolResult) -> None:
    """What the tool returned, on standard output."""
    if result.content is not None and result.output is None:
        for block in result.content:
            text = block.get("text")
            put(text if isinstance(text, str) else json.dumps(_brief(block)), exact=True)
    elif isinstance(result.output, str):
        put(result.output, exact=True)
    elif result.output is not None:
        flat = not isinstance(result.output, dict | list)
        put(json.dumps(result.output, ensure_ascii=False, indent=None if flat else 2))
    else:
        say("Finished with no output.")
    if result.truncated is not None:
        cut = result.truncated
        say(f"The output was cut: {cut.kept} of {cut.original} characters are shown.")
    note = result.metadata.get("approval")
    if isinstance(note, dict):
        told = cast("dict[str, Any]", note)
        if told.get("note"):
            say(f"{told.get('by') or 'The approver'} says: {told['note']}")
    if result.metadata.get("arguments_edited"):
        say(f"The approver changed the arguments: {json.dumps(result.metadata.get('arguments'))}")


def _brief(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block of content without pictures and sounds, which nobody reads as letters."""
    made = dict(block)
    resource: Any = made.get("resource")
    if isinstance(resource, dict):
        made["resource"] = _brief(cast("dict[str, Any]", resource))
    for name in ("data", "blob"):
        value = made.get(name)
        if isinstance(value, str) and len(value) > _LETTERS:
            made[name] = f"{len(value)} characters of base64; --json shows them"
    return made


def show_failure(
    name: str,
    failure: Failure,
    *,
    spec: ToolSpec | None,
    given: Mapping[str, Any],
    words: Sequence[str],
    status: str,
) -> None:
    """Why there is no output, on standard error. `words` are what was typed after the tool."""
    code = failure.reason
    if code == "unknown_tool":
        say(unknown(name, failure.message))
        return
    if code == "invalid_arguments":
        _show_problems(name, failure, spec, given)
        return
    if still_waits(failure):
        say(f"{name}: {failure.message}")
        say("  once it is allowed, the same call runs")
        return
    say(f"{name}: {'denied' if status == 'denied' else 'failed'} ({code})")
    say(f"  {failure.message}")
    if failure.still_running:
        say("  It could not be stopped and may still have an effect.")
    if failure.retry_after is not None:
        say(f"  try again in {failure.retry_after:.0f} s")
    if code == "unexpected_failure":
        say("  to see where    toolcrib --debug call …")
    if status == "denied":
        _show_decider(name, failure.details, words)


def unknown(name: str, message: str) -> str:
    """`ad: no such tool (unknown_tool). Did you mean add?`"""
    words = message.removeprefix(f"{name}: ")
    marked = words.replace("no such tool", "no such tool (unknown_tool)", 1)
    return f"{name}: {marked}"


def _show_problems(
    name: str, failure: Failure, spec: ToolSpec | None, given: Mapping[str, Any]
) -> None:
    problems: list[dict[str, str]] = failure.details.get("problems") or []
    say(f"{name}: the arguments do not fit (invalid_arguments)")
    width = max((len(p["path"]) for p in problems), default=0)
    for problem in problems:
        path = problem["path"]
        say(f"  {path.ljust(width)}   {problem['message']}" if path else f"  {problem['message']}")
    if spec is not None:
        wrong = {p["path"].partition(".")[0].partition("[")[0] for p in problems}
        example = typed(sample_arguments(spec.input_schema, given, wrong), spec.input_schema)
        say(f"  try: {' '.join(['toolcrib call', shlex.quote(name), *example])}")


def _show_decider(name: str, details: Mapping[str, Any], words: Sequence[str]) -> None:
    gate, rule = details.get("gate"), details.get("rule")
    decider = f"{gate}, rule {rule}" if gate == "profile" and rule else rule or gate
    if decider:
        source = f"   {details['source']}" if details.get("source") else ""
        say(f"  decided by   {decider}{source}")
    said = " ".join(shlex.quote(word) for word in (name, *words))
    say(f"  ask why      toolcrib explain {said}")


def show_explanation(said: Explanation) -> None:
    """Each gate's answer, and the verdict, on standard output."""
    who = "you" if said.principal == LOCAL.name else said.principal
    profile = "no profile" if said.profile is None else f"profile {said.profile}"
    lines: list[list[tuple[str, bool]]] = [[(f"{said.tool}   for {who}, {profile}", False)], []]
    width = max(11, *(len(step.gate) for step in said.steps)) if said.steps else 11
    shown = [_step(step) for step in said.steps]
    for step, (verdict, text) in zip(said.steps, shown, strict=True):
        line = [(f"  {step.gate.ljust(width)} ", False)]
        if verdict:
            line += [(verdict, True), (" " * (8 - len(verdict)), False)]
        source = f"{' ' * max(0, _TEXT - len(text))}   {step.source}" if step.source else ""
        lines.append([*line, (text + source, False)])
    if said.reason in _DOWN:
        end = "Verdict: cannot run now. Nothing was run."
    else:
        verdict = _VERDICTS[said.verdict]
        end = f"Verdict: {verdict}. deny beats ask beats allow. Nothing was run."
    put_lines([*lines, [], [(end, False)]])


def _step(step: Step) -> tuple[str, str]:
    if step.verdict == "abstain":
        return "", step.message or "no opinion"
    verdict = "DENY" if step.verdict == "deny" else step.verdict
    words = step.message or step.rule or ""
    if step.reason is not None:
        words = f"{step.reason}: {words}" if words else step.reason
    return verdict, words
