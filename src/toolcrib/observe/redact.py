"""Secrets are hidden before an event exists: by key, by value, and by the look of a credential."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from toolcrib.observe.finder import Find, find_hints, find_names, find_values
from toolcrib.observe.sensitive import (
    ASSIGNED,
    MIN_SECRET,
    SHAPES,
    SHORTEST_SHAPE,
    forms_of,
    names_secret,
    own_pattern,
)

HIDDEN = "«hidden»"
"""What stands where a secret stood."""

MARK = "…"
"""What stands where a text was cut, by whoever cut it before it came here."""

PIECE = 8
"""Characters of a secret that a cut may leave beside a mark; at the plain end of a text, where
it is not known whether something is missing, half of the secret."""

MAX_DEPTH = 200
"""What is nested deeper is hidden as a whole, where a value has to be looked through."""

SHORT = 40
"""A JSON text of so many bytes is walked through sooner than it is searched."""

_type: Callable[[Any], type[object]] = type
_KEYS_KEPT = 10_000
_PLAIN: frozenset[type] = frozenset({int, float, bool, type(None)})

_Span = tuple[int, int]
_Rule = tuple[bool, Any]
"""Whether the value under a key is hidden, and the key as it is shown; None for harmless keys."""


def _cover(text: str, spans: list[_Span]) -> str:
    """`text` with every span replaced; spans that touch become one."""
    spans.sort()
    parts: list[str] = []
    begin, end = spans[0]
    done = 0
    for start, stop in (*spans[1:], (len(text) + 1, 0)):
        if start > end:
            parts += (text[done:begin], HIDDEN)
            begin, done = start, end
        end = max(end, stop)
    parts.append(text[done:])
    return "".join(parts)


def _places(form: str, text: str) -> Iterable[_Span]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + 1)


def _torn(form: str, text: str) -> Iterable[_Span]:
    """Where a text that was cut holds the rest of a secret: at its ends, and beside a mark."""
    size, half = len(text), max(PIECE, len(form) // 2)
    for begin, least in ((0, half), *((at, PIECE) for at in _beside(text, after=True))):
        piece = text[begin : begin + PIECE]
        for place, _ in _places(piece, form[1:]) if len(piece) == PIECE else ():
            rest = form[place + 1 :]
            if len(rest) >= least and text.startswith(rest, begin):
                yield begin, begin + len(rest)
    for end, least in ((size, half), *((at, PIECE) for at in _beside(text, after=False))):
        piece = text[max(0, end - PIECE) : end]
        for place, _ in _places(piece, form[:-1]) if len(piece) == PIECE else ():
            rest = form[: place + PIECE]
            if len(rest) >= least and text.endswith(rest, 0, end):
                yield end - len(rest), end


def _beside(text: str, *, after: bool) -> Iterable[int]:
    """The places where a text goes on after a mark, or was cut before one."""
    for begin, end in _places(MARK, text) if MARK in text else ():
        if after:
            yield end + (text[end : end + 1] == " ")
        else:
            yield begin - (text[begin - 1 : begin] == " ")


class Redactor:
    """Hides secrets in JSON values and in text. Safe to use from any thread."""

    def __init__(self, patterns: Iterable[str] = (), secrets: Iterable[str] = ()) -> None:
        self._own = tuple(own_pattern(pattern) for pattern in patterns)
        self.has_secrets = False
        """Whether there are values to look for in every text."""
        self._forms: tuple[str, ...] = ()
        self._joined = ""
        """All of them in one text."""
        self._numbers: frozenset[int] = frozenset()
        self.has_numbers = False
        """Whether some of them are whole numbers."""
        self._shortest = SHORTEST_SHAPE
        self._plain = _PLAIN
        self._keys: dict[Any, _Rule | None] = {}
        self._find: tuple[tuple[str, ...], Find | None] = ((), None)
        """A quick look for the values, and the forms that it was made for."""
        self._bare = self
        """The same without them."""
        self._quiet: Redactor | None = None
        """One that looks at keys only."""
        self._add(secrets)

    def add_secret(self, value: str) -> bool:
        """Hide `value` from now on; False when it is too short to be looked for."""
        return self._add((value,))

    def drop_secret(self, value: str) -> None:
        """Look no more for a value that has long been worth nothing."""
        gone = forms_of(value)
        self._forms = tuple(form for form in self._forms if form not in gone)
        self._joined = "\0".join(self._forms)
        self._keys = {}

    def _add(self, values: Iterable[str]) -> bool:
        usable = [value for value in values if len(value.strip()) >= MIN_SECRET]
        digits = (v.strip() for v in usable)
        # Before the forms: whoever sees those makes a finder of both.
        self._numbers |= {int(v) for v in digits if v.isascii() and v.isdigit() and len(v) < 1000}
        self.has_numbers = bool(self._numbers)
        forms = set(self._forms).union(*map(forms_of, usable))
        self._forms = tuple(sorted(forms, key=len))
        self._joined = "\0".join(self._forms)
        self.has_secrets = bool(self._forms)
        self._plain = _PLAIN - {int} if self._numbers else _PLAIN
        self._shortest = min((SHORTEST_SHAPE, *map(len, self._forms[:1]), *[PIECE][: len(forms)]))
        if usable:
            self._bare = self._other_one(self._shortest)
        # A fresh dictionary, after the forms: who still fills the old one does no harm.
        self._keys = {}
        return bool(usable)

    def _other_one(self, shortest: int) -> Redactor:
        """One for the same keys that knows no values and leaves shorter texts alone."""
        made = Redactor()
        made._own, made._shortest = self._own, shortest
        return made

    def hides(self, name: str) -> bool:
        """Whether the value under this key is hidden."""
        return names_secret(name) or any(own(name) for own in self._own)

    def clean_keys(self, names: Iterable[str]) -> bool:
        """Whether none of these property names would be hidden or changed."""
        return not any(self.hides(name) or self.text(name) is not name for name in names)

    def text(self, text: str) -> str:
        """`text` without secrets; the same object when there are none."""
        size = len(text)
        if size < self._shortest:
            return text
        spans: list[_Span] = []
        for form in self._forms:
            if len(form) > size:
                break
            if form in text:
                spans += _places(form, text)
        if self._forms and size >= PIECE:
            spans += self._torn(text)
        for least, hints, shape in SHAPES:
            if least > size:
                break
            for hint in hints:
                if hint in text:
                    known = shape()
                    spans += (match.span(known.groups) for match in known.finditer(text))
                    break
        if "=" in text:
            for match in re.finditer(ASSIGNED, text):
                if self.hides(match[1] or match[2]):
                    spans.append(match.span(3))
        return _cover(text, spans) if spans else text

    def _torn(self, text: str) -> list[_Span]:
        """What is left of secrets that were cut through. Most texts show at once that they have
        nothing of the kind."""
        joined = self._joined
        if MARK not in text and text[:PIECE] not in joined and text[-PIECE:] not in joined:
            return []
        return [s for form in self._forms if len(form) > PIECE for s in _torn(form, text)]

    def value(self, obj: Any, *, clear: bytes | None = None) -> Any:
        """`obj` without secrets; copied only along the way to what is hidden. `clear` is its JSON
        text, when that was found clear: keys and credential shapes are left to look for."""
        look = self
        if clear is not None:
            look = self._bare
            if len(clear) > SHORT and not find_hints()(text := clear.decode()):
                if not self._own and not find_names()(text):
                    return obj
                look = self._quiet
                if look is None:
                    look = self._quiet = self._other_one(sys.maxsize)
        return look._dict(obj, 0) if _type(obj) is dict else look._walk(obj, 0)

    def clear(self, data: bytes) -> bool:
        """Whether JSON text surely has no secret in it, whole or cut, however deep."""
        forms = self._forms
        if not forms:
            return not self._numbers
        made_for, find = self._find
        if made_for is not forms:
            find = find_values(forms, self._numbers, piece=PIECE, mark=MARK)
            self._find = (forms, find)
        return find is not None and not find(data.decode())

    def secrets_in(self, obj: Any, depth: int = 0) -> Any:
        """`obj` without the secret values themselves. Telling keys and credential shapes stay:
        a tool may have been called to give them."""
        if not self._forms:
            return obj
        if depth > MAX_DEPTH:
            return HIDDEN
        kind = _type(obj)
        if kind is str:
            spans = [span for form in self._forms if form in obj for span in _places(form, obj)]
            if len(obj) >= PIECE:
                spans += self._torn(obj)
            return _cover(obj, spans) if spans else obj
        if kind is int:
            return HIDDEN if obj in self._numbers else obj
        if kind is dict:
            return {self.secrets_in(k): self.secrets_in(v, depth + 1) for k, v in obj.items()}
        if kind is list or kind is tuple:
            return [self.secrets_in(item, depth + 1) for item in obj]
        return obj

    def encoded(self, data: bytes, *, clean: bool = False) -> bytes:
        """JSON text without secrets; the same object when there are none.

        `clean` promises that `clean_keys` is true of every key in it, which spares decoding.
        """
        # Without a backslash every string stands in the text as it is.
        if clean and b"\\" not in data:
            text = data.decode("utf-8", "replace")
            if self.text(text) is text:
                return data
        try:
            obj = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self.text(data.decode("utf-8", "replace")).encode()
        shown = self.value(obj)
        return data if shown is obj else msgspec.json.encode(shown)

    def _walk(self, obj: Any, depth: int) -> Any:
        kind = _type(obj)
        if kind is str:
            return self.text(obj)
        if kind in _PLAIN:
            return HIDDEN if kind is int and obj in self._numbers else obj
        if depth > MAX_DEPTH:
            return HIDDEN
        if kind is dict:
            return self._dict(obj, depth)
        if kind is list or kind is tuple:
            items = [self._walk(item, depth + 1) for item in obj]
            same = all(new is old for new, old in zip(items, obj, strict=True))
            return obj if same else (items if kind is list else tuple(items))
        return self._other(obj, depth)

    def _dict(self, obj: dict[Any, Any], depth: int) -> dict[Any, Any]:
        keys, plain, shortest = self._keys, self._plain, self._shortest
        # Most arguments are small and harmless: this loop says so without building anything.
        for key, item in obj.items():
            if key not in keys or keys[key]:
                break
            kind = _type(item)
            if kind is str:
                if len(item) >= shortest:
                    break
            elif kind not in plain:
                break
        else:
            return obj
        out: dict[Any, Any] | None = None
        for key, item in obj.items():
            rule = keys[key] if key in keys else self._learn(key, keys)
            key_shown = key if rule is None else rule[1]
            # True, None and "" tell whether there is a secret, and hold none.
            if rule and rule[0] and item is not None and item is not True and item is not False:
                shown = item if type(item) is str and not item else HIDDEN
            else:
                shown = self._walk(item, depth + 1)
            if out is None:
                if shown is item and key_shown is key:
                    continue
                out = {}
                for earlier, kept in obj.items():
                    if earlier is key:
                        break
                    out[earlier] = kept
            out[key_shown] = shown
        return obj if out is None else out

    def _learn(self, key: Any, keys: dict[Any, _Rule | None]) -> _Rule | None:
        name = key if isinstance(key, str) else str(key)
        hide, shown = self.hides(name), self.text(name)
        rule = (hide, key if shown is name else shown) if hide or shown is not name else None
        # Keys come from callers too: their number must not become ours.
        if len(keys) < _KEYS_KEPT:
            keys[key] = rule
        return rule

    def _other(self, obj: Any, depth: int) -> Any:
        """Anything that is no JSON value: looked at in the form in which it would be written."""
        if isinstance(obj, (bytes, bytearray)):
            text = obj.decode("utf-8", "replace")
            return obj if self.text(text) is text else HIDDEN
        try:
            plain = msgspec.to_builtins(obj, enc_hook=str)
        except Exception:
            # A `__str__` may raise what it likes; what cannot be looked at is not shown.
            return HIDDEN
        shown = self._walk(plain, depth + 1)
        return obj if shown is plain else shown
