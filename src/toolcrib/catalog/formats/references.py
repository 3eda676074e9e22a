"""References inside one schema: gathered under `$defs`, or replaced by what they point to."""

from __future__ import annotations

import re
from typing import Any, cast
from urllib.parse import unquote

from toolcrib.catalog.formats.objects import merge
from toolcrib.catalog.formats.subset import Schema, each, say, types_of

LEVELS = 2
"""How often a schema is written out inside itself before its shape is left open."""

NODES = 2000
"""How many schemas are written out in all: two references to two references … grow fast."""

_HOMES = ("$defs", "definitions", "$anchor", "$dynamicAnchor")
_ODD = re.compile(r"[^A-Za-z0-9_.-]")


def gather(root: Schema) -> Schema:
    """`root` with every reference pointing into its `$defs`, which hold only what is used."""
    # Pointers such as `#` or `#/anyOf/0` would point elsewhere once the root has been reshaped.
    given: dict[str, str] = {}
    defs: Schema = {}

    def change(node: Schema) -> Schema:
        made = each(_bare(node), change)
        ref = made.pop("$ref", None)
        if ref is None:
            return made
        target = find(root, ref)
        if target is None:
            say(made, f"the shape {ref} is not described")
            return made
        if ref not in given:
            given[ref] = _unused(_label(ref), defs)
            defs[given[ref]] = {}
            defs[given[ref]] = change(target)
        return {"$ref": f"#/$defs/{given[ref]}", **made}

    made = change(root)
    return {**made, "$defs": defs} if defs else made


def inline(root: Schema) -> Schema:
    """`root` without references: each is replaced by a copy of what it points to."""
    left = NODES

    def change(node: Schema, path: tuple[str, ...]) -> Schema:
        nonlocal left
        left -= 1
        made = each(_bare(node), lambda part: change(part, path))
        ref = made.pop("$ref", None)
        if ref is None:
            return made
        target = find(root, ref)
        if target is None:
            say(made, f"the shape {ref} is not described")
            return made
        if left <= 0 or path.count(ref) >= LEVELS:
            kinds = types_of(target)
            if len(kinds) == 1:
                made.setdefault("type", kinds[0])
            say(made, f"{_label(ref)} again, in the same shape")
            return made
        return merge(made, change(target, (*path, ref)))

    return change(root, ())


def find(root: Schema, ref: Any) -> Schema | None:
    """What the local reference `ref` points to in `root`, if it is there."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    pointer = unquote(ref[1:])
    if pointer and not pointer.startswith("/"):
        return _anchored(root, pointer)
    place: Any = root
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list):
            items = cast("list[Any]", place)
            place = items[int(key)] if key.isdecimal() and int(key) < len(items) else None
        else:
            place = cast("Schema", place).get(key) if isinstance(place, dict) else None
    return cast("Schema", place) if isinstance(place, dict) else None


def _anchored(root: Schema, anchor: str) -> Schema | None:
    found: list[Schema] = []

    def look(node: Schema) -> Schema:
        if anchor in (node.get("$anchor"), node.get("$dynamicAnchor")):
            found.append(node)
        return each(node, look)

    look(root)
    return found[0] if found else None


def _bare(node: Schema) -> Schema:
    return {key: value for key, value in node.items() if key not in _HOMES}


def _label(ref: str) -> str:
    last = unquote(ref).rsplit("/", 1)[-1].lstrip("#")
    return _ODD.sub("_", last) or "root"


def _unused(label: str, taken: Schema) -> str:
    name, number = label, 2
    while name in taken:
        name, number = f"{label}_{number}", number + 1
    return name
