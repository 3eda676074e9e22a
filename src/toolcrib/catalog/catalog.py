"""The specs known now.

One writer at a time changes the catalog under a thread lock; readers take no lock. An entry never
changes, so a call that holds one finishes on what it began with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Literal

import msgspec

from toolcrib.catalog.versions import version_key
from toolcrib.core.entry import Entry
from toolcrib.core.names import look_alikes, wire_name
from toolcrib.core.units import did_you_mean
from toolcrib.errors import NameTaken


class Change(msgspec.Struct, frozen=True):
    """What happened to the catalog."""

    kind: Literal["added", "replaced", "removed"]
    name: str
    version: str
    revision: int


class Catalog:
    """Names to entries. Safe from any thread and any loop."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entries: dict[str, Entry] = {}
        """The entry under each plain name: its newest version."""
        self._versions: dict[str, dict[str, Entry]] = {}
        """All versions, for names that have more than one."""
        self._looks: dict[str, str] = {}
        self._wires: dict[str, str] = {}
        """Wire names that differ from the registered name."""
        self._wary: set[str] = set()
        """Tools that conflict with others."""
        self._listeners: list[Callable[[Change], None]] = []
        self._snapshot: tuple[int, MappingProxyType[str, Entry]] = (-1, MappingProxyType({}))
        self.revision = 0
        """Grows with every change."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.snapshot().values())

    def __repr__(self) -> str:
        return f"<Catalog of {len(self)} tools, revision {self.revision}>"

    def _repr_html_(self) -> str:
        import html

        rows = "".join(
            f"<tr><td>{html.escape(e.name)}</td><td>{html.escape(e.spec.kind)}</td>"
            f"<td>{html.escape(e.spec.description)}</td></tr>"
            for e in list(self)[:200]
        )
        return f"<table><tr><th>tool</th><th>kind</th><th>description</th></tr>{rows}</table>"

    def snapshot(self) -> MappingProxyType[str, Entry]:
        """All plain names and their entries, as they are at this moment; it will not change."""
        revision, kept = self._snapshot
        if revision != self.revision:
            with self._lock:
                kept = MappingProxyType(dict(self._entries))
                self._snapshot = (self.revision, kept)
        return kept

    def get(self, name: str) -> Entry | None:
        """The entry under a registered name, `name@version` or wire name."""
        entry = self._entries.get(name)
        if entry is not None:
            return entry
        if "@" in name:
            plain, _, version = name.rpartition("@")
            return self.version(plain, version)
        real = self._wires.get(name)
        return None if real is None else self.get(real)

    def version(self, name: str, version: str) -> Entry | None:
        """One version of a tool."""
        versions = self._versions.get(name)
        if versions is not None:
            return versions.get(version)
        entry = self._entries.get(name)
        return entry if entry is not None and entry.spec.version == version else None

    def versions(self, name: str) -> list[str]:
        """The versions of a tool, oldest first."""
        known = self._versions.get(name)
        if known is None:
            entry = self._entries.get(name)
            return [] if entry is None else [entry.spec.version]
        return sorted(known, key=version_key)

    def alike(self, name: str) -> str | None:
        """The known name that `name` is, or could be mistaken for."""
        found = (self._looks.get(look) for look in look_alikes(name))
        return next((other for other in found if other is not None), None)

    def suggest(self, name: str) -> str | None:
        """A known name that `name` may have been meant for."""
        return did_you_mean(name, list(self._entries))  # in one step: others may change it

    def register(self, entry: Entry, *, replace: bool = False) -> None:
        """Add an entry. A name, or one that looks like it, can be taken once."""
        name, version = entry.spec.name, entry.spec.version
        with self._lock:
            self._check_conflicts(entry)
            current = self._entries.get(name)
            if current is None:
                self._claim(entry)
                self._entries[name] = entry
                self._changed("added", name, version)
                return
            known = self._versions.get(name) or {current.spec.version: current}
            same = known.get(version)
            if same is not None and not replace:
                raise NameTaken(
                    f"the name {name!r} is taken: registered by {same.owner}, "
                    f"wanted by {entry.owner}",
                    cure="Choose another name or version, or pass replace=True",
                )
            if len(known) > 1 or same is None:
                if _version_wire(name, version) in self._entries:
                    raise NameTaken(
                        f"{name}@{version} would be {_version_wire(name, version)!r} to a model, "
                        "which is another tool's name",
                        cure="Choose another version",
                    )
                self._versions[name] = known = {**known, version: entry}
                for one in known:
                    self._wires[_version_wire(name, one)] = f"{name}@{one}"
            newest = entry
            if len(known) > 1:
                newest = known[max(known, key=version_key)]
            self._entries[name] = newest
            self._changed("replaced" if same is not None else "added", name, version)

    def _check_conflicts(self, entry: Entry) -> None:
        """Tools that say they cannot stand side by side do not."""
        spec = entry.spec
        rival = next((n for n in spec.conflicts_with if n in self._entries), None)
        if rival is None and self._wary:
            wary = (n for n in self._wary if n in self._entries and n != spec.name)
            rival = next(
                (n for n in wary if spec.name in self._entries[n].spec.conflicts_with), None
            )
        if rival is not None:
            raise NameTaken(
                f"the tool {spec.name!r} (wanted by {entry.owner}) conflicts with {rival!r} "
                f"(registered by {self._entries[rival].owner})",
                cure="Unregister one of them",
            )
        if spec.conflicts_with:
            self._wary.add(spec.name)

    def select(
        self,
        *,
        kind: str | None = None,
        tags: Iterable[str] = (),
        category: str | None = None,
        effects: Iterable[str] | None = None,
        permissions: Iterable[str] | None = None,
    ) -> list[Entry]:
        """The entries that fit all filters: of that kind and category, with all of the tags, with
        no effects beyond those given, asking for no permissions beyond those given."""
        wanted = frozenset(tags)
        most = None if effects is None else frozenset(effects)
        held = None if permissions is None else frozenset(permissions)
        return [
            entry
            for entry in self
            if (kind is None or entry.spec.kind == kind)
            and (category is None or entry.spec.category == category)
            and wanted <= entry.spec.tags
            and (most is None or (entry.spec.effects is not None and entry.spec.effects <= most))
            and (held is None or entry.spec.permissions <= held)
        ]

    def _claim(self, entry: Entry) -> None:
        """Take the name, unless it looks like one that is taken."""
        name = entry.spec.name
        looks = look_alikes(name)
        for look in looks:
            other = self._looks.get(look)
            if other is not None:
                raise NameTaken(
                    f"the name {name!r} (wanted by {entry.owner}) looks like {other!r} "
                    f"(registered by {self._entries[other].owner})",
                    cure="Choose a name that nobody can mistake for the other",
                )
        wire = wire_name(name)
        if wire != name:
            other = self._wires.get(wire) or (wire if wire in self._entries else None)
            if other is not None:
                raise NameTaken(
                    f"the names {name!r} and {other!r} are both {wire!r} to a model",
                    cure="Choose another name",
                )
            self._wires[wire] = name
        elif name in self._wires:
            raise NameTaken(
                f"the name {name!r} (wanted by {entry.owner}) is what models see of "
                f"{self._wires[name]!r}",
                cure="Choose another name",
            )
        for look in looks:
            self._looks[look] = name

    def unregister(self, name: str) -> bool:
        """Remove a tool with all its versions, or one `name@version`. False when unknown."""
        with self._lock:
            plain, at, version = name.rpartition("@")
            if at and plain in self._entries:
                return self._drop_version(plain, version)
            entry = self._entries.pop(name, None)
            if entry is None:
                return False
            for gone in self._versions.pop(name, {}):
                self._wires.pop(_version_wire(name, gone), None)
            self._wires.pop(wire_name(name), None)
            for look in look_alikes(name):
                self._looks.pop(look, None)
            self._changed("removed", name, entry.spec.version)
            return True

    def swap(self, *, remove: Iterable[str], add: Iterable[Entry]) -> None:
        """Remove and add tools together: all of it happens, or, when a name clashes, nothing."""
        with self._lock:
            changes: list[Change] = []
            trial = Catalog()  # readers take no lock, so they must not see the way there
            trial._entries, trial._versions = dict(self._entries), dict(self._versions)
            trial._looks, trial._wires = dict(self._looks), dict(self._wires)
            trial._wary, trial.revision = set(self._wary), self.revision
            trial._listeners = [changes.append]
            for name in remove:
                trial.unregister(name)
            for entry in add:
                trial.register(entry)
            self._versions, self._looks = trial._versions, trial._looks
            self._wires, self._wary = trial._wires, trial._wary
            self._entries, self.revision = trial._entries, trial.revision
            for change in changes:
                for listener in list(self._listeners):
                    listener(change)

    def _drop_version(self, name: str, version: str) -> bool:
        known = self._versions.get(name)
        if known is None:
            return self.unregister(name) if version in self.versions(name) else False
        if version not in known:
            return False
        left = {v: e for v, e in known.items() if v != version}
        self._wires.pop(_version_wire(name, version), None)
        if len(left) > 1:
            self._versions[name] = left
        else:
            del self._versions[name]
        self._entries[name] = left[max(left, key=version_key)]
        self._changed("removed", name, version)
        return True

    def on_change(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Have `callback` told of every change; returns a function that ends it."""
        with self._lock:
            self._listeners.append(callback)

        def end() -> None:
            with self._lock:
                if callback in self._listeners:
                    self._listeners.remove(callback)

        return end

    def _changed(
        self, kind: Literal["added", "replaced", "removed"], name: str, version: str
    ) -> None:
        self.revision += 1
        if self._listeners:
            change = Change(kind, name, version, self.revision)
            for listener in list(self._listeners):
                listener(change)


def _version_wire(name: str, version: str) -> str:
    """The wire name of one version among several."""
    return wire_name(f"{name}@{version}")
