"""What a sandbox promises."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcrib.core.protocols import NO_LIMITS, Sandbox
from toolcrib.core.sandbox import Completed, SandboxLimits
from toolcrib.errors import ToolcribError
from toolcrib.testing.contracts.promise import is_text, promise, undefined

_LEAK = "TOOLCRIB_CONTRACT_LEAK"
# A lock is held until the last process that has it is gone, whatever session that one is in.
_DETACH = """
import fcntl, os, pathlib, time
held = open('lock', 'w')
fcntl.flock(held, fcntl.LOCK_EX)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        pathlib.Path('begun').touch()
        time.sleep(60)
    os._exit(0)
os.wait()
while not pathlib.Path('begun').exists():
    time.sleep(0.01)
"""


class SandboxContract:
    """Inherit, and say how to make the sandbox.

    The commands are small Python programs; `python` is the interpreter that runs them inside, and
    `needed` are the paths it has to read for that.
    """

    python: str = sys.executable
    needed: Sequence[str] = ()

    def make(self) -> Sandbox:
        """A new sandbox that can be used on this machine."""
        undefined(self, "make")

    async def run(
        self,
        program: str,
        *arguments: str,
        folder: str | None = None,
        env: Mapping[str, str] | None = None,
        limits: SandboxLimits = NO_LIMITS,
        stdin: bytes | None = None,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Completed:
        """Run a Python program in a new sandbox, in a folder that it may write."""
        argv = [self.python, "-I", "-c", program, *arguments]
        with tempfile.TemporaryDirectory() as fresh:
            return await self.make().run(
                argv,
                cwd=folder or fresh,
                env=dict(env or {}),
                limits=limits,
                stdin=stdin,
                read=self.needed,
                write=[folder or fresh],
                on_output=on_output,
            )

    async def test_it_says_what_it_is(self) -> None:
        sandbox = self.make()
        kinds = sandbox.isolates
        promise(is_text(sandbox.name), "a sandbox has a name", sandbox.name)
        promise(is_text(sandbox.type), "a sandbox has a type", sandbox.type)
        fits = type(kinds) is frozenset and all(map(is_text, kinds))
        promise(fits, "a sandbox says in a frozenset of words what it keeps apart", kinds)

    async def test_its_self_test_holds(self) -> None:
        tested = await self.make().probe()
        promise(tested.available, "a sandbox under test is available", tested.message)
        promise(is_text(tested.message), "a self-test says in a sentence what it found", tested)
        broken = [finding for finding in tested.findings if finding.held is False]
        promise(not broken, "an available sandbox held every probe of its self-test", broken)

    async def test_output_comes_out(self) -> None:
        program = "import sys; print('a\\xfc', end=''); print('b', end='', file=sys.stderr)"
        ended = await self.run(program, env={"PYTHONIOENCODING": "utf-8"})
        promise(ended.exit_code == 0, "a command that ends well has exit code 0", ended)
        promise(ended.stdout in ("aü".encode(), b"a\xfc"), "what a command writes comes out", ended)
        promise(ended.stderr == b"b", "standard error comes out apart", ended)
        promise(ended.stopped == "", "a command that ended by itself was not stopped", ended)

    async def test_output_is_told_as_it_comes(self) -> None:
        told: list[bytes] = []
        program = "import sys\nprint('one', flush=True)\nsys.stdin.read()\nprint('two')"
        ended = await self.run(program, stdin=b"x" * 200_000, on_output=told.append)
        promise(b"".join(told) == ended.stdout, "what is told is what comes out", told)
        promise(ended.stdout == b"one\ntwo\n", "large input does not block output", ended)

    async def test_a_bad_end_comes_out(self) -> None:
        ended = await self.run("import sys; sys.exit(7)")
        promise(ended.exit_code == 7, "a command's exit code comes out", ended)
        ended = await self.run("import os; os.kill(os.getpid(), 15)")
        promise(ended.exit_code == -15, "a signal comes out as its number below zero", ended)

    async def test_input_goes_in(self) -> None:
        ended = await self.run("import sys; print(sys.stdin.read()[::-1], end='')", stdin=b"abc")
        promise(ended.stdout == b"cba", "what is given as stdin goes in", ended.stdout)
        silent = await self.run("import sys; print(len(sys.stdin.read()), end='')")
        promise(silent.stdout == b"0", "without stdin a command reads nothing, at once", silent)

    async def test_no_shell_is_in_between(self) -> None:
        tricky = "$HOME; `id` && \"x\" * | > 'y'"
        ended = await self.run("import sys; print(sys.argv[1], end='')", tricky)
        promise(
            ended.stdout == tricky.encode(),
            "arguments arrive as they are; no shell reads them",
            ended.stdout,
        )

    async def test_a_command_gets_the_environment_it_is_given(self) -> None:
        program = f"import os; print(os.environ.get('GIVEN'), os.environ.get('{_LEAK}'), end='')"
        os.environ[_LEAK] = "secret"
        try:
            ended = await self.run(program, env={"GIVEN": "yes"})
        finally:
            del os.environ[_LEAK]
        said = ended.stdout
        promise(said.startswith(b"yes"), "a command gets the environment it is given", said)
        promise(b"secret" not in said, "the host's own environment stays outside", said)

    async def test_a_command_works_in_its_folder(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ended = await self.run("open('made', 'w').write('x')", folder=folder)
            promise(ended.exit_code == 0, "a command may write where it is allowed to", ended)
            promise((Path(folder) / "made").exists(), "a command works in the folder it is given")

    async def test_a_command_that_does_not_exist_is_no_success(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            try:
                ended = await self.make().run(
                    ["no-such-command-anywhere"], cwd=folder, env={}, write=[folder]
                )
            except (ToolcribError, OSError):
                return
        promise(ended.exit_code != 0, "a command that does not exist is no success", ended)

    async def test_endless_output_is_stopped(self) -> None:
        program = "import sys\nwhile True: sys.stdout.write('x' * 4096)"
        ended = await self.run(program, limits=SandboxLimits(output=100_000, time=30))
        promise(ended.stopped == "output", "a command that writes too much is stopped", ended)
        kept = len(ended.stdout)
        promise(kept == 100_000, "output is kept up to its limit, to the byte", kept)

    async def test_time_over_ends_all_of_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ended = await self.run(
                _DETACH + "time.sleep(60)", folder=folder, limits=SandboxLimits(time=1.5)
            )
            promise(ended.stopped == "time", "a command is stopped when its time is over", ended)
            promise(_is_gone(folder), "what a stopped command started is gone with it")

    async def test_nothing_is_left_behind(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ended = await self.run(_DETACH, folder=folder)
            promise(ended.exit_code == 0, "a command may leave processes behind", ended)
            promise(_is_gone(folder), "what a command left behind is ended with it")

    async def test_a_cancelled_command_is_gone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            task = asyncio.ensure_future(self.run(_DETACH + "time.sleep(60)", folder=folder))
            await _until(Path(folder, "begun"), task)
            task.cancel()
            done, _ = await asyncio.wait({task}, timeout=20)
            promise(done and task.cancelled(), "a sandbox lets cancellation through")
            promise(_is_gone(folder), "a cancelled command is stopped, with all it started")

    async def test_a_spawned_command_is_talked_to(self) -> None:
        program = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"
        with tempfile.TemporaryDirectory() as folder:
            child = await self.make().spawn(
                [self.python, "-I", "-c", program],
                cwd=folder,
                env={},
                read=self.needed,
                write=[folder],
            )
            for word in (b"one\n", b"two\n"):
                child.stdin.write(word)
                await child.stdin.drain()
                answer = await child.stdout.readline()
                promise(answer == word.upper(), "a spawned command answers line by line", answer)
            child.stdin.close()
            code = await child.wait()
            promise(code == 0, "a spawned command ends when its input does", code)
            await child.kill()

    async def test_a_spawned_command_can_be_killed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            child = await self.make().spawn(
                [self.python, "-I", "-c", _DETACH + "time.sleep(60)"],
                cwd=folder,
                env={},
                read=self.needed,
                write=[folder],
            )
            ended = asyncio.ensure_future(child.wait())
            await _until(Path(folder, "begun"), ended)
            await child.kill()
            promise(_is_gone(folder), "a killed command is gone, with all it started")
            code = await ended
            promise(code != 0, "a killed command did not end well", code)


def _is_gone(folder: str) -> bool:
    with Path(folder, "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


async def _until(path: Path, running: asyncio.Future[Any]) -> None:
    for _ in range(2000):
        if running.done() or os.access(path, os.F_OK):
            break
        await asyncio.sleep(0.01)
    promise(not running.done(), "a long command runs until it is ended")
