"""The tools of one provider, compared with what was accepted of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toolcrib.core.entry import Entry
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError
from toolcrib.host.provider_settings import TrustMode
from toolcrib.host.publishing import Publish
from toolcrib.host.trust.flags import flags_of, naming_of, telling
from toolcrib.host.trust.forms import definition_of, is_relay, key_of, quarantined, without_words
from toolcrib.host.trust.lockfile import Part, Pin, Rejection, now, part_of

if TYPE_CHECKING:
    from toolcrib.host.trust.trust import Trust

State = Literal["changed", "added", "removed", "moved", "unpinnable"]
"""changed: it is not what was accepted · added: it was not there then · removed: it was, and is not
now · moved: it comes from another server · unpinnable: it cannot be written down."""

_WORDS: Mapping[State, str] = {
    "changed": "its definition is not the one that was accepted",
    "added": "it was added after the provider's tools were accepted",
    "moved": "the provider is another server than the one that was accepted",
    "removed": "it was accepted and is not listed any more",
    "unpinnable": "its definition cannot be pinned",
}


class Seen(msgspec.Struct, frozen=True):
    """One tool as its provider lists it now."""

    spec: ToolSpec
    definition: dict[str, Any]
    digest: str
    """Empty for one that cannot be pinned."""


class Drift(msgspec.Struct, frozen=True):
    """How what is listed differs from what was accepted."""

    states: Mapping[str, State]
    refused: str | None = None
    """Why all of it is refused, whatever it is."""
    moved: bool = False


class Keeper:
    """Stands between a provider and the catalog: called with all entries that the provider has
    now, it hands on those that were accepted and puts the others in quarantine."""

    def __init__(
        self,
        name: str,
        mode: TrustMode,
        upstream: Callable[[], dict[str, Any]],
        publish: Publish,
        trust: Trust,
    ) -> None:
        self.name = name
        self.mode: TrustMode = mode
        self._upstream = upstream
        self._publish = publish
        self._trust = trust
        self.seen: dict[str, Seen] = {}
        self.up = False
        """Whether the provider listed them itself, just now."""
        self.drift = Drift({})
        self._told: object = None
        self._since: dict[tuple[str, str], float] = {}
        self._odd: dict[str, list[str]] = {}
        """By digest, what looks odd in a definition."""

    def __call__(self, entries: Sequence[Entry]) -> list[str]:
        """Publish what may be; why the rest may not."""
        self.up = bool(entries) and all(entry.unavailable is None for entry in entries)
        known, own = self.seen, [entry for entry in entries if not is_relay(entry.spec)]
        self.seen = {key_of(e.spec): self._see(e.spec, known.get(key_of(e.spec))) for e in own}
        self._trust.named(self.name, self._names())
        self.drift = self._compare()
        self._announce()
        before, self._since = self._since, {}
        shown = [self._shown(entry, before) for entry in entries]
        return [*self._problems(), *(self._publish(shown) or ())]

    def _see(self, spec: ToolSpec, known: Seen | None) -> Seen:
        if known is not None and known.spec is spec:
            return known
        try:
            definition, digest = definition_of(spec, self._trust.hide)
        except ValueError:
            definition, digest = {}, ""
        return Seen(spec, definition, digest)

    def _compare(self) -> Drift:
        try:
            part = self._trust.part(self.name)
            if part is None and self.mode != "review" and self.up and self.seen:
                part = self._trust.first_use(self)
        except ConfigError as error:
            text = f"{error.message}; every tool of the provider is refused. {error.cure or ''}"
            return Drift({}, refused=text.strip())
        if part is None:
            return self._unaccepted()
        if self.upstream != part.upstream:
            return Drift(dict.fromkeys(self.seen, "moved"), moved=True)
        states: dict[str, State] = {}
        for key, seen in self.seen.items():
            pin = part.tools.get(key)
            if not seen.digest:
                states[key] = "unpinnable"
            elif pin is None:
                states[key] = "added"
            elif pin.digest != seen.digest:
                states[key] = "changed"
        if self.up:
            states |= {key: "removed" for key in part.tools if key not in self.seen}
        return Drift(states)

    def _unaccepted(self) -> Drift:
        """Nobody has accepted anything yet. What a provider that is not up will list may be taken
        on first use, and nobody can call it before."""
        first = self.mode != "review" and self._trust.mode != "frozen"
        if first and (self._trust.mode == "look" or not self.up or not self.seen):
            odd = {k: s for k, s in self.seen.items() if not s.digest}
            return Drift(dict.fromkeys(odd, "unpinnable"))
        whose = " and the lock is frozen" if self._trust.mode == "frozen" else ""
        text = f"nobody has accepted the provider's tools yet{whose}"
        return Drift(dict.fromkeys(self.seen, "added"), refused=f"{text}; {self._cure}")

    def _shown(self, entry: Entry, before: Mapping[tuple[str, str], float]) -> Entry:
        key = key_of(entry.spec)
        ours = key not in self.seen
        why = self.drift.refused or (self._strange if ours else self._why(key))
        if why is None:
            bare = self.mode == "descriptions" and not ours
            return without_words(entry, self.name) if bare else entry
        # What a server has besides tools is trusted no more than the server itself.
        mark = "" if ours else self.seen[key].digest
        since = before.get((key, mark)) or self._trust.clock.time()
        self._since[key, mark] = since
        return quarantined(entry, mark, why, since)

    def _why(self, key: str) -> str | None:
        state = self.drift.states.get(key)
        if state is None:
            return None
        rejected = self.rejection(key)
        if rejected is not None:
            return f"{rejected.by} rejected it on {rejected.rejected}; {self._cure}"
        return f"{_WORDS[state]}; {self._cure}"

    @property
    def _strange(self) -> str | None:
        """Why nothing of the server is used, when it is another one than was accepted."""
        return f"{_WORDS['moved']}; {self._cure}" if self.drift.moved else None

    @property
    def _cure(self) -> str:
        return f"look at it with `toolcrib providers review {self.name}`"

    def _problems(self) -> list[str]:
        drift = self.drift
        if drift.refused is not None:
            return [f"its tools are quarantined: {drift.refused}"] if self.up or self.seen else []
        if drift.moved:
            return [f"its tools are quarantined: {self._strange}"]
        return [
            f"{key}: {self._why(key)}" for key, state in drift.states.items() if state != "removed"
        ]

    def _announce(self) -> None:
        """Say it once: a provider that comes back with the same is no news."""
        if not self.up:
            return
        drift, digests = self.drift, {key: seen.digest for key, seen in self.seen.items()}
        mark = sorted((k, s, digests.get(k)) for k, s in drift.states.items()), drift.refused
        if mark != self._told and (drift.states or drift.refused):
            by_state: dict[str, list[str]] = {}
            for key, state in sorted(drift.states.items()):
                by_state.setdefault(state, []).append(key)
            self._trust.announce(
                "provider.drift", {"provider": self.name, "message": drift.refused, **by_state}
            )
        self._told = mark

    # What is told about it.

    @property
    def upstream(self) -> dict[str, Any]:
        """Which server it is now."""
        return self._upstream()

    def rejection(self, key: str) -> Rejection | None:
        """That a person does not want this tool as it is now."""
        part, seen = self._trust.known(self.name), self.seen.get(key)
        found = None if part is None else part.rejected.get(key)
        same = found is not None and seen is not None and found.digest == seen.digest
        return found if same else None

    @property
    def held(self) -> tuple[str, ...]:
        """The tools in quarantine."""
        if self.drift.refused is not None:
            return tuple(sorted(self.seen))
        return tuple(sorted(key for key in self.drift.states if key in self.seen))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should look at, although it is in nobody's way."""
        gone = (k for k, state in self.drift.states.items() if state == "removed")
        found = [f"{key}: {_WORDS['removed']}; {self._cure}" for key in gone]
        found += [f"{key} {flag}" for key, flags in self.flags().items() for flag in flags]
        return tuple(found)

    def flags(self) -> dict[str, list[str]]:
        """By tool, what looks odd in its words."""
        mine = {name for pair in self._names().values() for name in pair}
        others = {n for n in self._trust.names(self.name) if n not in mine and telling(n)}
        known, self._odd = self._odd, {}
        found: dict[str, list[str]] = {}
        for key, seen in self.seen.items():
            odd = known.get(seen.digest)
            odd = flags_of(seen.definition) if odd is None else odd
            self._odd[seen.digest] = odd
            if flags := [*odd, *naming_of(seen.definition, others)]:
                found[key] = flags
        return found

    def _names(self) -> dict[str, tuple[str, str]]:
        """What each of its tools is called, here and by its server."""
        seen = self.seen.items()
        return {
            key: (s.spec.name, str(s.spec.config.get("tool") or s.spec.name)) for key, s in seen
        }

    # What people do with it.

    def pins(self, by: str, keys: Sequence[str] | None = None) -> dict[str, Pin]:
        """Pins of what is listed now."""
        chosen = self.seen if keys is None else keys
        return {
            key: Pin(digest=seen.digest, accepted=now(), by=by, definition=seen.definition)
            for key in chosen
            if (seen := self.seen.get(key)) is not None and seen.digest
        }

    def accepted(self, part: Part | None, wanted: Sequence[str], by: str) -> Part:
        """The part of the lock once a person has accepted these tools as they are now."""
        # Pins of another server say nothing about this one.
        same = part is not None and part.upstream == self.upstream
        kept = dict(part.tools) if part is not None and same else {}
        for key in wanted:
            kept.pop(key, None)
        refused = {k: r for k, r in (part.rejected if part else {}).items() if k not in wanted}
        return part_of(self.upstream, {**kept, **self.pins(by, wanted)}, refused)

    def rejected(self, part: Part | None, wanted: Sequence[str], by: str) -> Part:
        """The part of the lock once a person has rejected these tools as they are now."""
        refused = dict(part.rejected) if part is not None else {}
        for key in wanted:
            if key in self.seen:
                digest = self.seen[key].digest
                refused[key] = Rejection(digest=digest, rejected=now(), by=by)
        upstream = self.upstream if part is None else part.upstream
        return part_of(upstream, {} if part is None else part.tools, refused)
