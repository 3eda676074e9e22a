"""The promises of every executor, kept by the shell and the process executor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import process_functions
from toolcrib.core.protocols import Executor
from toolcrib.core.spec import ToolSpec
from toolcrib.executors.process import ProcessExecutor
from toolcrib.executors.shell import ShellExecutor
from toolcrib.host.workshop import Sandboxes, Workshop
from toolcrib.testing.contracts.executor import Call, ExecutorContract

HERE = Path(process_functions.__file__).parent
ANY = {"type": "object"}


class TestShell(ExecutorContract):
    def make(self) -> Executor:
        return ShellExecutor(Workshop(Sandboxes(), HERE))

    def good_call(self) -> Call:
        return _shell("good", ["printf", "hello"]), {}

    def failing_call(self) -> Call:
        return _shell("bad", ["false"]), {}

    def slow_call(self) -> Call:
        return _shell("slow", ["sleep", "100"]), {}


class TestProcess(ExecutorContract):
    @pytest.fixture(autouse=True)
    async def closed(self) -> AsyncIterator[None]:
        self.made: list[ProcessExecutor] = []
        yield
        for executor in self.made:
            await executor.aclose()

    def make(self) -> Executor:
        executor = ProcessExecutor(workers=1, workshop=Workshop(Sandboxes(), HERE))
        self.made.append(executor)
        return executor

    def good_call(self) -> Call:
        return _process("good", "add"), {"a": 1}

    def failing_call(self) -> Call:
        return _process("bad", "fails"), {}

    def slow_call(self) -> Call:
        return _process("slow", "busy"), {}


def _shell(name: str, argv: list[str]) -> ToolSpec:
    return ToolSpec(name=name, kind="shell", config={"argv": argv})


def _process(name: str, function: str) -> ToolSpec:
    config = {"module": f"{HERE}/process_functions.py", "function": function}
    return ToolSpec(name=name, kind="process", input_schema=ANY, config=config)
