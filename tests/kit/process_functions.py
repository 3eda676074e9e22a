"""Functions for the tests of worker processes: good, bad and broken ones."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from toolcrib import ToolContext, ToolFailure


@dataclass
class Place:
    city: str
    since: date


def add(a: int, b: int = 10) -> int:
    return a + b


async def add_later(a: int, b: int = 10) -> int:
    await asyncio.sleep(0)
    return a + b


def calls_asyncio_run(a: int) -> int:
    return asyncio.run(add_later(a, 1))


def typed(place: Place) -> dict:
    return {"year": place.since.year, "city": place.city}


def gives_place() -> Place:
    return Place("Delft", date(2024, 5, 1))


def handler(input, context):
    return {"got": input, "tool": context.tool}


def pid() -> int:
    return os.getpid()


def echo(value: object) -> object:
    return value


def fails() -> int:
    raise ToolFailure("no such row", reason="tool_error", retryable=True, details={"row": 3})


def refuses(ctx: ToolContext) -> int:
    ctx.deny("too_many_files", "seven is enough", limit=7)


def breaks() -> int:
    raise RuntimeError("the inner workings")


def leaves() -> int:
    sys.exit("bye")


def dies(code: int = 3) -> int:
    os._exit(code)


def killed() -> int:
    os.kill(os.getpid(), 9)


def says(ctx: ToolContext) -> str:
    ctx.progress(0.5, "half way")
    ctx.log("note", row=1)
    ctx.emit("counted", n=2)
    return ctx.call_id + " " + ctx.session_id + " " + ctx.principal.name


def own_result(ctx: ToolContext):
    return ctx.ok([1, 2], pages=3)


def prints() -> str:
    print("hello from the function")
    os.write(1, b"\x05\x00\x00\x00\x04{{{{{\n")
    print("to stderr", file=sys.stderr)
    return "done"


def floods() -> str:
    while True:
        print("x" * 1000)


def large(n: int) -> str:
    return "x" * n


def hungry(n: int = 1 << 30) -> int:
    return len(bytearray(n))


def busy() -> int:
    while True:
        pass


def environment() -> dict:
    return dict(os.environ)


def numbers():
    yield 0.25
    yield (0.5, "half")
    yield "nearly"
    return 42


async def numbers_later():
    yield 0.25
    yield {"rows": 2}


def slow_write(file: str, ready: str) -> str:
    Path(ready).touch()
    time.sleep(0.4)
    Path(file).touch()
    return "late"


def spawns(file: str, ready: str) -> str:
    code = (
        f"import os,time; os.setsid(); open({ready!r},'w').close(); time.sleep(0.5); "
        f"open({file!r},'w').close()"
    )
    detached = f"import subprocess,sys; subprocess.Popen([sys.executable, '-c', {code!r}])"
    subprocess.run([sys.executable, "-c", detached], check=True)
    time.sleep(30)
    return "never"


def bad_output() -> object:
    return object()


def forks() -> int:
    if os.fork() == 0:
        return 666
    time.sleep(0.05)
    return 1


def background(ctx: ToolContext) -> int:
    def late():
        time.sleep(0.1)
        ctx.log("from an earlier call")

    threading.Thread(target=late).start()
    return 1


def wait() -> int:
    time.sleep(0.2)
    return 2


async def leftover() -> int:
    asyncio.get_running_loop().create_task(asyncio.sleep(100))
    return 1


def forges(
    kind: int, number: int | None = None, after: float = 0, type: str = "", late: bool = False
) -> str:
    """Send a frame that no worker sends, now or after the call has ended."""
    import gc
    import json

    from toolcrib.executors.frames import frame

    main = sys.modules["__main__"]
    (serving,) = (found for found in gc.get_objects() if isinstance(found, main.Serving))
    own = serving._number
    body = json.dumps([type, {}] if type else "forged").encode()

    def send():
        time.sleep(after)
        while late and serving._number in (0, own):
            time.sleep(0.001)  # until the next call runs
        serving._socket.sendall(frame(kind, body, own if number is None else number))

    if after or late:
        threading.Thread(target=send, daemon=True).start()
    else:
        send()
        time.sleep(0.2)
    return "true"


def announces(ctx: ToolContext, type: str) -> str:
    ctx.runtime.announce(ctx, type, {"tool": "bank", "answer": "allow"})
    return "true"


def emits(ctx: ToolContext, times: int, size: int) -> str:
    for _ in range(times):
        ctx.emit("fact", text="x" * size)
        ctx.progress(0.5)
    return "true"


NOT_CALLABLE = 3
