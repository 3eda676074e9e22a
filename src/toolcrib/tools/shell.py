"""The broad tool `shell`: programs from a list, run in a sandbox, with no shell in between."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Decision
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.protocols import Sandbox, Workshop
from toolcrib.core.sandbox import Completed, SandboxLimits
from toolcrib.core.spec import Effect, ToolTemplate
from toolcrib.core.units import did_you_mean, duration
from toolcrib.errors import ConfigError, Denial, ToolFailure

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where programs that are listed by name are looked for."""
_SHOWN = 2_000


class ShellPolicy(ToolPolicy):
    """Which programs may run, with which arguments, where, and how much they may use."""

    programs: list[str] = []  # noqa: RUF012
    """The programs: names that are looked up in the system's folders, or absolute paths."""
    allowed_arguments: dict[str, list[str]] = {}  # noqa: RUF012
    """For a program named here, every argument has to match one of the globs."""
    denied_arguments: dict[str, list[str]] = {}  # noqa: RUF012
    """For a program named here, no argument may match any of the globs."""
    sandbox: str | None = None
    """The sandbox of that name; without one the strict built-in sandbox. `subprocess` isolates
    nothing and is used only when it is written here."""
    root: str = "."
    """The folder that commands work in, relative to the configuration's folder."""
    write: bool = False
    """Whether commands may change what is in that folder."""
    max_arguments: int = 64
    max_argument_chars: int = 8_192
    max_stdin_chars: int = 1_000_000
    max_output_chars: int = 60_000
    """Of standard output, and of standard error; a command that writes more is killed."""
    timeout: float | str = "30s"
    """After this time the command and all that it started are killed."""

    def __init__(self, **knobs: Any) -> None:
        super().__init__(**knobs)
        for program in self.programs:
            if "/" in program and not program.startswith("/"):
                raise ConfigError(
                    f"programs: {program!r} is a relative path",
                    key="programs",
                    cure="List a name, which is looked up in the system's folders, or a whole path",
                )
        try:
            duration(self.timeout)
        except ValueError as error:
            raise ConfigError(f"timeout: {error}", key="timeout") from None

    def check(self, ctx: ToolContext) -> Decision | None:
        """Refuse programs and arguments that the lists do not allow."""
        program: str = ctx.arguments["program"]
        arguments: Sequence[str] = ctx.arguments.get("arguments") or ()
        if program not in self.programs:
            known = ", ".join(self.programs) or "none"
            return self.deny("program_not_allowed", f"{program!r} is not on the list: {known}")
        if len(arguments) > self.max_arguments:
            text = f"{len(arguments)} arguments, and {self.max_arguments} are allowed"
            return self.deny("argument_not_allowed", text)
        for place, argument in enumerate(arguments):
            why = self._objection(program, argument)
            if why:
                return self.deny("argument_not_allowed", f"argument {place + 1}: {why}")
        stdin: str = ctx.arguments.get("stdin") or ""
        if len(stdin) > self.max_stdin_chars or not _encodable(stdin):
            text = f"stdin has to be text of at most {self.max_stdin_chars} characters"
            return self.deny("argument_not_allowed", text)
        return self._outside(ctx.arguments.get("cwd") or ".")

    def _objection(self, program: str, argument: str) -> str | None:
        if len(argument) > self.max_argument_chars:
            return f"it is longer than {self.max_argument_chars} characters"
        if not _plain(argument):
            return "control characters, NUL and newlines are refused"
        denied = self.denied_arguments.get(program, ())
        for glob in denied:
            if fnmatchcase(argument, glob):
                return f"{argument!r} matches {glob!r}, which is denied for {program}"
        allowed = self.allowed_arguments.get(program)
        if allowed is not None and not any(fnmatchcase(argument, glob) for glob in allowed):
            return f"{argument!r} matches nothing that is allowed for {program}"
        return None

    def _outside(self, cwd: str) -> Decision | None:
        inner = posixpath.normpath(cwd)
        if inner.startswith(("/", "..")) or not _plain(cwd):
            return self.deny("path_outside_root", f"cwd {cwd!r} is outside the tool's folder")
        return None

    def allowed_effects(self) -> frozenset[Effect] | None:
        """What the strict sandbox leaves; what a named one leaves is not known here."""
        if self.sandbox not in (None, "strict"):
            return None
        if self.write:
            return frozenset({"read", "execute", "write", "destructive"})
        return frozenset({"read", "execute"})


def build(policy: ShellPolicy, workshop: Workshop) -> Any:
    """The tool; the policy in force for a call is the call's own."""
    for knob in ("allowed_arguments", "denied_arguments"):
        for program in getattr(policy, knob):
            if program not in policy.programs:
                close = did_you_mean(program, policy.programs)
                raise ConfigError(
                    f"{knob}: {program!r} is not among the programs",
                    key=knob,
                    cure=f"Did you mean {close}?" if close else "Add it to programs, or remove it",
                )
    workshop.sandbox(policy.sandbox)
    with suppress(Denial):  # a call will be told
        workshop.root(policy.root)

    async def shell(
        program: str,
        ctx: ToolContext,
        arguments: Sequence[str] = (),
        stdin: str = "",
        cwd: str = ".",
    ) -> dict[str, Any]:
        """Run a program and give its exit code and what it wrote.

        Arguments are handed over as they are: there is no shell, so nothing is expanded,
        redirected or piped. An exit code other than 0 is a result, not a failure.

        Args:
            program: One of the allowed programs.
            arguments: Its arguments, one string each.
            stdin: Text for its standard input.
            cwd: The folder to run in, relative to the tool's folder.
        """
        held = ctx.policy
        if not isinstance(held, ShellPolicy):
            raise ToolFailure("the tool has no ShellPolicy", reason="guard_failed")
        root = workshop.root(held.root)
        where = _beneath(root, cwd, ctx)
        limits = SandboxLimits(time=duration(held.timeout), output=4 * held.max_output_chars)
        try:
            done = await _sandbox(workshop, held.sandbox).run(
                [program, *arguments],
                cwd=str(where),
                env={"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "HOME": "/nonexistent"},
                limits=limits,
                stdin=stdin.encode(),
                read=() if held.write else (str(root),),
                write=(str(root),) if held.write else (),
            )
        except OSError as error:
            raise ToolFailure(f"{program} cannot be started: {error.strerror or error}") from None
        return _result(program, done, held)

    return shell


def _sandbox(workshop: Workshop, name: str | None) -> Sandbox:
    try:
        return workshop.sandbox(name)
    except ConfigError as error:
        raise ToolFailure(error.message, reason="sandbox_unavailable") from None


def _beneath(root: Path, cwd: str, ctx: ToolContext) -> Path:
    where = (root / cwd).resolve()
    if where != root and root not in where.parents:
        ctx.deny("path_outside_root", f"cwd {cwd!r} leads outside the tool's folder")
    if not where.is_dir():
        raise ToolFailure(f"there is no folder {cwd!r}")
    return where


def _result(program: str, done: Completed, held: ShellPolicy) -> dict[str, Any]:
    stdout = done.stdout.decode(errors="replace")
    stderr = done.stderr.decode(errors="replace")
    most = held.max_output_chars
    begun = {"stdout": stdout[:_SHOWN], "stderr": stderr[:_SHOWN]}
    if done.stopped == "output" or len(stdout) > most or len(stderr) > most:
        text = f"{program} wrote more than {most} characters"
        raise ToolFailure(text, reason="output_too_large", details=begun)
    if done.stopped in ("time", "cpu"):
        text = f"{program} was stopped: its time was over"
        raise ToolFailure(text, reason="timeout", details=begun)
    if done.stopped == "memory":
        text = f"{program} was stopped: it used more memory than its sandbox allows"
        raise ToolFailure(text, reason="sandbox_violation", details=begun)
    return {"exit_code": done.exit_code, "stdout": stdout, "stderr": stderr}


def _plain(text: str) -> bool:
    """Whether an argument is one line of text that a system call can take."""
    return _encodable(text) and not any(
        (char < " " and char != "\t") or "\x7f" <= char <= "\x9f" for char in text
    )


def _encodable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


TEMPLATE = ToolTemplate(
    name="shell",
    policy=ShellPolicy,
    constructor=build,
    description="Run programs from a list in a sandbox.",
)
