"""One pass over the files: every mistake is noted, none stops the reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from toolcrib.core.jsontext import shown
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError
from toolcrib.host.config.node import Node

MASK = "********"


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
        return ConfigError(
            self.mask(mistake.message),
            file=mistake.file,
            line=mistake.line,
            column=mistake.column,
            key=mistake.key,
            cure=None if mistake.cure is None else self.mask(mistake.cure),
            others=others,
        )

    def mask(self, text: str) -> str:
        """`text` with every secret hidden."""
        return mask(text, self.secrets)


def mask(text: str, secrets: Iterable[str]) -> str:
    """`text` with every one of `secrets` hidden, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def joined(key: str, name: str) -> str:
    """The dotted path of `name` under `key`."""
    plain = name if name.isprintable() and 0 < len(name) <= 60 else shown(name)
    return f"{key}.{plain}" if key else plain


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
