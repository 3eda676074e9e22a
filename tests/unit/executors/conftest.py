"""Tools of kind process, bound in a folder of their own and closed after the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import process_functions
from toolcrib.core.entry import Execute
from toolcrib.core.spec import ToolSpec
from toolcrib.executors.process import ProcessExecutor
from toolcrib.host.workshop import Sandboxes, Workshop

KIT = str(Path(process_functions.__file__).parent)


@pytest.fixture
async def executor() -> AsyncIterator[ProcessExecutor]:
    executor = ProcessExecutor(workers=2)
    yield executor
    await executor.aclose()


@pytest.fixture
def bind(executor: ProcessExecutor, tmp_path: Path) -> Callable[..., Execute]:
    def bind(name: str = "", /, **config: Any) -> Execute:
        settings = {"module": "process_functions", "function": name, "path": [KIT], **config}
        spec = ToolSpec(name="t", kind="process", input_schema={"type": "object"}, config=settings)
        return executor.bind(spec, Workshop(Sandboxes(), tmp_path))

    return bind
