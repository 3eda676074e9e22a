"""`extends`: profiles put together from what they and their parents say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from toolcrib.core.profile import ApprovalRules, Listing, Profile
from toolcrib.host.config.profiles import Draft
from toolcrib.host.config.reading import Reading, joined, nearest


def resolve(
    drafts: Mapping[str, Draft], written: Collection[str], reading: Reading
) -> dict[str, Profile]:
    """Every profile with its parents' share; unknown parents and circles are mistakes.

    `written` names all profiles of the files, also those that could not be read.
    """
    whole = {name for name in drafts if _check_chain(name, drafts, written, reading)}
    return {name: _profile(name, drafts) for name in drafts if name in whole}


def _check_chain(
    name: str, drafts: Mapping[str, Draft], written: Collection[str], reading: Reading
) -> bool:
    chain = [name]
    while (parent := drafts[chain[-1]].given.get("extends")) is not None:
        draft = drafts[chain[-1]]
        place = draft.node.get("extends") or draft.node
        key = joined(joined("profiles", chain[-1]), "extends")
        if parent in written and parent not in drafts:
            return False
        if parent not in drafts:
            message = f"{key} names {place.shown}, and there is no such profile"
            others = [other for other in written if other != chain[-1]]
            reading.wrong(place, key, message, nearest(parent, others, "other profile"))
            return False
        if parent in chain:
            circle = chain[chain.index(parent) :]
            # Told once, where the circle's first profile in file order stands.
            if name == next(other for other in drafts if other in circle):
                place = drafts[name].node.get("extends") or drafts[name].node
                key = joined(joined("profiles", name), "extends")
                message = f"{key} goes in a circle: {' → '.join([*circle, parent])}"
                reading.wrong(place, key, message, "Remove one extends")
            return False
        chain.append(parent)
    return True


def _profile(name: str, drafts: Mapping[str, Draft]) -> Profile:
    draft = drafts[name]
    chain = [draft]
    while (parent := chain[0].given.get("extends")) is not None:
        chain.insert(0, drafts[parent])
    merged: dict[str, Any] = {"rules": (), "limits": (), "approval": {}, "policies": {}}
    merged |= {"versions": {}, "pins": {}, "listing": {}}
    for part in chain:
        given = part.given
        for key in ("rules", "limits"):
            merged[key] = (*merged[key], *given.get(key, ()))
        for key in ("approval", "versions", "pins", "listing"):
            merged[key] = {**merged[key], **given.get(key, {})}
        for tool, knobs in given.get("policies", {}).items():
            merged["policies"][tool] = {**merged["policies"].get(tool, {}), **knobs}
        for key in ("default", "conceal", "max_depth", "isolation"):
            if key in given:
                merged[key] = given[key]
    merged["approval"] = ApprovalRules(**merged["approval"])
    listing: dict[str, Any] = merged["listing"]
    if listing:
        listing.setdefault("mode", "search")
    merged["listing"] = Listing(**listing)
    return Profile(
        name=name,
        trust=draft.given.get("trust", 0),
        extends=draft.given.get("extends"),
        source=draft.node.source,
        **merged,
    )
