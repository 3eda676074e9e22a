"""What is wrong with a value, in words for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.jsontext import lookup, path_to, pointer_to, shown
from toolcrib.core.units import did_you_mean

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_SPOKEN = {"integer": "an integer", "object": "an object", "array": "a list", "null": "null"}
_SENTENCES = {
    "const": "{value} is not {expected_value}",
    "minimum": "{value} is less than {limit}",
    "maximum": "{value} is more than {limit}",
    "exclusiveMinimum": "{value} is not more than {limit}",
    "exclusiveMaximum": "{value} is not less than {limit}",
    "multipleOf": "{value} is not a multiple of {multiple_of}",
    "minLength": "{value} is shorter than {limit} characters",
    "maxLength": "{value} is longer than {limit} characters",
    "pattern": "{value} does not match the pattern {pattern}",
    "format": "{value} is not in the format {format}",
    "minItems": "has fewer than {limit} items",
    "maxItems": "has more than {limit} items",
    "additionalItems": "has more than {limit} items",
    "minProperties": "has fewer than {limit} properties",
    "maxProperties": "has more than {limit} properties",
    "uniqueItems": "has the same item twice",
    "contains": "has too few items of the kind required",
    "not": "{value} is not allowed here",
    "falseSchema": "is not allowed here",
}


class Problem(msgspec.Struct, frozen=True):
    """One way in which a value does not fit its schema."""

    path: str
    """Where: `a`, `items[0].price`, or nothing for the value itself."""
    message: str
    rule: str
    """The keyword of the schema that refused it."""


class Report:
    """Says in words for people what the engine found."""

    __slots__ = ("_schema", "_secrets", "_unknown")

    def __init__(
        self, schema: dict[str, Any], secrets: frozenset[str] | None, unknown: str
    ) -> None:
        self._schema = schema
        self._secrets = secrets
        self._unknown = unknown

    def of(self, error: ValidationError) -> Iterator[Problem]:
        """The problems in one error."""
        rule, steps, facts = error.kind.name, error.instance_path, error.kind.as_dict()
        hidden = self._secrets is None or not self._secrets.isdisjoint(map(str, steps))
        value = "the value" if hidden else shown(error.instance)
        if rule == "required":
            yield Problem(path_to((*steps, facts["property"])), "is required", rule)
        elif rule in ("additionalProperties", "unevaluatedProperties"):
            yield from self._unexpected(error, facts["unexpected"])
        elif rule in ("anyOf", "oneOf"):
            yield from self._branches(error, facts["context"], value)
        elif rule == "propertyNames":
            inner: ValidationError = facts["error"]
            message = f"is not a name allowed here: {next(self.of(inner)).message}"
            yield Problem(path_to((*steps, str(inner.instance))), message, rule)
        elif rule == "type":
            yield Problem(path_to(steps), f"{value} is not {_listed(facts['types'])}", rule)
        elif rule == "enum":
            options: list[Any] = facts["options"]
            message = f"{value} is not one of {', '.join(map(shown, options[:10]))}"
            yield Problem(path_to(steps), message + ", …" * (len(options) > 10), rule)
        else:
            # Bounds may be decimals, and a constant may be an object: the schema's, so no secret.
            words = {
                name: shown(fact)
                if fact is None or isinstance(fact, str | bool)
                else str(fact)[:60]
                for name, fact in facts.items()
            }
            sentence = _SENTENCES.get(rule, "does not fit the schema")
            yield Problem(path_to(steps), sentence.format_map({**words, "value": value}), rule)

    def _unexpected(self, error: ValidationError, names: list[str]) -> Iterator[Problem]:
        steps = error.instance_path
        known = lookup(self._schema, pointer_to(error.schema_path[:-1])).get("properties", {})
        message = f"is not a property of {path_to(steps)}" if steps else self._unknown
        for name in names:
            near = did_you_mean(name, known)
            hint = f"; did you mean {near}?" if near else ""
            yield Problem(path_to((*steps, name)), message + hint, error.kind.name)

    def _branches(
        self, error: ValidationError, branches: list[list[ValidationError]], value: str
    ) -> Iterator[Problem]:
        steps = error.instance_path
        if not all(branches):
            message = f"{value} fits more than one of the {len(branches)} forms allowed here"
            yield Problem(path_to(steps), message, error.kind.name)
            return
        # A branch for another type, or with another constant in it, is not what was meant.
        wrong = [
            [e for e in b if e.kind.name == "type" and e.instance_path == steps] for b in branches
        ]
        meant = [b for b, w in zip(branches, wrong, strict=True) if not w]
        if not meant:
            types = chain.from_iterable(e.kind.as_dict()["types"] for e in chain(*wrong))
            yield Problem(path_to(steps), f"{value} is not {_listed(types)}", "type")
            return
        closer = [b for b in meant if all(e.kind.name not in ("const", "enum") for e in b)]
        if len(closer or meant) == 1:
            yield from chain.from_iterable(map(self.of, (closer or meant)[0]))
        else:
            message = f"{value} fits none of the {len(branches)} forms allowed here"
            yield Problem(path_to(steps), message, error.kind.name)


def _listed(types: Iterable[str]) -> str:
    # "null" last: "an integer or null" reads better than the engine's order.
    names = sorted(dict.fromkeys(types), key=lambda name: name == "null")
    return " or ".join(_SPOKEN.get(name, f"a {name}") for name in names)
