"""Commands as tools: an argv template, no shell, in a sandbox."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolcrib.core.context import ToolContext
from toolcrib.core.entry import Execute
from toolcrib.core.protocols import Sandbox, Workshop
from toolcrib.core.sandbox import Completed
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial, SpecError, ToolFailure
from toolcrib.executors.argv import Element, Rules, fill, names_in
from toolcrib.executors.output import check_ended, line_reporter, read_output, tail
from toolcrib.executors.shellconfig import ShellConfig, read_config

SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for unless the tool's own environment has a PATH."""


class ShellExecutor:
    """Runs commands. What a call fills in is one argument each, and refused where it could be
    taken for something else."""

    kind = "shell"

    def __init__(self, workshop: Workshop | None = None) -> None:
        self._workshop = workshop

    def bind(self, spec: ToolSpec, workshop: Workshop) -> Execute:
        """Read the command once; raises `SpecError` with the key and the cure."""
        config = read_config(spec)
        sandbox = workshop.sandbox(config.sandbox or "subprocess")
        return _Command(spec.name, config, sandbox, workshop)

    async def execute(self, ctx: ToolContext) -> Any:
        """Run a call of a spec that was not bound before."""
        if self._workshop is None or ctx.spec is None:
            raise SpecError(
                "a shell tool has to be bound first", cure="Give ShellExecutor a workshop"
            )
        return await self.bind(ctx.spec, self._workshop)(ctx)

    async def aclose(self) -> None:
        """Nothing is held open: each call ends what it started."""


class _Command:
    """One shell tool."""

    def __init__(
        self, name: str, config: ShellConfig, sandbox: Sandbox, workshop: Workshop
    ) -> None:
        self.name = name
        self.config = config
        self.sandbox = sandbox
        self.folder = workshop.folder
        self.cwd = None if config.cwd is None else str(workshop.file(config.cwd))
        self.fixed = {"PATH": SEARCHED, "LANG": "C.UTF-8", **_copied(config.environment)}
        for variable, element in config.env.items():
            if not names_in([element]):
                self.fixed[variable] = fill(element, {}, Rules())
        self.variable = {n: e for n, e in config.env.items() if names_in([e])}
        self.program = self._find()

    def check(self, ctx: ToolContext) -> None:
        """Refuse what can be no part of a command line; nothing is started for that."""
        self.config.template.render(ctx.arguments)
        _filled(self.variable, ctx.arguments, self.config.template.rules)

    async def __call__(self, ctx: ToolContext) -> Any:
        config = self.config
        arguments = ctx.arguments
        rest = config.template.render(arguments)
        env = {**self.fixed, **_filled(self.variable, arguments, config.template.rules)}
        stdin = None if config.stdin is None else _input(arguments.get(config.stdin))
        completed = await self._run(ctx, rest, env, stdin)
        check_ended(self.name, completed, config.exit_codes)
        if completed.stderr:
            ctx.log(tail(completed.stderr), stream="stderr")
        output = read_output(self.name, completed.stdout, config.output)
        if len(config.exit_codes) > 1:
            return ctx.ok(output, exit_code=completed.exit_code)
        return output

    async def _run(
        self, ctx: ToolContext, rest: list[str], env: Mapping[str, str], stdin: bytes | None
    ) -> Completed:
        cwd = self._folder(ctx)
        program = self.program or self._find()
        if program is None:
            raise ToolFailure(
                f"{self.name} cannot run: the program {self.config.template.program!r} is not in "
                f"{self.fixed['PATH']}",
                reason="tool_unavailable",
            )
        try:
            return await self.sandbox.run(
                [program, *rest],
                cwd=cwd,
                env=env,
                limits=self.config.limits,
                stdin=stdin,
                on_output=line_reporter(ctx) if self.config.progress else None,
            )
        except OSError as error:
            if error.errno == errno.E2BIG:
                raise Denial(
                    "argument_not_allowed", "the arguments are too long for one command"
                ) from None
            raise ToolFailure(
                f"{self.name} cannot run: {program}: {error.strerror or type(error).__name__}",
                reason="tool_unavailable",
            ) from error

    def _folder(self, ctx: ToolContext) -> str:
        cwd = self.cwd or (ctx.session.cwd if ctx.session is not None else "") or str(self.folder)
        if not Path(cwd).is_dir():  # else the missing folder reads like a missing program
            raise ToolFailure(f"{self.name} cannot run: there is no folder {cwd}")
        return cwd

    def _find(self) -> str | None:
        """Where the program is; in a container only the container knows."""
        program = self.config.template.program
        if self.sandbox.type == "container":
            return program
        if "/" in program:
            return str(Path(self.folder, program))
        return shutil.which(program, path=self.fixed["PATH"])


def _copied(names: tuple[str, ...]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def _filled(
    elements: Mapping[str, Element], arguments: Mapping[str, Any], rules: Rules
) -> dict[str, str]:
    """The variables whose arguments are all given."""
    return {
        variable: fill(element, arguments, rules)
        for variable, element in elements.items()
        if all(arguments.get(name) is not None for name in names_in([element]))
    }


def _input(value: Any) -> bytes | None:
    """Standard input: text as it is, anything else as JSON."""
    if value is None:
        return None
    return (
        value.encode("utf-8", "replace") if isinstance(value, str) else msgspec.json.encode(value)
    )
