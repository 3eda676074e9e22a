"""The main program of a worker process: `python -m toolcrib.host.worker`.

It is started by `ProcessExecutor`, with a socket as its standard input.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import math
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

import msgspec

from toolcrib.catalog.signature import ConversionError, Signature, describe
from toolcrib.core.context import ToolContext
from toolcrib.core.result import ToolResult
from toolcrib.errors import Denial, ToolcribError, ToolFailure
from toolcrib.executors import frames
from toolcrib.executors.frames import Call, Failed, FrameReader, Said, Setup, encode, frame
from toolcrib.executors.python import caller, handled, handler
from toolcrib.host.modules import load_module
from toolcrib.pipeline.shaping import NotJson, plain

_PDEATHSIG = 1
_CHILD_SUBREAPER = 36


class _Target(NamedTuple):
    """A function that was loaded."""

    signature: Signature
    call: Callable[[ToolContext], Any]
    first: str | None
    handle: Callable[[ToolContext], Any]


class _Voice:
    """What a function says while it runs, on its way to the host."""

    def __init__(self, send: Callable[[int, bytes], None], number: int) -> None:
        self._send = send
        self._number = number

    def announce(self, ctx: ToolContext, type: str, data: dict[str, Any]) -> None:
        self._send(frames.SAID, encode(Said(self._number, type, data)))

    async def nested(
        self,
        ctx: ToolContext,
        name: str,
        arguments: Mapping[str, Any] | None,
        timeout: float | None,
    ) -> ToolResult:
        raise ToolcribError("a tool of kind process cannot call other tools")


class Serving:
    """Takes calls from the socket, one after the other, until the host closes it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        self._targets: dict[tuple[str, str], _Target] = {}
        self._modules: dict[str, ModuleType] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        self._limited = False
        """Whether the last call had a limit of processor time."""

    def run(self) -> None:
        """Serve. The first frame says how this worker is to be."""
        reader, room = FrameReader(1 << 30), bytearray(1 << 16)
        while count := self._socket.recv_into(room):
            for kind, body in reader.feed(room[:count]):
                if kind == frames.SETUP:
                    settle(msgspec.json.decode(body, type=Setup))
                    self._send(frames.READY, b"")
                else:
                    self._serve(msgspec.json.decode(body, type=Call))

    def _send(self, kind: int, body: bytes) -> None:
        with self._lock:
            self._socket.sendall(frame(kind, body))

    def _serve(self, call: Call) -> None:
        kind, body = self._answer(call)
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the function forked and let run back to here
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # pyright: ignore[reportUnnecessaryComparison]
                stream.flush()
        self._send(kind, body)

    def _answer(self, call: Call) -> tuple[int, bytes]:
        try:
            value = self._run(call)
            if isinstance(value, ToolResult):
                kind, body = frames.RESULT, plain(value)[1]
            else:
                kind, body = frames.OUTPUT, plain(value)[1]
        except BaseException as error:  # whatever a function ends with is an answer
            return frames.FAILED, encode(_failed(error, call.tool))
        if len(body) > call.output:
            text = f"{call.tool} returned {len(body)} bytes, and may return {call.output}"
            return frames.FAILED, encode(Failed("failure", text, "output_too_large"))
        return kind, body

    def _run(self, call: Call) -> Any:
        target = self._targets.get((call.module, call.function)) or self._load(call)
        ctx = ToolContext(
            call.session_id,
            call.cwd,
            call.environment,
            call.metadata,
            tool=call.tool,
            arguments=call.arguments,
            principal=call.principal,
            call_id=call.call_id,
        )
        ctx.runtime = _Voice(self._send, call.number)
        if call.cpu is not None or self._limited:
            _limit_cpu(call.cpu)
            self._limited = call.cpu is not None
        if target.first is not None and target.first not in call.properties:
            value = target.handle(ctx)
        else:
            if target.signature.convert is not None:
                ctx.typed = target.signature.convert(ctx.arguments)
            value = target.call(ctx)
        return self._await(value) if inspect.isawaitable(value) else value

    def _await(self, value: Any) -> Any:
        """Run it in a loop that is kept. What it left running there ends with the call."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        loop = self._loop
        try:
            return loop.run_until_complete(value)
        finally:
            if left := asyncio.all_tasks(loop):
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    def _load(self, call: Call) -> _Target:
        try:
            found = self._find(call.module, call.function)
            signature = describe(found)
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            print(trace, file=sys.stderr)  # noqa: T201 - the host's log takes it
            raise ToolFailure(
                f"{call.tool} cannot run: its function cannot be loaded "
                f"({type(error).__name__}); the log has the details"
            ) from None
        target = _Target(signature, caller(found, signature), handled(found), handler(found))
        self._targets[call.module, call.function] = target
        return target

    def _find(self, name: str, function: str) -> Any:
        found: Any = self._modules.get(name)
        if found is None:
            # One by name is imported without `Importable`: its folder stays on the path.
            is_file = name.endswith(".py")
            found = load_module(name, None) if is_file else importlib.import_module(name)
            self._modules[name] = found
        for part in function.split("."):
            found = getattr(found, part)
        if not callable(found):
            raise TypeError(f"{name}:{function} is not a function")
        return found


def _failed(error: BaseException, tool: str) -> Failed:
    if isinstance(error, Denial):
        return Failed("denial", error.message or "", error.reason, details=error.details)
    if isinstance(error, ToolFailure):
        return Failed(
            "failure",
            error.message,
            error.reason,
            error.retryable,
            error.retry_after,
            error.details,
        )
    if isinstance(error, ConversionError):
        problems = [{"path": e.path, "message": e.message} for e in error.all()]
        text = f"the arguments do not fit: {error}"
        return Failed("failure", text, "invalid_arguments", details={"problems": problems})
    if isinstance(error, MemoryError):
        return Failed("memory", f"{tool} used more memory than it may, and was stopped")
    if isinstance(error, NotJson):
        return Failed("failure", str(error), "invalid_output")
    return Failed("raised", "".join(traceback.format_exception(error))[-20_000:])


def settle(setup: Setup) -> None:
    """Become a worker: die with the host, keep within the limits, find the modules."""
    if sys.platform == "linux":
        import ctypes
        import signal

        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(_PDEATHSIG, signal.SIGKILL)
        # Orphans among its descendants stay below it, so that the host finds all of them.
        prctl(_CHILD_SUBREAPER, 1)
        if os.getppid() != setup.parent:
            os._exit(0)  # the host died while this one was starting
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if setup.memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (setup.memory, setup.memory))
    os.chdir(setup.folder)
    sys.path[0:0] = [folder for folder in setup.path if folder not in sys.path]


def _limit_cpu(seconds: float | None) -> None:
    """The limit counts from the start of the process, so it is moved with each call."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = hard if seconds is None else math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def main() -> NoReturn:
    """Serve the socket that is standard input."""
    sock = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    out: Any = sys.stdout
    out.reconfigure(line_buffering=True)
    try:
        Serving(sock).run()
    except ConnectionError:
        os._exit(0)  # the host is gone
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # Not sys.exit: threads that a function left behind must not keep a worker alive.
    os._exit(0)


if __name__ == "__main__":
    main()
