"""The tools of a store, as specs."""

from __future__ import annotations

from typing import Any

from toolcrib.core.spec import Effect, ToolSpec
from toolcrib.providers.storage.settings import Action, Scope, StorageSettings

KIND = "storage"
MOST_LISTED = 1000
MOST_FOUND = 100

_WHOSE: dict[Scope, str] = {
    "global": "Everybody sees the same data.",
    "session": "The data is this session's own and goes when it ends.",
    "principal": "The data is your own; nobody else sees it.",
}
_EFFECTS: dict[Action, frozenset[Effect]] = {
    "read": frozenset({"read"}),
    "write": frozenset({"write"}),
    "list": frozenset({"read"}),
    "delete": frozenset({"write", "destructive"}),
    "search": frozenset({"read"}),
}
_SAYS: dict[Action, str] = {
    "read": "Read the value under a key of the store {name}.",
    "write": "Write a value under a key of the store {name}, in place of what is there.",
    "list": "List the keys of the store {name}, in order.",
    "delete": "Delete a key of the store {name} with its value.",
    "search": "Find the keys of the store {name} whose name or texts contain some words.",
}
_VERSION = {"type": "integer", "minimum": 1}
_FOUND: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"key": {"type": "string"}, "version": _VERSION},
        "required": ["key", "version"],
        "additionalProperties": False,
    },
}
_OUTPUTS: dict[Action, dict[str, Any]] = {
    "read": {"value": True, "version": _VERSION},
    "write": {"version": _VERSION},
    "list": {"items": _FOUND, "cursor": {"type": ["string", "null"]}},
    "delete": {"deleted": {"type": "boolean"}},
    "search": {"items": _FOUND, "more": {"type": "boolean"}},
}


def specs(name: str, settings: StorageSettings) -> dict[Action, ToolSpec]:
    """The tools of the store `name`, by what they do."""
    return {action: _spec(name, action, settings) for action in settings.tools}


def _spec(name: str, action: Action, settings: StorageSettings) -> ToolSpec:
    properties, required = _inputs(action, settings)
    about = (_SAYS[action].format(name=name), settings.description, _WHOSE[settings.scope])
    return ToolSpec(
        name=f"{settings.prefix}-{action}",
        description=" ".join(filter(None, about)),
        kind=KIND,
        input_schema=_object(properties, required),
        output_schema=_object(_OUTPUTS[action], list(_OUTPUTS[action])),
        config={"store": name, "action": action, "scope": settings.scope},
        effects=_EFFECTS[action],
        # A change is not made twice by itself: in between, the key may be somebody else's work.
        idempotent=action in ("read", "list", "search"),
        category="storage",
    )


def _inputs(action: Action, settings: StorageSettings) -> tuple[dict[str, Any], list[str]]:
    room = settings.room
    key = {"type": "string", "description": f"1 to {room.max_key} characters."}
    condition = {
        "type": ["integer", "null"],
        "minimum": 0,
        "default": None,
        "description": "Only if the key is in this version; 0 means: only if it does not exist.",
    }
    if action == "read":
        return {"key": key}, ["key"]
    if action == "delete":
        return {"key": key, "if_version": condition}, ["key"]
    if action == "write":
        value = {"description": f"Any JSON value, up to {room.max_value} bytes."}
        return {"key": key, "value": value, "if_version": condition}, ["key", "value"]
    if action == "list":
        return {
            "prefix": {"type": "string", "default": "", "description": "What keys begin with."},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "default": 100},
            "cursor": {
                "type": ["string", "null"],
                "default": None,
                "description": "Where the list before this one ended.",
            },
        }, []
    return {
        "text": {
            "type": "string",
            "minLength": 1,
            "description": "Taken as it is; upper and lower case are the same.",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND, "default": 20},
    }, ["text"]


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
