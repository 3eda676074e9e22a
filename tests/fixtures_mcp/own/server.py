"""Toolcrib's own tools behind its own MCP door, without any other server.

    python server.py

An embedded host, because one of its tools adds and removes another one while it runs. It prints
its address when it is ready.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from toolcrib import ToolHost, tool
from toolcrib.core.context import ToolContext
from toolcrib.core.link import LINK, UpstreamError
from toolcrib.core.result import ToolResult
from toolcrib.core.serving import HttpSettings, Listen, ServeSettings
from toolcrib.errors import ToolFailure
from toolcrib.protocol.mcp.results import upstream_failure
from toolcrib.transports.serving import serve

sys.path.insert(0, str(Path(__file__).parents[1] / "sdk2"))

import blocks
from schemas import KEYWORDS, REGION

CONFIG = {"version": 1, "profiles": {"open": {"trust": 3, "rules": [{"allow": "*"}]}}}
NAME = {"name": {"type": "string"}}
OK = {"ok": {"type": "boolean"}}
TOOLS: list[Any] = []


def offered(function: Any) -> Any:
    TOOLS.append(tool(effects=["read"])(function))
    return function


async def ask(**requests: Any) -> dict[str, Any]:
    """Put questions to whoever made the call, until all are answered."""
    link = LINK.get()
    if link is None:
        raise ToolFailure("nobody can be asked")
    answers: dict[str, Any] = {}
    while missing := {key: requests[key] for key in requests if key not in answers}:
        answers.update(await link.ask(missing))
    return answers


def filled(answer: dict[str, Any]) -> dict[str, Any]:
    return answer.get("content") or {}


@offered
async def test_simple_text() -> str:
    """Says one sentence."""
    return "This is a simple text response for testing."


@offered
async def test_image_content() -> ToolResult:
    """Shows a picture."""
    return ToolResult(content=[blocks.image()])


@offered
async def test_audio_content() -> ToolResult:
    """Plays a sound."""
    return ToolResult(content=[blocks.audio()])


@offered
async def test_embedded_resource() -> ToolResult:
    """Hands over a resource."""
    words = "This is an embedded resource content."
    return ToolResult(content=[blocks.resource("test://embedded-resource", "text/plain", words)])


@offered
async def test_multiple_content_types() -> ToolResult:
    """Hands over text, a picture and a resource."""
    data = blocks.resource("test://mixed-content-resource", "application/json", '{"value": 123}')
    return ToolResult(content=[blocks.text("Several things:"), blocks.image(), data])


@offered
async def test_error_handling() -> str:
    """Always fails."""
    raise ToolFailure("This tool intentionally returns an error for testing")


@offered
async def test_tool_with_progress(ctx: ToolContext) -> str:
    """Reports how far it is, three times."""
    for fraction in (0.0, 0.5, 1.0):
        ctx.progress(fraction, f"{fraction:.0%}")
        await asyncio.sleep(0.05)
    return "Done, with progress."


@offered
async def test_tool_with_logging(ctx: ToolContext) -> str:
    """Writes three log messages."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.log(words)
        await asyncio.sleep(0.05)
    return "Done, with a log."


@offered
async def test_logging_tool(ctx: ToolContext) -> str:
    """Writes a log message, for whoever wants to read it."""
    ctx.log("A message nobody has to read.")
    return "Logged."


@offered
async def test_missing_capability() -> str:
    """Works only for clients that can sample."""
    link = LINK.get()
    if link is None or "sampling" not in link.capabilities:
        needed = {"requiredCapabilities": {"sampling": {}}}
        words = "This tool needs a client that can sample."
        raise upstream_failure(UpstreamError(-32021, words, needed))
    return "The client can sample."


@offered
async def test_sampling(prompt: str) -> str:
    """Asks the client's model."""
    answer = (await ask(reply=blocks.sampling(prompt)))["reply"]
    return f"LLM response: {answer['content']['text']}"


@offered
async def test_elicitation(message: str) -> str:
    """Asks the person at the client."""
    question = blocks.form(message, response={"type": "string"})
    answer = (await ask(response=question))["response"]
    return f"User response: action={answer['action']}, content={json.dumps(filled(answer))}"


@offered
async def test_streaming_elicitation(ctx: ToolContext) -> str:
    """Reports progress and then asks the person at the client."""
    ctx.progress(0.5)
    return str((await ask(name=blocks.form("What is your name?", **NAME)))["name"])


@offered
async def test_elicitation_sep1034_defaults() -> str:
    """Asks with a default for every kind of field."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return str((await ask(user=blocks.form("Who are you?", **fields)))["user"])


@offered
async def test_elicitation_sep1330_enums() -> str:
    """Asks with every way to write a choice."""
    words = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
    named = {"enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]}
    fields = {
        "untitledSingle": {"type": "string", "enum": words},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", **named},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": words}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return str((await ask(choices=blocks.form("Choose.", **fields)))["choices"])


@offered
async def test_input_required_result_elicitation() -> str:
    """Asks for a name and greets it."""
    answer = (await ask(user_name=blocks.form("What is your name?", **NAME)))["user_name"]
    return f"Hello, {filled(answer).get('name', 'stranger')}!"


@offered
async def test_input_required_result_sampling() -> str:
    """Asks the client's model for a capital."""
    question = blocks.sampling("What is the capital of France?")
    answer = (await ask(capital_question=question))["capital_question"]
    return answer["content"]["text"]


@offered
async def test_input_required_result_list_roots() -> str:
    """Asks which folders the client opens."""
    answer = (await ask(client_roots=blocks.roots()))["client_roots"]
    return f"{len(answer['roots'])} root(s)"


@offered
async def test_input_required_result_request_state() -> str:
    """Asks for a confirmation."""
    answer = (await ask(confirm=blocks.form("Please confirm", **OK)))["confirm"]
    return f"state-ok: {filled(answer).get('ok')}"


@offered
async def test_input_required_result_multiple_inputs() -> str:
    """Asks a person, a model and for folders at once."""
    answers = await ask(
        user_name=blocks.form("What is your name?", **NAME),
        greeting=blocks.sampling("Generate a greeting", 50),
        client_roots=blocks.roots(),
    )
    return f"{len(answers)} answers"


@offered
async def test_input_required_result_multi_round() -> str:
    """Asks twice."""
    first = await ask(step1=blocks.form("Step 1: What is your name?", **NAME))
    colour = {"color": {"type": "string"}}
    second = await ask(step2=blocks.form("Step 2: What is your favorite color?", **colour))
    return f"{filled(first['step1']).get('name')} likes {filled(second['step2']).get('color')}."


@offered
async def test_input_required_result_tampered_state() -> str:
    """Asks with a state that must come back as it was."""
    await ask(confirm=blocks.form("Please confirm", **OK))
    return "The state is whole."


@offered
async def test_input_required_result_capabilities() -> str:
    """Asks only for what the client can do."""
    link = LINK.get()
    able = {} if link is None else link.capabilities
    questions = {}
    if "sampling" in able:
        questions["sample"] = blocks.sampling("Say hello", 50)
    if "elicitation" in able:
        questions["name"] = blocks.form("What is your name?", **NAME)
    return f"asked: {', '.join(await ask(**questions))}"


class Kept:
    """A tool whose schema is written by hand; it gives its arguments back."""

    def __init__(self, name: str, description: str, input_schema: dict[str, Any]) -> None:
        self.name = name
        self.description = description
        self.input_schema = input_schema

    async def execute(self, input: dict[str, Any]) -> dict[str, Any]:
        return input


def changing(host: ToolHost) -> Any:
    async def test_dynamic_tool() -> str:
        """Comes and goes."""
        return "I come and go."

    async def test_trigger_tool_change() -> str:
        """Adds a tool, or removes it when it is there."""
        if not host.unregister("test_dynamic_tool"):
            host.register(tool(effects=["read"])(test_dynamic_tool))
        return "The tools changed."

    return tool(effects=["write"])(test_trigger_tool_change)


async def main() -> None:
    async with ToolHost(TOOLS, config=CONFIG) as host:
        host.register(changing(host))
        host.register(Kept("json_schema_2020_12_tool", "Has many keywords.", KEYWORDS))
        host.register(Kept("test_x_mcp_header", "Has an argument as a header.", REGION))
        listen = (Listen(host="127.0.0.1", port=0),)
        settings = ServeSettings(http=HttpSettings(listen=listen, profile="open"))
        await serve(
            host,
            settings,
            ready=lambda serving: print(f"ready {serving.urls[0]}/mcp", flush=True),
        )


if __name__ == "__main__":
    asyncio.run(main())
