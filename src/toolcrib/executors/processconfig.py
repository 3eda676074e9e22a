"""The `config` of a process tool, read and checked once."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from toolcrib.core.jsontext import shown
from toolcrib.core.protocols import Workshop
from toolcrib.core.spec import FILE_MODULE, ToolSpec
from toolcrib.core.units import did_you_mean, duration, size
from toolcrib.errors import SpecError
from toolcrib.executors.sourcecheck import check_source
from toolcrib.executors.worker import WorkerSettings

KEYS = (
    "module", "function", "function_name", "memory", "cpu", "output", "workers", "environment",
    "path",
)  # fmt: skip
LEAST_MEMORY = 64 * 1024 * 1024
"""Python itself and what a worker loads need half of it."""
MOST_OUTPUT = 10_000_000
_SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*").fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """Which function runs, in what sort of worker."""

    module: str
    """A dotted name, or the absolute path of a file."""
    function: str
    properties: list[str]
    output: int
    """Bytes it may return, and bytes it may print."""
    cpu: float | None
    """Seconds of processor time of one call."""
    settings: WorkerSettings


def read_config(
    spec: ToolSpec, workshop: Workshop, workers: int, command: tuple[str, ...]
) -> ProcessConfig:
    """The config of `spec`; raises `SpecError` with the key and the cure."""
    return _Reader(spec, workshop).read(workers, command)


class _Reader:
    def __init__(self, spec: ToolSpec, workshop: Workshop) -> None:
        self.spec = spec
        self.config = spec.config
        self.workshop = workshop

    def read(self, workers: int, command: tuple[str, ...]) -> ProcessConfig:
        for key in self.config:
            if key not in KEYS:
                close = did_you_mean(str(key), KEYS)
                cure = f"Did you mean {close}?" if close else f"Known: {', '.join(KEYS)}"
                self._wrong(str(key), f"{key!r} is not a setting of process tools", cure)
        folder = str(self.workshop.folder)
        path = [folder, *(str(self.workshop.file(part)) for part in self._names("path"))]
        module, function = self._function(path)
        memory = self._amount("memory", None)
        if memory is not None and memory < LEAST_MEMORY:
            self._wrong("memory", "memory is too small for a worker", "Give at least 64MiB")
        count: Any = self.config.get("workers", workers)
        if type(count) is not int or not 1 <= count <= 256:
            self._wrong("workers", f"workers cannot be {shown(count)}", "Use 1 to 256")
        cpu = self.config.get("cpu")
        try:
            cpu = None if cpu is None else duration(cpu)
        except ValueError as error:
            self._wrong("cpu", f"cpu: {error}", None)
        schema: Mapping[str, Any] = self.spec.input_schema.get("properties") or {}
        return ProcessConfig(
            module=module,
            function=function,
            properties=list(schema),
            output=self._amount("output", None) or MOST_OUTPUT,
            cpu=cpu,
            settings=WorkerSettings(
                command, folder, tuple(path), self._environment(), memory, count
            ),
        )

    def _function(self, path: Sequence[str]) -> tuple[str, str]:
        """Where the function is; found, but nothing is imported."""
        module, function = self.config.get("module"), self.config.get("function")
        function = function or self.config.get("function_name")
        if callable(function):
            module, function = self._of(cast("Any", function), module)
        if not isinstance(module, str) or not isinstance(function, str):
            self._wrong(
                "module",
                "a process tool needs module and function",
                "Write config: {module: package.module, function: name}",
            )
        if not _DOTTED(function):
            self._wrong("function", f"{shown(function)} is not the name of a function", None)
        if module.endswith(".py"):
            file = self.workshop.file(module)
            if not file.is_file():
                self._wrong("module", f"there is no file {file}", "Correct the path")
            try:
                check_source(file, function, list(self.spec.input_schema.get("properties") or ()))
            except SpecError as error:
                self._wrong(error.key or "module", error.message, error.cure)
            return str(file), function
        if not _DOTTED(module):
            self._wrong("module", f"{shown(module)} is not the name of a module", None)
        if not _exists(module.partition(".")[0], path):
            self._wrong(
                "module",
                f"there is no module {module}",
                f"Put it in {path[0]}, name its folder in path, or install it",
            )
        return module, function

    def _of(self, function: Any, file: Any) -> tuple[str, str]:
        """Where a function comes from that was loaded already."""
        module, name = str(function.__module__), str(getattr(function, "__qualname__", ""))
        if isinstance(file, str) and file.endswith(".py"):
            module = file
        elif module.startswith(FILE_MODULE):
            module = str(function.__code__.co_filename)
        if module == "__main__" or "<" in name or not name:
            self._wrong(
                "function",
                f"{name or function!r} cannot be found again by a worker process",
                "Put it at the top level of a module",
            )
        return module, name

    def _names(self, key: str) -> list[str]:
        value: Any = self.config.get(key) or []
        if not isinstance(value, list | tuple) or not all(
            isinstance(name, str) for name in cast("list[Any]", value)
        ):
            self._wrong(key, f"{key} must be a list of texts", f"Write {key}: [NAME]")
        return list(cast("list[str]", value))

    def _environment(self) -> tuple[tuple[str, str], ...]:
        """A clean environment, and what the tool was lent from the host's."""
        env = {"PATH": _SEARCHED, "LANG": "C.UTF-8"}
        for name in self._names("environment"):
            if name in os.environ:
                env[name] = os.environ[name]
        return tuple(sorted(env.items()))

    def _amount(self, key: str, default: int | None) -> int | None:
        value = self.config.get(key)
        try:
            return default if value is None else size(value)
        except ValueError as error:
            self._wrong(key, f"{key}: {error}", None)

    def _wrong(self, key: str, message: str, cure: str | None) -> NoReturn:
        raise SpecError(f"tool {self.spec.name}: {message}", key=f"config.{key}", cure=cure)


def _exists(name: str, path: Sequence[str]) -> bool:
    """Whether a top-level module can be found. Finding it does not run it."""
    if importlib.machinery.PathFinder.find_spec(name, list(path)) is not None:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:
        return True  # loaded, by means of its own
