"""Every sandbox keeps the promises of sandboxes, and the suite catches those that do not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from needs import needs
from toolcrib.core.sandbox import Completed, SandboxLimits
from toolcrib.sandbox import landlock
from toolcrib.sandbox.build import FACTORIES
from toolcrib.sandbox.confine import abi
from toolcrib.sandbox.selftest import interpreter
from toolcrib.testing import SandboxContract

PYTHON, NEEDED = interpreter()


class Room:
    """The part of a workshop that a sandbox looks at."""

    folder = Path("/")
    hidden = ()
    guarded = ()


class Promises(SandboxContract):
    python = PYTHON
    needed = NEEDED
    type = ""

    def make(self) -> Any:
        return FACTORIES[self.type]("contract", {}, Room())  # type: ignore[arg-type]


class TestSubprocess(Promises):
    type = "subprocess"


class TestBubblewrap(Promises):
    type = "bubblewrap"

    def make(self) -> Any:
        needs("bwrap", "bubblewrap")
        return super().make()


@pytest.mark.skipif(abi() < landlock.NEEDED, reason="needs Landlock of Linux 6.12")
class TestLandlock(Promises):
    type = "landlock"


class Honest:
    """A sandbox that hands everything on to a real one; the broken ones below do less."""

    def __init__(self) -> None:
        self.real: Any = FACTORIES["subprocess"]("broken", {}, Room())  # type: ignore[arg-type]
        self.name, self.type = self.real.name, self.real.type
        self.isolates: Any = self.real.isolates
        self.probe: Any = self.real.probe
        self.spawn: Any = self.real.spawn

    async def run(self, argv: Sequence[str], **how: Any) -> Completed:
        return await self.real.run(argv, **how)


class Leaking(Honest):
    async def run(self, argv: Sequence[str], *, env: Mapping[str, str], **how: Any) -> Completed:
        return await super().run(argv, env={**os.environ, **env}, **how)


class ThroughShell(Honest):
    async def run(self, argv: Sequence[str], **how: Any) -> Completed:
        line = " ".join(f'"${index}"' for index in range(4)) + " " + argv[-1]
        return await super().run(["/bin/sh", "-c", line, *argv[:4]], **how)


class Flattering(Honest):
    async def run(self, argv: Sequence[str], **how: Any) -> Completed:
        try:
            return replace(await super().run(argv, **how), exit_code=0)
        except OSError:
            return Completed(exit_code=0)


class Elsewhere(Honest):
    def __init__(self) -> None:
        super().__init__()
        self.isolates = ("everything",)

    async def run(self, argv: Sequence[str], **how: Any) -> Completed:
        return await super().run(argv, **{**how, "cwd": "/"})


class Deaf(Honest):
    async def run(self, argv: Sequence[str], **how: Any) -> Completed:
        return await super().run(argv, **{**how, "stdin": None})


class Mute(Honest):
    async def run(self, argv: Sequence[str], **how: Any) -> Completed:
        return await super().run(argv, **{**how, "on_output": None})


class Generous(Honest):
    """Gives twice the output that was allowed, and forgets who stopped the command."""

    async def run(self, argv: Sequence[str], *, limits: SandboxLimits, **how: Any) -> Completed:
        ended = await super().run(argv, limits=replace(limits, output=200_000), **how)
        return replace(ended, stopped="")


class Forgetful(Honest):
    """Ends the command and lets what it started go on."""

    async def run(
        self, argv: Sequence[str], *, cwd: str, limits: SandboxLimits, **how: Any
    ) -> Completed:
        process = await asyncio.create_subprocess_exec(*argv, cwd=cwd, start_new_session=True)
        strays.append(cwd)
        stopped = ""
        try:
            await asyncio.wait_for(process.wait(), limits.time)
        except TimeoutError:
            stopped = "time"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Completed(exit_code=process.returncode or 0, stopped=stopped)  # type: ignore[arg-type]

    def end_strays(self) -> None:
        for folder in strays:
            for entry in Path("/proc").iterdir():
                try:
                    if entry.name.isdigit() and str((entry / "cwd").readlink()).startswith(folder):
                        os.kill(int(entry.name), 9)
                except OSError:
                    continue
        strays.clear()


strays: list[str] = []


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Leaking, "test_a_command_gets_the_environment_it_is_given"),
        (ThroughShell, "test_no_shell_is_in_between"),
        (Flattering, "test_a_bad_end_comes_out"),
        (Flattering, "test_a_command_that_does_not_exist_is_no_success"),
        (Elsewhere, "test_it_says_what_it_is"),
        (Elsewhere, "test_a_command_works_in_its_folder"),
        (Deaf, "test_input_goes_in"),
        (Mute, "test_output_is_told_as_it_comes"),
        (Generous, "test_endless_output_is_stopped"),
        (Forgetful, "test_time_over_ends_all_of_it"),
        (Forgetful, "test_nothing_is_left_behind"),
        (Forgetful, "test_a_cancelled_command_is_gone"),
    ],
)
async def test_broken_sandboxes_are_caught(broken: Any, test: str) -> None:
    sandbox = broken()

    class Suite(Promises):
        def make(self) -> Any:
            return sandbox

    try:
        with pytest.raises(AssertionError, match="broken promise"):
            await getattr(Suite(), test)()
    finally:
        if isinstance(sandbox, Forgetful):
            sandbox.end_strays()
