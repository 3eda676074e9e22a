"""A command in the strict sandbox (bubblewrap, a system call filter, limits, the host's own folder
hidden), against a bare spawn of the same one."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from worker import quickest, serve

from toolcrib.host.workshop import Sandboxes, Workshop

COUNT = 15
PROGRAM = "/bin/true"


async def bare() -> None:
    child = await asyncio.create_subprocess_exec(
        PROGRAM,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    await child.communicate()
    if child.returncode:
        raise SystemExit(f"{PROGRAM} ended with {child.returncode}")


async def measure(folder: Path) -> None:
    sandbox = Workshop(Sandboxes(), folder).sandbox()
    tested = await sandbox.probe()
    if not tested.available:
        raise SystemExit(tested.message)

    async def inside() -> None:
        ended = await sandbox.run([PROGRAM], cwd=str(folder), env={})
        if ended.exit_code:
            raise SystemExit(f"{PROGRAM} ended with {ended.exit_code}: {ended.stderr!r}")

    async def round_() -> dict[str, float]:
        return await quickest({"bare": bare, "inside": inside}, COUNT)

    await serve(round_)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".toolcrib").mkdir()
        asyncio.run(measure(folder))


if __name__ == "__main__":
    main()
