"""What all sandboxes do alike: pass their self-test first, then prepare, start and watch."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from toolcrib.core.protocols import NO_LIMITS
from toolcrib.core.sandbox import Child, Completed, Isolation, SandboxLimits, SelfTest
from toolcrib.errors import ToolFailure
from toolcrib.sandbox import running
from toolcrib.sandbox.limits import stricter
from toolcrib.sandbox.once import Once, shared
from toolcrib.sandbox.process import Process
from toolcrib.sandbox.running import Command
from toolcrib.sandbox.settings import Settings, absolute, refusal
from toolcrib.sandbox.unlimited import unlimited

Own = Callable[[], tuple[Path, ...]]
"""Says what is the host's own now: a configuration that is read later may name more."""
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_REMEMBERED = 1_024


class CommandSandbox:
    """A sandbox in all but how a command is started and how it is tried out."""

    type: str = ""
    isolates: frozenset[Isolation] = frozenset()

    def __init__(
        self, name: str, settings: Settings, own: Own = tuple, guarded: Own = tuple
    ) -> None:
        self.name = name
        self.settings = settings
        self._own = own
        self._guarded = guarded
        self._tested: Once[SelfTest] | None = None
        # What is named is meant as it is now. A command that may write beside such a path could put
        # a link in its place, and be shown what that leads to the next time.
        self._real = {path: os.path.realpath(path) for path in (*settings.read, *settings.write)}

    async def probe(self) -> SelfTest:
        """Try it: whether it can be used here, and what it really isolates."""
        if platform.system() != "Linux":
            return SelfTest(False, f"sandboxes are only for Linux, not for {platform.system()}")
        if self._tested is None:
            self._tested = shared(self.test_key(), self.self_test, _is_available)
        tested = await self._tested.get()
        if not tested.available:
            return tested
        notes = unlimited(self.settings.limits, counted=self.counts_processes())
        message = " ".join((tested.message, *(f"Note: {note.note}." for note in notes)))
        return SelfTest(True, message, (*tested.findings, *notes))

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        limits: SandboxLimits = NO_LIMITS,
        stdin: bytes | None = None,
        read: Sequence[str] = (),
        write: Sequence[str] = (),
        on_output: Callable[[bytes], None] | None = None,
    ) -> Completed:
        """Run a command to its end; see `core.protocols.Sandbox`."""
        await self._ready()
        command = self.command(argv, cwd, env, limits, read, write, input=stdin is not None)
        return await self.run_untested(command, stdin=stdin, on_output=on_output)

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        limits: SandboxLimits = NO_LIMITS,
        read: Sequence[str] = (),
        write: Sequence[str] = (),
    ) -> Child:
        """Start a command that is talked to over its streams."""
        await self._ready()
        command = self.command(argv, cwd, env, limits, read, write, input=True)
        return await running.talk(self.start(command), command.limits)

    async def run_untested(
        self,
        command: Command,
        *,
        stdin: bytes | None = None,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Completed:
        """Run a prepared command without asking for the self-test: the self-test itself does."""
        process = self.start(command)
        return await running.run(process, command.limits, stdin=stdin, on_output=on_output)

    def command(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        limits: SandboxLimits = NO_LIMITS,
        read: Sequence[str] = (),
        write: Sequence[str] = (),
        *,
        input: bool = False,
    ) -> Command:
        """The command with everything that the sandbox adds to it."""
        settings = self.settings
        further = (_existing(read, settings.folder), _existing(write, settings.folder))
        self._still_there((*further[0], *further[1]))
        merged = {name: os.environ[name] for name in settings.environment if name in os.environ}
        merged |= env
        merged.setdefault("PATH", DEFAULT_PATH)
        return Command(
            argv=_checked(argv),
            cwd=absolute(cwd, settings.folder),
            env=_named(merged),
            limits=stricter(settings.limits, limits),
            read=(*settings.read, *further[0]),
            write=(*settings.write, *further[1]),
            hide=settings.hide,
            own=self._own(),
            guarded=self._guarded(),
            input=input,
        )

    def _still_there(self, further: Sequence[str]) -> None:
        """Refuse when a path leads elsewhere than it did; `further` ones count from their first
        use, as long as there is room to remember them."""
        for path in (*self.settings.read, *self.settings.write, *further):
            real = os.path.realpath(path)
            if len(self._real) < _REMEMBERED:
                self._real.setdefault(path, real)
            if self._real.get(path, real) != real:
                raise ToolFailure(
                    f"{path}, a path of the sandbox {self.name}, leads elsewhere than it did when "
                    "it was first used; look who put a link there, then start the host anew",
                    reason="sandbox_unavailable",
                )

    def start(self, command: Command) -> Process:
        """Start a command; `OSError` when it cannot be started."""
        raise NotImplementedError

    def test_key(self) -> object:
        """Sandboxes with an equal key need to be tried only once."""
        return (self.type, self.settings.network, os.geteuid())

    def counts_processes(self) -> bool:
        """Whether processes can be limited without a control group."""
        return False

    async def self_test(self) -> SelfTest:
        """Try the sandbox out."""
        raise NotImplementedError

    async def _ready(self) -> None:
        tested = await self.probe()
        if not tested.available:
            raise ToolFailure(
                f"the sandbox {self.name} ({self.type}) cannot be used here: {tested.message}",
                reason="sandbox_unavailable",
                retryable=True,
            )


def _is_available(tested: SelfTest) -> bool:
    return tested.available


def program(command: Command) -> str:
    """The path of the command's program; FileNotFoundError or PermissionError without one."""
    name = command.argv[0]
    if "/" in name:
        path = absolute(name, command.cwd)
        if not Path(path).exists():
            raise FileNotFoundError(2, "there is no such program", name)
        if not os.access(path, os.X_OK) or Path(path).is_dir():
            raise PermissionError(13, "the program cannot be executed", name)
        return path
    found = shutil.which(name, path=command.env["PATH"])
    if found is None:
        raise FileNotFoundError(2, f"there is no such program on {command.env['PATH']}", name)
    return absolute(found, command.cwd)


def _checked(argv: Sequence[str]) -> tuple[str, ...]:
    if not argv or not argv[0]:
        raise ValueError("a command needs a program: argv is empty")
    if any("\0" in word for word in argv):
        raise ValueError("an argument has a NUL character in it; no program can be given one")
    return tuple(argv)


def _named(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"the environment variable {name!r} cannot be given to a program")
    return env


def _existing(paths: Sequence[str], folder: str) -> tuple[str, ...]:
    found = tuple(absolute(path, folder) for path in paths)
    for path in found:
        refused = refusal(path)
        if refused:
            raise PermissionError(13, refused, path)
        if not Path(path).exists():
            raise FileNotFoundError(2, "a path for the command does not exist", path)
    return found
