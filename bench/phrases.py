"""Names and descriptions of very many tools, and what somebody would look for among them."""

from __future__ import annotations

import ast
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_WORDS = (
    "read write list create delete update search send fetch file mail issue branch commit calendar "
    "event user order invoice payment customer report image video audio translate summarize deploy "
    "cluster node metric alert ticket comment page database table row query schema index cache "
    "queue topic message channel"
)
FEW = _WORDS.split()


class Described(NamedTuple):
    """What there is to know about a tool."""

    name: str
    text: str
    parameters: tuple[str, ...]


def few(count: int) -> Iterator[Described]:
    """Tools that all speak with the same fifty words: each word is in very many of them."""
    chance = random.Random(7)
    for number in range(count):
        a, b, c, d = chance.sample(FEW, 4)
        text = f"{a.title()} the {b} of a {c} by {d} in workspace {number % 977}."
        yield Described(f"{a}_{b}_{number}", text, ("a", "b", "note"))


def real(count: int) -> Iterator[Described]:
    """Tools that speak as people do: put together from what the standard library says of itself."""
    chance = random.Random(7)
    known = list(_functions())
    for number in range(count):
        one, other = chance.choice(known), chance.choice(known)
        name = f"{one.name}_{other.name}_{number}"[-100:].strip("_")
        yield Described(name, f"{one.text} {other.text}", one.parameters)


def _functions() -> Iterator[Described]:
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-z]*.py")):
        tree = ast.parse(file.read_bytes())
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("__"):
                continue
            text = ast.get_docstring(node)
            if text:
                parameters = tuple(a.arg for a in node.args.args if a.arg != "self")[:6]
                first = " ".join(text.split("\n\n")[0].split())
                yield Described(node.name.strip("_") or "x", first[:400], parameters)


def queries(tools: list[Described], count: int) -> list[str]:
    """One to five words of tools, some of them only begun."""
    chance = random.Random(11)
    made: list[str] = []
    while len(made) < count:
        words = [w.strip(".,()`'\"") for w in chance.choice(tools).text.split()]
        words = [w for w in words if len(w) > 2 and w.isalpha()]
        chosen = chance.sample(words, min(len(words), chance.choice((1, 2, 2, 3, 3, 4, 5))))
        if chosen:
            if chance.random() < 0.2:
                chosen[-1] = chosen[-1][:4]
            made.append(" ".join(chosen))
    return made
