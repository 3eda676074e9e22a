"""What a configuration says about one sandbox, read and checked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from toolcrib.core.sandbox import SandboxLimits
from toolcrib.core.units import did_you_mean, duration, size
from toolcrib.errors import ConfigError

PATHS = ("read", "write")
LIMITS = ("memory", "cpu", "processes", "time", "file_size", "open_files", "output")
DEFAULT_LIMITS = SandboxLimits(memory=1 << 30, processes=64, output=16 << 20, open_files=1024)
"""What holds where a configuration says nothing."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
# Whoever shows these to a command shows it the machine.
_NEVER = ("/proc", "/sys", "/dev")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What one sandbox shows to its commands and lets them use."""

    folder: str
    """Where relative paths begin; absolute."""
    read: tuple[str, ...] = ()
    """Absolute paths that commands may read."""
    write: tuple[str, ...] = ()
    """Absolute paths that commands may read and write."""
    hide: tuple[str, ...] = ()
    """Absolute paths inside those that commands do not see."""
    network: bool = False
    environment: tuple[str, ...] = ()
    """Names of the host's environment variables that commands get."""
    limits: SandboxLimits = DEFAULT_LIMITS


class Reader:
    """Reads the settings of one sandbox; every complaint names the key and the cure."""

    def __init__(self, name: str, settings: Mapping[str, Any], known: tuple[str, ...]) -> None:
        self._name = name
        self._settings = settings
        for key in settings:
            if key in known:
                continue
            near = did_you_mean(str(key), known)
            cure = f"Did you mean {near}?" if near else f"It knows {', '.join(sorted(known))}"
            raise self.wrong(str(key), f"there is no setting {key}", cure)

    def wrong(self, key: str, message: str, cure: str) -> ConfigError:
        """The complaint about one setting; the key is the one inside the sandbox's settings."""
        return ConfigError(f"sandbox {self._name}: {message}", key=key, cure=cure)

    def text(self, key: str, default: str | None = None) -> str | None:
        """A setting that is text."""
        value = self._settings.get(key, default)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.wrong(key, f"{key} is {value!r}, not text", f"Write {key}: some-text")
        return value

    def flag(self, key: str) -> bool:
        """A setting that is true or false; false where it is missing."""
        value = self._settings.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(key, f"{key} is {value!r}", f"Write {key}: true or {key}: false")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        """A setting that is a list of texts."""
        value: Any = self._settings.get(key, ())
        items = cast("list[Any]", list(value) if isinstance(value, list | tuple) else [None])  # pyright: ignore[reportUnknownArgumentType]
        if not all(isinstance(item, str) and item for item in items):
            raise self.wrong(key, f"{key} is not a list of texts", f"Write {key}: [one, two]")
        return tuple(items)

    def limits(self, default: SandboxLimits) -> SandboxLimits:
        """The limits among the settings, on top of the default ones."""
        readers: dict[str, Callable[[Any], Any]] = {
            "time": duration,
            "cpu": duration,
            "processes": _count,
            "open_files": _count,
        }
        changes: dict[str, Any] = {}
        for key in LIMITS:
            if key in self._settings:
                try:
                    changes[key] = readers.get(key, size)(self._settings[key])
                except ValueError as error:
                    raise self.wrong(key, f"{key}: {error}", "See the page on sandboxes") from None
        return replace(default, **changes)

    def paths(self, key: str, folder: str) -> tuple[str, ...]:
        """A setting that is a list of paths, made absolute; each has to exist."""
        found: list[str] = []
        for word in self.words(key):
            path = absolute(word, folder)
            refused = refusal(path)
            if refused:
                raise self.wrong(key, f"{key} names {word}: {refused}", "Name the folders needed")
            if not Path(path).exists():
                cure = f"Make it (mkdir {path}) or take it out of the list"
                raise self.wrong(key, f"{key} names {word}, which does not exist: {path}", cure)
            found.append(path)
        return tuple(found)

    def variables(self) -> tuple[str, ...]:
        """Names of environment variables that are handed on."""
        for word in self.words("environment"):
            if not _VARIABLE(word):
                cure = "List names only, such as LANG; a tool's own settings give values"
                raise self.wrong("environment", f"{word!r} is no variable's name", cure)
        return self.words("environment")

    def settings(
        self, folder: Path, *, default: SandboxLimits = DEFAULT_LIMITS, paths: bool = True
    ) -> Settings:
        """All of it."""
        base = str(folder.absolute())
        return Settings(
            folder=base,
            read=self.paths("read", base) if paths else (),
            write=self.paths("write", base) if paths else (),
            hide=self.paths("hide", base) if paths else (),
            network=self.flag("network") if paths else True,
            environment=self.variables(),
            limits=self.limits(default),
        )


def absolute(path: str, folder: str) -> str:
    """The path seen from the folder, without `.` and `..`."""
    # Not Path.resolve: what a link leads to may change until the command runs.
    return os.path.normpath(Path(folder, Path(path).expanduser()))


def refusal(path: str) -> str:
    """Why no sandbox may show this path; empty when it may."""
    real = os.path.realpath(path)
    if real == "/":
        return "the whole file system cannot be shown"
    if any(real == bad or real.startswith(f"{bad}/") for bad in _NEVER):
        return "a sandbox has its own /proc and /dev, and no /sys"
    return ""


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{value!r} is not a whole number above zero. Write one, such as 64")
    return value
