"""One pass over the files: every mistake is noted, none stops the reading."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from toolcrib.core.jsontext import shown
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError
from toolcrib.host.config.node import Node
from toolcrib.observe.sensitive import forms_of

MASK = "********"
_QUOTED = 200
"""No message quotes more of a value."""


class Reading:
    """What one pass has found so far: files, secrets and mistakes."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.files: list[str] = []
        self.secrets: set[str] = set()
        self._mistakes: dict[tuple[object, ...], ConfigError] = {}
        self._spoiled: set[tuple[str, str]] = set()

    def spoil(self, node: Node, key: str, message: str, cure: str) -> None:
        """Note a mistake that leaves `node` without a value: nothing more is said about it."""
        self.wrong(node, key, message, cure)
        self._spoiled.add((node.origin.file, key))

    def wrong(self, node: Node, key: str, message: str, cure: str | None = None) -> None:
        """Note a mistake at the place of `node`."""
        if (node.origin.file, key) in self._spoiled:
            return
        self.add(
            ConfigError(
                message,
                file=node.origin.file,
                line=node.line,
                column=node.column,
                key=key or None,
                cure=cure,
            )
        )

    def add(self, mistake: ConfigError) -> None:
        """Note a mistake; the same one, met again through an alias, counts once."""
        self._mistakes.setdefault((mistake.where, mistake.key, mistake.message), mistake)

    def check(self) -> None:
        """Raise the first mistake in file order, with the others, if there is any."""
        if not self._mistakes:
            return
        order = {file: index for index, file in enumerate(self.files)}
        found = sorted(
            self._mistakes.values(),
            key=lambda m: (order.get(m.file or "", len(order)), m.line or 0, m.column or 0),
        )
        raise self._told(found[0], [self._told(mistake) for mistake in found[1:]])

    def _told(self, mistake: ConfigError, others: Sequence[ConfigError] = ()) -> ConfigError:
        """The mistake as it may be shown: a check elsewhere may have quoted a secret."""
        told = ConfigError(
            mistake.message,
            file=mistake.file,
            line=mistake.line,
            column=mistake.column,
            key=mistake.key,
            cure=mistake.cure,
            others=others,
        )
        conceal(told, self.secrets)
        return told

    def mask(self, text: str) -> str:
        """`text` with every secret hidden."""
        return mask(text, self.secrets)


def mask(text: str, secrets: Iterable[str]) -> str:
    """`text` with every one of `secrets` hidden, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def conceal(mistake: ConfigError, secrets: Collection[str]) -> None:
    """Hide secrets in what a mistake says, also those written otherwise or cut short. Where it
    stands is told in full: that is the path of a file that was opened, and editors need it."""
    if not secrets:
        return
    forms = sorted({form for s in secrets for form in (s, *forms_of(s))}, key=len, reverse=True)
    mistake.message = _without(mistake.message, forms)
    mistake.cure = None if mistake.cure is None else _without(mistake.cure, forms)
    mistake.args = (mistake.message,)


def _without(text: str, forms: Sequence[str]) -> str:
    for form in forms:
        text = text.replace(form, MASK)
    *parts, last = text.split("…")
    return "…".join([*(_without_beginning(part, forms) for part in parts), last])


def _without_beginning(text: str, forms: Sequence[str]) -> str:
    """A text that was cut, without the beginning of a secret at its end."""
    longest = min(len(text), _QUOTED)
    most = max(
        (
            n
            for form in forms
            for n in range(4, min(len(form), longest + 1))
            if text.endswith(form[:n])
        ),
        default=0,
    )
    return f"{text[:-most]}{MASK}" if most else text


def joined(key: str, name: str) -> str:
    """The dotted path of `name` under `key`."""
    if not 0 < len(name) <= 60 or not name.isprintable():
        name = shown(name)
    return f"{key}.{name}" if key else name


def nearest(word: str, choices: Iterable[str], what: str) -> str:
    """The cure for a word that is not one of `choices`."""
    known = list(choices)
    near = did_you_mean(word, known)
    if near is not None:
        return f"Did you mean {near}?"
    if not known:
        return f"No {what} is defined yet"
    more = ", …" if len(known) > 12 else ""
    return f"Known: {', '.join(known[:12])}{more}"
