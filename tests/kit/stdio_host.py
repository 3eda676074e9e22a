"""A host at the stdio door, run as a process of its own: `python stdio_host.py [settings]`."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import subprocess
import sys

from toolcrib.transports.pipes import claim

claim()

from toolcrib import ToolContext, ToolHost, tool  # noqa: E402
from toolcrib.core.serving import ServeSettings, StdioSettings  # noqa: E402
from toolcrib.core.settings import HostConfig, HostSettings  # noqa: E402
from toolcrib.transports.serving import serve  # noqa: E402

print("printed while loading")


@tool(effects=["read"])
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effects=["read"])
async def echo(text: str) -> str:
    """Give it back."""
    return text


@tool(effects=["read"])
async def wait(seconds: float) -> str:
    """Wait."""
    print("waiting", file=sys.stderr, flush=True)
    await asyncio.sleep(seconds)
    return "waited"


@tool(effects=["read"])
async def big(size: int) -> str:
    """A long text."""
    return "x" * size


@tool(effects=["read"])
def shout() -> str:
    """Write to standard output in every way there is."""
    print("shout: print")
    sys.stdout.write("shout: write\n")
    os.write(1, b"shout: descriptor\n")
    libc = ctypes.CDLL(None)
    libc.puts(b"shout: libc")
    libc.fflush(None)
    subprocess.run(["sh", "-c", "echo shout: child; cat"], check=True)
    return "done"


@tool(effects=["read"])
async def shout_later() -> str:
    """The same by a child that the loop looks after."""
    await (await asyncio.create_subprocess_exec("echo", "shout: async child")).wait()
    return "done"


@tool(effects=["read"])
def listen() -> str:
    """Try to read what the client sends."""
    inner = "import os; print(os.read(0, 100))"
    child = subprocess.run([sys.executable, "-c", inner], capture_output=True, check=True)
    return f"{os.read(0, 100)!r} {child.stdout.decode().strip()}"


@tool(effects=["read"])
def inherited() -> list[str]:
    """The descriptors that a child process gets."""
    inner = "import os, json; print(json.dumps([os.readlink(f'/proc/self/fd/{n}') "
    inner += "for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')]))"
    done = subprocess.run(
        [sys.executable, "-c", inner], capture_output=True, check=True, close_fds=False
    )
    return json.loads(done.stdout)


@tool(effects=["read"])
async def through_client(text: str, ctx: ToolContext) -> str:
    """Have the client do it."""
    return (await ctx.call("reverse", {"text": text})).unwrap()


async def main() -> None:
    given = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    settings = HostSettings(drain=given.pop("drain", 5.0))
    host = ToolHost(
        [add, echo, wait, big, shout, shout_later, listen, inherited, through_client],
        config=HostConfig(settings=settings),
    )
    doors = ServeSettings(stdio=StdioSettings(**given))
    await serve(host, doors, doors=("stdio",), ready=lambda _: None)


asyncio.run(main())
print("printed at the end")
