"""Where code runs, how much it may use, and which tools it may call."""

from __future__ import annotations

import builtins
import re
from keyword import iskeyword
from typing import Any, Literal

from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Decision
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.spec import Effect
from toolcrib.core.units import duration, size
from toolcrib.errors import ConfigError

Backend = Literal["monty", "process"]
"""monty interprets a subset of Python that has no way out · process is the whole of Python in a
sandbox."""


class PythonCodePolicy(ToolPolicy):
    """The backend of the code, its limits, and the tools it may call."""

    backend: Backend = "monty"
    sandbox: str | None = None
    """For `process`: the sandbox of that name; without one the strict built-in sandbox."""
    show_folder: bool = False
    """For `process`: whether code works in the configuration's folder and can read it. Without
    it code works in an empty folder of its own."""
    python: str = "python3"
    """For `process`: the interpreter, by a name or path that exists in the sandbox."""
    timeout: float | str = "10s"
    """How long the code itself may run; tools that it waits for do not count."""
    memory: int | str = "256MiB"
    max_output_chars: int = 20_000
    """Of what it prints, and of its result as JSON."""
    max_code_chars: int = 50_000
    allowed_tools: list[str] = []  # noqa: RUF012
    """For `monty`: the tools that code may call. Each call is decided and recorded like any
    other, with the caller's own authority."""
    max_calls: int = 100
    """How many calls of tools one piece of code may make."""

    def __init__(self, **knobs: Any) -> None:
        super().__init__(**knobs)
        for name, read in (("timeout", duration), ("memory", size)):
            try:
                read(getattr(self, name))
            except ValueError as error:
                raise ConfigError(f"{name}: {error}", key=name) from None
        if self.allowed_tools and self.backend != "monty":
            raise ConfigError(
                "allowed_tools: code in a process cannot call tools",
                key="allowed_tools",
                cure="Use backend: monty, or leave allowed_tools out",
            )
        self.functions()

    def functions(self) -> dict[str, str]:
        """The tools that code may call, by the names that it calls them."""
        found: dict[str, str] = {}
        for tool in self.allowed_tools:
            name = re.sub(r"\W", "_", tool)
            name = f"_{name}" if name[:1].isdigit() else name
            if name in found or iskeyword(name) or hasattr(builtins, name):
                other = found.get(name)
                taken = f"that is {other!r} already" if other else "that word is Python's own"
                raise ConfigError(
                    f"allowed_tools: {tool!r} would be called {name} in code, and {taken}",
                    key="allowed_tools",
                    cure="Register the tool under another name",
                )
            found[name] = tool
        return found

    def check(self, ctx: ToolContext) -> Decision | None:
        """Refuse code that is too long, and inputs that cannot be variables."""
        code: str = ctx.arguments["code"]
        if len(code) > self.max_code_chars:
            text = f"the code is longer than {self.max_code_chars} characters"
            return self.deny("argument_not_allowed", text)
        if "\0" in code or any("\ud800" <= char <= "\udfff" for char in code):
            return self.deny("argument_not_allowed", "the code is not plain text")
        names: dict[str, Any] = ctx.arguments.get("inputs") or {}
        for name in names:
            if not name.isidentifier() or iskeyword(name) or name.startswith("__"):
                text = f"inputs: {name!r} cannot be the name of a variable"
                return self.deny("argument_not_allowed", text)
        return None

    def allowed_effects(self) -> frozenset[Effect] | None:
        """What code can do by itself; what a named sandbox leaves is not known here."""
        if self.backend == "monty":
            return frozenset({"execute"})
        if self.sandbox in (None, "strict"):
            return frozenset({"read", "execute"})
        return None
