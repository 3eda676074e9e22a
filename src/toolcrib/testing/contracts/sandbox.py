"""What a sandbox promises."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib.core.protocols import Sandbox
from toolcrib.errors import ToolcribError
from toolcrib.testing.contracts.promise import is_text, promise, undefined

_LEAK = "TOOLCRIB_CONTRACT_LEAK"


class SandboxContract:
    """Inherit, and say how to make the sandbox and how to read what `run` gives.

    The commands are small Python programs; `python` is the interpreter that runs them inside.
    """

    python: str = sys.executable

    def make(self) -> Sandbox:
        """A new sandbox, in which Python starts and the current folder can be written."""
        undefined(self, "make")

    def exit_code(self, completed: Any) -> int:
        """How the command ended; 0 is well."""
        return completed.exit_code

    def stdout(self, completed: Any) -> bytes:
        """What the command wrote to its standard output."""
        return completed.stdout

    async def run(
        self,
        program: str,
        *arguments: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
    ) -> Any:
        """Run a Python program in a new sandbox."""
        argv = [self.python, "-I", "-c", program, *arguments]
        with tempfile.TemporaryDirectory() as folder:
            return await self.make().run(
                argv, limits={}, cwd=cwd or folder, env=dict(env or {}), stdin=stdin
            )

    async def test_it_says_what_it_is(self) -> None:
        sandbox = self.make()
        kinds = sandbox.isolates
        promise(is_text(sandbox.name), "a sandbox has a name", sandbox.name)
        fits = type(kinds) is frozenset and all(map(is_text, kinds))
        promise(fits, "a sandbox says in a frozenset of words what it keeps apart", kinds)

    async def test_output_comes_out(self) -> None:
        ended = await self.run("print('a\\xfc', end='')", env={"PYTHONIOENCODING": "utf-8"})
        promise(self.exit_code(ended) == 0, "a command that ends well has exit code 0", ended)
        said = self.stdout(ended)
        promise(said in ("aü".encode(), b"a\xfc"), "what a command writes comes out", said)

    async def test_a_bad_end_comes_out(self) -> None:
        ended = await self.run("import sys; sys.exit(7)")
        promise(self.exit_code(ended) == 7, "a command's exit code comes out", ended)

    async def test_input_goes_in(self) -> None:
        ended = await self.run("import sys; print(sys.stdin.read()[::-1], end='')", stdin=b"abc")
        promise(self.stdout(ended) == b"cba", "what is given as stdin goes in", self.stdout(ended))
        silent = await self.run("import sys; print(len(sys.stdin.read()), end='')")
        promise(self.stdout(silent) == b"0", "without stdin a command reads nothing, at once")

    async def test_no_shell_is_in_between(self) -> None:
        tricky = "$HOME; `id` && \"x\" * | > 'y'"
        ended = await self.run("import sys; print(sys.argv[1], end='')", tricky)
        promise(
            self.stdout(ended) == tricky.encode(),
            "arguments arrive as they are; no shell reads them",
            self.stdout(ended),
        )

    async def test_a_command_gets_the_environment_it_is_given(self) -> None:
        program = f"import os; print(os.environ.get('GIVEN'), os.environ.get('{_LEAK}'), end='')"
        os.environ[_LEAK] = "secret"
        try:
            ended = await self.run(program, env={"GIVEN": "yes"})
        finally:
            del os.environ[_LEAK]
        said = self.stdout(ended)
        promise(said.startswith(b"yes"), "a command gets the environment it is given", said)
        promise(b"secret" not in said, "the host's own environment stays outside", said)

    async def test_a_command_works_in_its_folder(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ended = await self.run("open('made', 'w').write('x')", cwd=folder)
            promise(self.exit_code(ended) == 0, "a command may write in its folder", ended)
            promise((Path(folder) / "made").exists(), "a command works in the folder it is given")

    async def test_a_command_that_does_not_exist_is_no_success(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            try:
                ended = await self.make().run(
                    ["no-such-command-anywhere"], limits={}, cwd=folder, env={}
                )
            except (ToolcribError, OSError):
                return
        promise(self.exit_code(ended) != 0, "a command that does not exist is no success", ended)

    async def test_a_cancelled_command_is_gone(self) -> None:
        program = (
            "import pathlib, time\n"
            "pathlib.Path('begun').touch()\n"
            "time.sleep(0.5)\n"
            "pathlib.Path('survived').touch()\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            task = asyncio.ensure_future(self.run(program, cwd=folder))
            for _ in range(500):
                if (Path(folder) / "begun").exists() or task.done():
                    break
                await asyncio.sleep(0.01)
            promise(not task.done(), "a long command runs until it is cancelled")
            task.cancel()
            done, _ = await asyncio.wait({task}, timeout=5)
            promise(done and task.cancelled(), "a sandbox lets cancellation through")
            await asyncio.sleep(0.6)
            gone = not (Path(folder) / "survived").exists()
            promise(gone, "a cancelled command is stopped and does nothing more")
