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
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

import msgspec

from toolcrib.catalog.signature import ConversionError, Signature, describe
from toolcrib.core.context import ToolContext
from toolcrib.core.result import ToolResult
from toolcrib.errors import Denial, SpecError, ToolcribError, ToolFailure
from toolcrib.executors import frames
from toolcrib.executors.frames import Call, Failed, FrameReader, Said, Setup, encode, frame
from toolcrib.executors.python import caller, handled, handler
from toolcrib.executors.sourcecheck import offer, takes_no
from toolcrib.host.modules import load_module
from toolcrib.pipeline.shaping import NotJson, plain

_PDEATHSIG = 1
_CHILD_SUBREAPER = 36
_OURS = str(Path(__file__).parents[1])


class _Target(NamedTuple):
    """A function that was loaded."""

    signature: Signature
    call: Callable[[ToolContext], Any]
    first: str | None
    handle: Callable[[ToolContext], Any]
    names: frozenset[str] | None
    """The arguments it takes; None for any."""
    required: frozenset[str]


class _Voice:
    """What a function says while it runs, on its way to the host."""

    def __init__(self, say: Callable[[int, bytes], None], number: int) -> None:
        self._say = say
        self._number = number

    def announce(self, ctx: ToolContext, type: str, data: dict[str, Any]) -> None:
        self._say(self._number, encode(Said(type, data)))

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
        self._number = 0
        """Of the call that runs."""
        self._limited = False
        """Whether the last call had a limit of processor time."""

    def run(self) -> None:
        """Serve. The first frame says how this worker is to be."""
        reader, room = FrameReader(1 << 30), bytearray(1 << 16)
        while count := self._socket.recv_into(room):
            for kind, number, body in reader.feed(room[:count]):
                if kind == frames.SETUP:
                    settle(msgspec.json.decode(body, type=Setup))
                    self._socket.sendall(frame(frames.READY, b""))
                else:
                    self._number = number
                    self._serve(msgspec.json.decode(body, type=Call))

    def _say(self, number: int, body: bytes) -> None:
        with self._lock:
            # What a thread of an earlier call says late is nobody's.
            if number == self._number:
                self._socket.sendall(frame(frames.SAID, body, number))

    def _serve(self, call: Call) -> None:
        kind, body = self._answer(call)
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the function forked and let run back to here
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # pyright: ignore[reportUnnecessaryComparison]
                stream.flush()
        with self._lock:
            number, self._number = self._number, 0
            self._socket.sendall(frame(kind, body, number))

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
        ctx.runtime = _Voice(self._say, self._number)
        if call.cpu is not None or self._limited:
            _limit_cpu(call.cpu)
            self._limited = call.cpu is not None
        if target.first is not None and target.first not in call.properties:
            value = target.handle(ctx)
        else:
            if target.names is not None and not target.names.issuperset(call.arguments):
                raise _unknown(call, target.names)
            if not target.required.issubset(call.arguments):
                raise _missing(call, target.required)
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
            raise ToolFailure(f"{call.tool} cannot run: {_why(error)}") from None
        schema = signature.input_schema
        target = _Target(
            signature,
            caller(found, signature),
            handled(found),
            handler(found),
            None if signature.accepts_extra else frozenset(schema.get("properties", ())),
            frozenset(schema.get("required", ())),
        )
        self._targets[call.module, call.function] = target
        return target

    def _find(self, name: str, function: str) -> Any:
        found: Any = self._modules.get(name)
        if found is None:
            # One by name is imported without `Importable`: its folder stays on the path.
            is_file = name.endswith(".py")
            found = load_module(name, None) if is_file else importlib.import_module(name)
            self._modules[name] = found
        module: Any = found
        shown = Path(name).name
        for part in function.split("."):
            found = getattr(found, part, None)
        if found is None:
            there = [name for name, _ in inspect.getmembers(module, inspect.isfunction)]
            raise SpecError(f"{shown} has no function {function!r}", cure=offer(there))
        if not callable(found):
            raise SpecError(f"{function} in {shown} is not a function")
        return found


def _why(error: Exception) -> str:
    """What is wrong with a module, in words for whoever wrote its name into a configuration."""
    if isinstance(error, SpecError) and error.__cause__ is None:
        where = f"{Path(error.file).name}:{error.line}: " if error.file else ""
        return f"{where}{error.message}" + (f". {error.cure}" if error.cure else "")
    if isinstance(error.__cause__, Exception):
        error = error.__cause__  # `load_module` has put it into words for the host
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or '').name}:{error.lineno}: {error.msg}"
    if isinstance(error, ImportError):
        text = str(error)
    for place in reversed(traceback.extract_tb(error.__traceback__)):
        # The import system's own frames say nothing, and neither do ours.
        file = Path(place.filename)
        if not place.filename.startswith(("<", _OURS)) and "importlib" not in file.parts:
            return f"{file.name}:{place.lineno}: {text}"
    return text


def _unknown(call: Call, names: frozenset[str]) -> ToolFailure:
    function = call.function.rpartition(".")[2]
    name = next(name for name in call.arguments if name not in names)
    if name in call.properties:
        return ToolFailure(takes_no(function, name))
    text = f"the function {function} takes no argument {name!r}"
    return ToolFailure(text, reason="invalid_arguments")


def _missing(call: Call, required: frozenset[str]) -> ToolFailure:
    function = call.function.rpartition(".")[2]
    name = min(required.difference(call.arguments))
    if name in call.properties:
        text = f"the function {function} needs the argument {name!r}"
        return ToolFailure(text, reason="invalid_arguments")
    text = f"the function {function} needs the argument {name!r}; input_schema does not have it"
    return ToolFailure(text)


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
