"""The `config` of a shell tool, read and checked once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from toolcrib.core.jsontext import shown
from toolcrib.core.sandbox import SandboxLimits
from toolcrib.core.spec import ToolSpec
from toolcrib.core.units import did_you_mean, duration, size
from toolcrib.errors import SpecError
from toolcrib.executors.arguments import Argument, read_arguments, unknown
from toolcrib.executors.argv import Element, Rules, Template, names_in
from toolcrib.executors.codewatch import CODE_VARIABLE
from toolcrib.executors.output import Form
from toolcrib.executors.template import TemplateReader

KEYS = (
    "argv", "command", "sandbox", "stdin", "cwd", "env", "environment", "exit_codes", "output",
    "progress", "limits", "allow_dash", "multiline",
)  # fmt: skip
MOST_OUTPUT = 1_000_000
"""Bytes of output unless the tool says otherwise."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellConfig:
    """What a shell tool runs, and how."""

    template: Template
    sandbox: str | None
    stdin: str | None
    """The argument that goes to standard input."""
    cwd: str | None
    env: Mapping[str, Element]
    environment: tuple[str, ...]
    """The host's variables that the command may see."""
    exit_codes: frozenset[int]
    output: Form
    progress: bool
    limits: SandboxLimits


def read_config(spec: ToolSpec) -> ShellConfig:
    """The config of `spec`; raises `SpecError` with the key and the cure."""
    return _Reader(spec).read()


class _Reader:
    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec
        self.config = spec.config
        self.arguments: Mapping[str, Argument] = read_arguments(spec)
        self.templates = TemplateReader(spec, self.arguments)

    def read(self) -> ShellConfig:
        self._known_keys(self.config, KEYS, "")
        rules = Rules(allow_dash=self._named("allow_dash"), multiline=self._named("multiline"))
        template = self.templates.read(self.config, rules)
        env, stdin = self._env(), self._stdin()
        output = self.config.get("output", "text")
        if output not in ("text", "lines", "json"):
            self._wrong("output", f"output cannot be {shown(output)}", "Use text, lines or json")
        config = ShellConfig(
            template=template,
            sandbox=self._text("sandbox"),
            stdin=stdin,
            cwd=self._text("cwd"),
            env=env,
            environment=tuple(self._list("environment")),
            exit_codes=self._exit_codes(),
            output=output,
            progress=self._progress(),
            limits=self._limits(),
        )
        used = template.names() | names_in(tuple(env.values())) | {stdin}
        for name in self.arguments:
            if name not in used:
                self._wrong(
                    "argv",
                    f"the argument {name!r} goes nowhere",
                    f'Write "{{{name}}}" in argv, name it in stdin or env, or remove it',
                )
        return config

    def _known_keys(self, given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
        for key in given:
            if key not in known:
                close = did_you_mean(str(key), known)
                cure = f"Did you mean {close}?" if close else f"Known: {', '.join(known)}"
                self._wrong(f"{where}{key}", f"{key!r} is not a setting of shell tools", cure)

    def _text(self, key: str) -> str | None:
        value = self.config.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            self._wrong(key, f"{key} must be text, not {shown(value)}", "Put it in quotes")
        return value

    def _list(self, key: str) -> list[str]:
        value: Any = self.config.get(key) or []
        if not isinstance(value, list | tuple) or not all(
            isinstance(name, str) for name in cast("list[Any]", value)
        ):
            self._wrong(key, f"{key} must be a list of names", f"Write {key}: [NAME]")
        return list(cast("list[str]", value))

    def _named(self, key: str) -> frozenset[str]:
        for name in self._list(key):
            if name not in self.arguments:
                raise unknown(name, self.arguments, self.spec, f"config.{key}")
        return frozenset(self._list(key))

    def _stdin(self) -> str | None:
        value = self.config.get("stdin")
        if isinstance(value, Mapping) and set(cast("Mapping[str, Any]", value)) == {"from"}:
            value = cast("Mapping[str, Any]", value)["from"]
        if value is None:
            return None
        if not isinstance(value, str):
            self._wrong("stdin", "stdin must name an argument", "Write stdin: text")
        if value not in self.arguments:
            raise unknown(value, self.arguments, self.spec, "config.stdin")
        return value

    def _env(self) -> dict[str, Element]:
        value: Any = self.config.get("env") or {}
        if not isinstance(value, Mapping):
            self._wrong("env", "env must be a mapping", "Write env: {LANG: C.UTF-8}")
        elements: dict[str, Element] = {}
        for name, text in cast("Mapping[Any, Any]", value).items():
            key = f"env.{name}"
            if not isinstance(name, str) or not _VARIABLE(name):
                self._wrong(key, f"{shown(name)} cannot be a variable", "Use letters, digits and _")
            if isinstance(text, bool) or not isinstance(text, str | int | float):
                self._wrong(key, f"{key} must be text, not {shown(text)}", "Put it in quotes")
            element = self.templates.element(str(text), key, optional=True)
            if not isinstance(element, Element):
                self._wrong(key, f"{text} cannot stand in a variable", 'Write "{name}"')
            if names_in([element]) and CODE_VARIABLE(name.upper()):
                self._wrong(
                    key,
                    f"{name} decides what programs run, so no argument may go there",
                    "Give it a fixed value",
                )
            elements[name] = element
        return elements

    def _exit_codes(self) -> frozenset[int]:
        value: Any = self.config.get("exit_codes", [0])
        codes = cast("list[Any]", value) if isinstance(value, list | tuple) else []
        if not codes or not all(type(code) is int and 0 <= code <= 255 for code in codes):
            self._wrong(
                "exit_codes", "exit_codes must be whole numbers from 0 to 255", "Write [0, 1]"
            )
        return frozenset(codes)

    def _progress(self) -> bool:
        value = self.config.get("progress", False)
        if not isinstance(value, bool):
            self._wrong("progress", f"progress must be true or false, not {shown(value)}", "")
        return value

    def _limits(self) -> SandboxLimits:
        value: Any = self.config.get("limits") or {}
        if not isinstance(value, Mapping):
            self._wrong("limits", "limits must be a mapping", "Write limits: {time: 30s}")
        given = dict(cast("Mapping[str, Any]", value))
        readers: dict[str, Callable[[Any], Any]] = {
            "memory": size, "cpu": duration, "processes": _whole, "output": size,
            "time": duration, "file_size": size, "open_files": _whole,
        }  # fmt: skip
        self._known_keys(given, tuple(readers), "limits.")
        read: dict[str, Any] = {"output": MOST_OUTPUT}
        for name, limit in given.items():
            try:
                read[name] = readers[name](limit)
            except ValueError as error:
                self._wrong(f"limits.{name}", f"limits.{name}: {error}", None)
        return SandboxLimits(**read)

    def _wrong(self, key: str, message: str, cure: str | None) -> NoReturn:
        raise SpecError(f"tool {self.spec.name}: {message}", key=f"config.{key}", cure=cure or None)


def _whole(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{shown(value)} is not a whole number above 0")
    return value
