"""Reading settings: what is unknown or of the wrong kind is refused, with its key and a cure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from toolcrib.core.jsontext import shown
from toolcrib.core.units import did_you_mean, duration, size
from toolcrib.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Settings:
    """One mapping of a configuration."""

    values: Mapping[str, Any]
    owner: str
    """Whose settings they are, as messages name it: `tool weather`."""
    key: str = ""
    """The dotted path of the mapping itself."""
    error: type[ConfigError] = ConfigError

    def only(self, *known: str) -> Settings:
        """These settings, if there are no others than `known`."""
        for name in self.values:
            if name not in known:
                near = did_you_mean(str(name), known)
                cure = f"Did you mean {near}?" if near else f"Known: {', '.join(known)}"
                self.wrong(str(name), "is not a setting here", cure)
        return self

    def wrong(self, name: str, what: str, cure: str | None = None) -> NoReturn:
        """Refuse the setting `name`."""
        key = f"{self.key}.{name}" if self.key and name else self.key or name
        raise self.error(f"{self.owner}: {key} {what}".replace(":  ", " ", 1), key=key, cure=cure)

    def has(self, name: str) -> bool:
        """Whether the setting is given."""
        return self.values.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str | None:
        """A text, not an empty one."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str) or not value:
            self.wrong(name, f"must be text, not {shown(value)}")
        return value

    def need(self, name: str) -> str:
        """A text that has to be there."""
        value = self.text(name)
        if value is None:
            self.wrong(name, "is missing")
        return value

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """One of some words."""
        value = self.text(name, default)
        if value not in choices:
            near = did_you_mean(str(value), choices)
            cure = f"Did you mean {near}?" if near else f"Use one of: {', '.join(choices)}"
            self.wrong(name, f"cannot be {shown(value)}", cure)
        return str(value)

    def part(self, name: str) -> Settings | None:
        """A mapping inside this one."""
        value = self.values.get(name)
        if value is None:
            return None
        key = f"{self.key}.{name}" if self.key else name
        if not isinstance(value, Mapping):
            self.wrong(name, f"must be a mapping, not {shown(value)}")
        return Settings(cast("Mapping[str, Any]", value), self.owner, key, self.error)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts; one text counts as a list of one."""
        value: Any = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            return (value,)
        items = cast("list[Any]", value) if isinstance(value, list | tuple) else [None]
        if not all(isinstance(item, str) for item in items):
            self.wrong(name, "must be a list of texts")
        return tuple(map(str, items))

    def count(self, name: str, default: int, most: int) -> int:
        """A whole number from 1 to `most`."""
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            self.wrong(name, f"must be a whole number from 1 to {most}, not {shown(value)}")
        return value

    def size(self, name: str, default: int) -> int:
        """Bytes."""
        return int(self._measured(name, default, size))

    def duration(self, name: str, default: float | None) -> float | None:
        """Seconds."""
        return default if not self.has(name) else self._measured(name, default, duration)

    def _measured(self, name: str, default: Any, measure: Any) -> Any:
        try:
            return measure(self.values.get(name, default))
        except ValueError as error:
            what, _, cure = str(error).partition(". ")
            self.wrong(name, f"is wrong: {what}", cure or None)
