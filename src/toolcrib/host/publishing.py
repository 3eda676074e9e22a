"""Puts the tools of one provider into the catalog, and takes them out again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from toolcrib.catalog.catalog import Catalog
from toolcrib.core.entry import Entry, Execute
from toolcrib.core.schema import admit, fill_defaults
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import NameTaken, SchemaError

Publish = Callable[[list[Entry]], Sequence[str] | None]
"""Puts a provider's entries in the place of those it had; returns why some could not be taken."""

_Key = tuple[str, str]


def entries_of(
    specs: Sequence[ToolSpec], execute: Execute, owner: str
) -> tuple[list[Entry], list[str]]:
    """The entries of what a provider lists, and what is wrong with the rest of it."""
    entries: dict[_Key, Entry] = {}
    problems: list[str] = []
    for spec in specs:
        given: Any = spec
        if not isinstance(given, ToolSpec):
            problems.append(f"a tool is a ToolSpec, not a {type(given).__name__}")
            continue
        if (spec.name, spec.version) in entries:
            problems.append(f"{spec.name}: it is listed twice; the first one counts")
            continue
        try:
            admit(spec.input_schema)
            if spec.output_schema is not None:
                admit(spec.output_schema, where="output_schema")
        except SchemaError as error:
            problems.append(f"{spec.name}: {error}")
            continue
        defaults = fill_defaults(spec.input_schema)
        entries[spec.name, spec.version] = Entry(spec, execute, owner=owner, defaults=defaults)
    return list(entries.values()), problems


class Publisher:
    """Called with all entries that a provider has now; they take the place of those it had.

    What is unchanged is left alone, so that compiled plans stay. An entry whose name is somebody
    else's, or looks like it, is left out and named in what the call returns: it neither hides the
    provider's other tools nor takes anybody's place, under whatever version.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._mine: dict[_Key, Entry] = {}

    def __call__(self, entries: Sequence[Entry]) -> list[str]:
        """Have these entries in the catalog and no others; why some could not be taken."""
        wanted = {_key(entry): entry for entry in entries}
        problems: list[str] = []
        gone = [key for key in self._mine if key not in wanted]
        self._catalog.swap(remove=self._held(gone), add=())
        for key in gone:
            del self._mine[key]
        news: list[Entry] = []
        for key, entry in wanted.items():
            old = self._mine.get(key)
            if old is not None and _same(old, entry):
                continue
            other = self._foreign(entry.name)
            if other is None:
                news.append(entry)
            else:
                problems.append(f"{entry.name}: the name is taken: registered by {other.owner}")
        self._place(news, problems)
        return problems

    def _place(self, entries: list[Entry], problems: list[str]) -> None:
        """All of them together; where names clash, by halves until those are found that do."""
        if not entries:
            return
        try:
            self._catalog.swap(remove=self._held(map(_key, entries)), add=entries)
        except NameTaken as error:
            if len(entries) == 1:
                problems.append(f"{entries[0].name}: {error}")
                return
            middle = len(entries) // 2
            self._place(entries[:middle], problems)
            self._place(entries[middle:], problems)
        else:
            self._mine.update((_key(entry), entry) for entry in entries)

    def _held(self, keys: Iterable[_Key]) -> list[str]:
        """How to remove entries that are still ours: somebody may have replaced one."""
        return [
            f"{name}@{version}"
            for name, version in keys
            if (name, version) in self._mine
            and self._catalog.version(name, version) is self._mine[name, version]
        ]

    def _foreign(self, name: str) -> Entry | None:
        """The entry of somebody else that this name is, or could be mistaken for."""
        alike = self._catalog.alike(name)
        entry = None if alike is None else self._catalog.get(alike)
        if entry is None or self._mine.get(_key(entry)) is entry:
            return None
        return entry


def _key(entry: Entry) -> _Key:
    return entry.spec.name, entry.spec.version


def _same(old: Entry, new: Entry) -> bool:
    return (
        old.spec.digest == new.spec.digest
        and old.unavailable == new.unavailable
        and old.execute == new.execute
        and old.owner == new.owner
    )
