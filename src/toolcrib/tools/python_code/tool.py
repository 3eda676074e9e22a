"""The function behind the tool `python_code`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.protocols import Workshop
from toolcrib.core.spec import ToolTemplate
from toolcrib.errors import ConfigError, ToolFailure
from toolcrib.tools.python_code.policy import PythonCodePolicy

_ABOUT = {
    "monty": "A subset of Python with parts of the standard library; no files, no network.",
    "process": "Python with its standard library; the sandbox decides what it reaches.",
}
_ARGUMENTS = """

Args:
    code: The code. The value of its last expression is the result.
    inputs: Variables for the code.
"""


def build(policy: PythonCodePolicy, workshop: Workshop) -> Any:
    """The tool; the policy in force for a call is the call's own."""
    if policy.backend == "process":
        workshop.sandbox(policy.sandbox, folder=False)
    elif find_spec("pydantic_monty") is None:
        raise ConfigError(
            "backend: monty needs the package pydantic-monty",
            key="backend",
            cure="Run pip install 'toolcrib[code]', or use backend: process",
        )

    async def python_code(
        code: str, ctx: ToolContext, inputs: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        held = ctx.policy
        if not isinstance(held, PythonCodePolicy):
            raise ToolFailure("the tool has no PythonCodePolicy", reason="guard_failed")
        if held.backend == "process":
            from toolcrib.tools.python_code.process import run_process

            return await run_process(workshop, held, code, inputs or {})
        from toolcrib.tools.python_code.monty import run_monty

        return await run_monty(ctx, held, code, inputs or {})

    python_code.__doc__ = _description(policy)
    return python_code


def _description(policy: PythonCodePolicy) -> str:
    text = "Run Python code and give the value of its last expression and what it printed.\n\n"
    text += _ABOUT[policy.backend]
    if policy.allowed_tools:
        calls = ", ".join(f"{name}(…)" for name in policy.functions())
        text += f" Tools are async functions with keyword arguments: await {calls}."
    return text + _ARGUMENTS


TEMPLATE = ToolTemplate(
    name="python_code",
    policy=PythonCodePolicy,
    constructor=build,
    description="Run code that an agent wrote.",
)
