"""JSON Schema: which schemas are admitted, whether a value fits, and what is wrong if not."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain, islice
from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgspec

from toolcrib.core.canonical import canonical
from toolcrib.core.jsontext import extent, path_to, plain, pointer_to, shown
from toolcrib.core.problems import Problem, Report
from toolcrib.core.schemagraph import (
    ENDLESS,
    LONGEST_CHAIN,
    PATTERNS,
    Graph,
    Node,
    Steps,
    at,
    parts,
)
from toolcrib.core.units import did_you_mean
from toolcrib.errors import SchemaError

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError
    from jsonschema_rs import Validator as Engine

MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_NODES = 2000
MAX_EXPANSION = 10_000
"""How many subschemas one value may have to be held against."""

_TRUSTED_SCALE = 4
_KEPT = 4096
_MAX_PROBLEMS = 50
_REPORT_BUDGET = 20_000
_PATTERN_BYTES = 4 << 20
_ALL_PATTERNS_BYTES = 16 << 20

_DIALECT = r"https?://json-schema\.org/(draft-0[467]|draft/20(19-09|20-12))/schema#?"
_REFERENCE = rb'"\$(?:ref|dynamicRef|recursiveRef)":'
_ONLY_THE_ENGINE_KNOWS = rb'"(?:pattern(?:Properties)?|\$\w*(?:id|schema|[aA]nchor))":'
_NOT_LINEAR = r"\(\?<?[=!]|\\[1-9]|\\k<|\(\?P="


_type: Callable[[Any], object] = type
_HOLDERS = (Mapping, list, tuple)
_SCALARS: frozenset[object] = frozenset({str, int, bool, type(None)})
_TYPES = ("integer", "number", "string", "boolean", "object", "array", "null")
_CURES = {
    "type": f"Use one of: {', '.join(_TYPES)}",
    "items": 'Write the list as "prefixItems", or declare "$schema" draft-07',
    "exclusiveMinimum": 'Give the bound itself, or declare "$schema" draft-04',
    "exclusiveMaximum": 'Give the bound itself, or declare "$schema" draft-04',
    "required": 'List the names on the object around it: "required": ["a", "b"]',
}


class Validator:
    """A compiled schema."""

    __slots__ = ("_data", "_engine", "is_valid")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._engine = _engine(Graph(msgspec.json.decode(data)), "schema")
        self.is_valid: Callable[[Any], bool] = self._engine.is_valid
        """Whether a value fits; the engine's own method, because every call passes here."""

    def problems(
        self, instance: Any, *, unknown: str = "is not an argument of this tool"
    ) -> list[Problem]:
        """Everything that is wrong with a value, at most fifty problems; empty when it fits."""
        if self.is_valid(instance):
            return []
        graph = Graph(msgspec.json.decode(self._data))
        count, depth = extent(instance)
        visits = graph.visits(graph.root, depth)
        # The engine remembers what it has seen when it answers yes or no, but not when it
        # collects errors: branching recursion would take time exponential in the depth.
        if visits > MAX_EXPANSION:
            return _roughly(graph.root, instance)
        few = visits * count <= _REPORT_BUDGET
        errors = self._engine.iter_errors(instance) if few else self._first_error(instance)
        report = Report(graph.root, graph.secrets(), unknown)
        found = dict.fromkeys(chain.from_iterable(map(report.of, errors)))
        return list(islice(found, _MAX_PROBLEMS))

    def _first_error(self, instance: Any) -> Iterator[ValidationError]:
        import jsonschema_rs

        try:
            self._engine.validate(instance)
        except jsonschema_rs.ValidationError as error:
            yield error


_kept: OrderedDict[bytes, Validator] = OrderedDict()
_lock = threading.Lock()


def compile_schema(schema: Mapping[str, Any]) -> Validator:
    """The validator of an admitted schema; equal schemas share one."""
    data = _bytes(schema, "schema")
    with _lock:
        found = _kept.get(data)
        if found is not None:
            _kept.move_to_end(data)
            return found
    made = Validator(data)
    with _lock:
        found = _kept.setdefault(data, made)
        if len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return found


def admit(schema: Mapping[str, Any], *, where: str = "input_schema", trusted: bool = False) -> None:
    """Refuse a schema that is broken or over the budget, with a `SchemaError`.

    Everything hostile is found here, once, so that validating can be fast and unguarded.
    `trusted` is for schemas made by Toolcrib itself: they get four times the budget.
    """
    scale = _TRUSTED_SCALE if trusted else 1
    _check_shape(schema, where, scale)
    if not where.endswith(("output_schema", "outputSchema")):
        kind = schema.get("type", "object")
        if kind not in ("object", ["object"]):
            what = f"the arguments of a tool are an object, not {shown(kind)}"
            _refuse(where, ("type",), what, 'Write "type": "object"')
    dialect = schema.get("$schema", "")
    if dialect != "" and not (isinstance(dialect, str) and re.fullmatch(_DIALECT, dialect)):
        cure = "Use https://json-schema.org/draft/2020-12/schema, or leave it out"
        _refuse(where, ("$schema",), f"{shown(dialect)} is not a known dialect", cure)
    data = _bytes(schema, where)
    if len(data) > MAX_BYTES * scale:
        what = f"the schema has {len(data)} bytes, and {MAX_BYTES * scale} are allowed"
        _refuse(where, (), what, "Shorten or split it")
    root = msgspec.json.decode(data)
    _check_meaning(root, where)
    referring = re.search(_REFERENCE, data)
    if referring or re.search(_ONLY_THE_ENGINE_KNOWS, data):
        graph = Graph(root)
        if referring:
            _check_references(graph, where, MAX_EXPANSION * scale)
        _engine(graph, where)


def fill_defaults(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The defaults of a schema's own properties, or None when there are none."""
    return apply_defaults(schema, {}) or None


def apply_defaults(schema: Mapping[str, Any], value: Any) -> Any:
    """`value` with the defaults of missing properties, also in objects and lists inside it.

    The given value is not changed, and every default is a fresh copy.
    """
    return _filled(schema, schema, value, 0)


def _filled(root: Mapping[str, Any], node: Any, value: Any, hops: int) -> Any:
    if not isinstance(node, Mapping) or hops > MAX_DEPTH:
        return value
    rules = cast("Mapping[str, Any]", node)
    if isinstance(value, dict):
        value = filled = cast("Node", {**value})
        for name, rule in rules.get("properties", {}).items():
            if name in filled:
                filled[name] = _filled(root, rule, filled[name], 0)
            elif isinstance(rule, Mapping) and "default" in rule:
                filled[name] = plain(rule["default"])
    elif isinstance(value, list):
        value = [_filled(root, rules.get("items"), item, 0) for item in cast("list[Any]", value)]
    for part in rules.get("allOf", ()):
        value = _filled(root, part, value, hops + 1)
    reference = rules.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        value = _filled(root, at(root, reference), value, hops + 1)
    return value


def _bytes(schema: Mapping[str, Any], where: str) -> bytes:
    try:
        try:
            return canonical(schema)
        except TypeError:  # a frozen mapping, which msgspec does not take
            return canonical(plain(schema))
    except (TypeError, ValueError, RecursionError) as error:
        _refuse(where, (), f"the schema is not JSON: {error}", "Use plain JSON values")


def _refuse(where: str, steps: Sequence[str | int], what: str, cure: str) -> NoReturn:
    key = ".".join((where, *map(str, steps)))
    raise SchemaError(f"{where}{pointer_to(steps)}: {what}", key=key, cure=cure)


def _check_shape(schema: Any, where: str, scale: int) -> None:
    """Plain JSON within the budget; before anything that would recurse into it."""
    if not isinstance(schema, Mapping):
        _refuse(where, (), f"a schema must be an object, not {shown(schema)}", "Write {…}")
    nodes = values = 0
    stack: list[tuple[Any, Steps]] = [(schema, ())]
    while stack:
        holder, steps = stack.pop()
        nodes += 1
        values += len(holder)
        if len(steps) >= MAX_DEPTH * scale:
            what = f"nested deeper than {MAX_DEPTH * scale} levels"
            _refuse(where, steps[:4], what, 'Move parts to "$defs"')
        # A value takes two bytes at least; YAML aliases can name one list a million times.
        if nodes > MAX_NODES * scale or values > MAX_BYTES * scale // 2:
            what = f"the schema has more than {MAX_NODES * scale} parts"
            _refuse(where, (), what, "Shorten or split it")
        keyed = hasattr(holder, "items")
        for key, value in holder.items() if keyed else enumerate(holder):
            if keyed and type(key) is not str:
                _refuse(where, steps, f"the key {shown(key)} is not text", "Quote it")
            kind = _type(value)
            if kind in _SCALARS or (kind is float and isfinite(value)):
                continue
            if kind is dict or kind is list or isinstance(value, _HOLDERS):
                stack.append((cast("Any", value), (*steps, key)))
            elif not (isinstance(value, Enum) and isinstance(value, str)):
                what = f"{shown(value)} is not JSON"
                _refuse(where, (*steps, key), what, "Use plain JSON values")


def _check_meaning(root: Node, where: str) -> None:
    import jsonschema_rs

    try:
        jsonschema_rs.meta.validate(root)
    except jsonschema_rs.ValidationError as error:
        _refuse_error(root, error, where)


def _refuse_error(root: Node, error: ValidationError, where: str) -> NoReturn:
    steps = error.instance_path
    keyword = steps[-1] if steps else ""
    if error.kind.name == "format" and isinstance(error.instance, str):
        what = f"the pattern {shown(error.instance)} cannot be used"
        cure = "Correct it, or make its repetitions smaller"
        if re.search(_NOT_LINEAR, error.instance):
            cure = "Write it without look-around and back-references: they can take forever"
        _refuse(where, steps, what, cure)
    if keyword == "type" and isinstance(error.instance, str):
        near = did_you_mean(error.instance, _TYPES)
        cure = f'Write "{near}"' if near else _CURES["type"]
        _refuse(where, steps, f"{shown(error.instance)} is not a type of JSON Schema", cure)
    if error.kind.name == "$ref":
        _refuse(where, steps, f"the schema cannot be used: {error.message}", "Correct or remove it")
    problem = next(Report(root, frozenset(), "is not a keyword").of(error))
    cure = _CURES.get(str(keyword), "Correct it as JSON Schema 2020-12 says")
    _refuse(where, steps, problem.message, cure)


def _check_references(graph: Graph, where: str, most: int) -> None:
    for node in graph.nodes:
        steps = graph.steps[id(node)]
        for keyword in ("$id", "id"):
            name = node.get(keyword, "#")
            if steps and isinstance(name, str) and not name.startswith("#"):
                what = f'"{keyword}" inside a schema changes what its references mean'
                _refuse(where, (*steps, keyword), what, "Remove it")
    for steps, reference, target in graph.references:
        if not reference.startswith("#"):
            what = f"{shown(reference)} is outside this schema, and nothing is fetched"
            _refuse(where, steps, what, 'Copy it to "$defs" and refer to it there')
        if target is None:
            near = did_you_mean(reference, (f"#/$defs/{n}" for n in graph.root.get("$defs", ())))
            cure = f"Did you mean {near}?" if near else 'Define it in "$defs"'
            _refuse(where, steps, f"{shown(reference)} points at nothing", cure)
    for node in graph.nodes:
        if graph.visits(node, 0) >= ENDLESS:
            what = f"references lead on without end, or over {LONGEST_CHAIN} in a row"
            _refuse(
                where, graph.steps[id(node)], what, "Refer to it from a property or an item instead"
            )
    if graph.visits(graph.root, None) > most:
        what = f"its references multiply: one value would be checked more than {most} times"
        _refuse(where, (), what, 'Use fewer "allOf", "anyOf", "oneOf" and "$ref" inside each other')


def _engine(graph: Graph, where: str) -> Engine:
    import jsonschema_rs

    # Many patterns in one schema share one budget, or sixty kilobytes could ask for gigabytes.
    patterns = [
        n for node in graph.nodes for k in PATTERNS & node.keys() for n in parts(k, node[k])
    ]
    limit = min(_PATTERN_BYTES, _ALL_PATTERNS_BYTES // max(len(patterns), 1))
    try:
        return jsonschema_rs.validator_for(
            graph.root,
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=limit, dfa_size_limit=1 << 18),
            offline=True,
        )
    except jsonschema_rs.ValidationError as error:
        _refuse_error(graph.root, error, where)
    except ValueError as error:
        _refuse(where, (), f"the schema cannot be used: {error}", "Make it simpler")


def _roughly(schema: Node, instance: Any) -> list[Problem]:
    """Which properties do not fit, asked one by one: saying why would take too long."""
    import jsonschema_rs

    each = jsonschema_rs.validator_map_for(schema, validate_formats=True, offline=True)
    found: list[Problem] = []
    for name, value in cast("Node", instance).items() if isinstance(instance, dict) else ():
        part = each.get(f"#{pointer_to(('properties', name))}")
        if part is not None and not part.is_valid(value):
            found.append(Problem(path_to((name,)), "does not fit its schema", "schema"))
    return found[:_MAX_PROBLEMS] or [Problem("", "does not fit the schema", "schema")]
