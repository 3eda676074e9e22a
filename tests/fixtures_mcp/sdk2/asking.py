"""The tools that ask the client for something before they answer, in either era."""

from __future__ import annotations

import json
from typing import Any

from blocks import form, roots, sampling, text
from call import Call
from tools import content, tool

NAME = {"name": {"type": "string"}}
OK = {"ok": {"type": "boolean"}}


def _words(**properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            key: {"type": "string", "description": why} for key, why in properties.items()
        },
        "required": list(properties),
    }


def _filled(answer: dict[str, Any]) -> dict[str, Any]:
    return answer.get("content") or {} if answer.get("action") == "accept" else {}


def _told(answer: dict[str, Any]) -> dict[str, Any]:
    filled = json.dumps(_filled(answer))
    return content(text(f"Elicitation completed: action={answer['action']}, content={filled}"))


@tool("test_sampling", _words(prompt="What to ask the model"))
async def sample(call: Call) -> dict[str, Any]:
    """Asks the client's model."""
    answers = await call.ask({"reply": sampling(call.arguments["prompt"])})
    return content(text(f"LLM response: {answers['reply']['content']['text']}"))


@tool("test_elicitation", _words(message="What to ask the person"))
async def elicit(call: Call) -> dict[str, Any]:
    """Asks the person at the client."""
    question = form(call.arguments["message"], response={"type": "string"})
    answer = (await call.ask({"response": question}))["response"]
    filled = json.dumps(_filled(answer))
    return content(text(f"User response: action={answer['action']}, content={filled}"))


@tool("test_streaming_elicitation")
async def streaming(call: Call) -> dict[str, Any]:
    """Reports progress and then asks the person at the client."""
    await call.progress(1, 2)
    return _told((await call.ask({"name": form("What is your name?", **NAME)}))["name"])


@tool("test_elicitation_sep1034_defaults")
async def defaults(call: Call) -> dict[str, Any]:
    """Asks with a default for every kind of field."""
    fields: dict[str, Any] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return _told((await call.ask({"user": form("Who are you?", **fields)}))["user"])


@tool("test_elicitation_sep1330_enums")
async def enums(call: Call) -> dict[str, Any]:
    """Asks with every way to write a choice."""
    words = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
    fields: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": words},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": words}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return _told((await call.ask({"choices": form("Choose.", **fields)}))["choices"])


@tool("test_input_required_result_elicitation")
async def greet(call: Call) -> dict[str, Any]:
    """Asks for a name and greets it."""
    answer = (await call.ask({"user_name": form("What is your name?", **NAME)}))["user_name"]
    return content(text(f"Hello, {_filled(answer).get('name', 'stranger')}!"))


@tool("test_input_required_result_sampling")
async def capital(call: Call) -> dict[str, Any]:
    """Asks the client's model for a capital."""
    question = sampling("What is the capital of France?")
    answer = (await call.ask({"capital_question": question}))["capital_question"]
    return content(text(f"The model said: {answer['content']['text']}"))


@tool("test_input_required_result_list_roots")
async def count_roots(call: Call) -> dict[str, Any]:
    """Asks which folders the client opens."""
    answer = (await call.ask({"client_roots": roots()}))["client_roots"]
    return content(text(f"{len(answer['roots'])} root(s)"))


@tool("test_input_required_result_request_state")
async def confirm(call: Call) -> dict[str, Any]:
    """Asks for a confirmation and knows its own state again."""
    answer = (await call.ask({"confirm": form("Please confirm", **OK)}))["confirm"]
    return content(text(f"state-ok: {_filled(answer).get('ok')}"))


@tool("test_input_required_result_multiple_inputs")
async def several(call: Call) -> dict[str, Any]:
    """Asks a person, a model and for folders at once."""
    answers = await call.ask(
        {
            "user_name": form("What is your name?", **NAME),
            "greeting": sampling("Generate a greeting", 50),
            "client_roots": roots(),
        }
    )
    return content(text(f"{len(answers)} answers"))


@tool("test_input_required_result_multi_round")
async def rounds(call: Call) -> dict[str, Any]:
    """Asks twice, the second time knowing the first answer."""
    first = await call.ask({"step1": form("Step 1: What is your name?", **NAME)})
    colour = {"color": {"type": "string"}}
    second = await call.ask({"step2": form("Step 2: What is your favorite color?", **colour)})
    name, liked = _filled(first["step1"]).get("name"), _filled(second["step2"]).get("color")
    return content(text(f"{name} likes {liked}."))


@tool("test_input_required_result_tampered_state")
async def tampered(call: Call) -> dict[str, Any]:
    """Asks with a state that must come back as it was."""
    await call.ask({"confirm": form("Please confirm", **OK)})
    return content(text("The state is whole."))


@tool("test_input_required_result_capabilities")
async def capable(call: Call) -> dict[str, Any]:
    """Asks only for what the client can do."""
    questions: dict[str, Any] = {}
    if call.can("sampling"):
        questions["sample"] = sampling("Say hello", 50)
    if call.can("elicitation"):
        questions["name"] = form("What is your name?", **NAME)
    answers = await call.ask(questions)
    return content(text(f"asked: {', '.join(answers)}"))
