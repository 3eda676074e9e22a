"""Values under constraints: the examples pass the real tests, and "there is none" is true."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.core.profile import Constraint
from toolcrib.host.verify.automaton import Language, search
from toolcrib.host.verify.patterns import glob_language, regex_language
from toolcrib.host.verify.satisfiable import MISSING, Solver
from toolcrib.host.verify.values import Literal
from toolcrib.pipeline.patterns import glob, regex

REGEXES = [
    "^a$", "a|^b$", "^(a|b)*c$", "[a-c]{2,3}$", "^[^/]+/x?$", r"^\d+\.\d$", r"^\w+(-\w+)*$",
    "^a.c$", "(?:ab)+?", "^(?P<n>x)y$", r"^[\w.-]{1,4}$", r"\/", "^$", "", "^(|a)b$", "x{0,2}y",
]  # fmt: skip
UNCLEAR = [r"\bx", r"\p{L}", "(?i)a", "a^b", "a$b", r"^[a&&b]$", r"\x41", "a**", "[[:alpha:]]"]
GLOBS = ["*", "**", "a*", "*/b", "a/**/c", "?", "a?c", "x.y*", "[a]", "release/*"]


def _accepts(language: Language, text: str) -> bool:
    states = language.begin
    for char in text:
        states = language.step(states, ord(char))
    return language.accepts(states)


_texts = st.text(st.sampled_from("abcxy/.-1 \n_é"), max_size=6)


@settings(max_examples=30, deadline=None)
@given(_texts)
def test_automata_agree_with_the_engine(text: str) -> None:
    for expression in REGEXES:
        language = regex_language((expression,))
        assert language is not None
        assert _accepts(language, text) == regex(expression)(text), expression
    for pattern in GLOBS:
        language = glob_language((pattern,))
        assert language is not None
        assert _accepts(language, text) == glob(pattern)(text), pattern


@pytest.mark.parametrize("expression", UNCLEAR)
def test_an_expression_beyond_the_everyday_is_left_alone(expression: str) -> None:
    assert regex_language((expression,)) is None


@pytest.mark.parametrize("expression", REGEXES)
def test_search_finds_a_text_that_the_engine_accepts(expression: str) -> None:
    language = regex_language((expression,))
    assert language is not None
    found = search([language])
    assert found.texts
    assert all(regex(expression)(text) for text in found.texts)


def test_search_proves_that_there_is_no_text() -> None:
    narrow, wide = glob_language(("a*",)), regex_language(("^b",))
    assert narrow is not None
    assert wide is not None
    assert search([narrow, wide]) == ([], True)
    everything = glob_language(("**",))
    assert everything is not None
    assert search([narrow], [everything]) == ([], True)


def test_search_gives_up_beyond_its_budget() -> None:
    language = regex_language(("^(a|b){40}c$",))
    assert language is not None
    assert search([language], budget=10) == ([], False)


def _schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


TEXT = {"type": "string"}
NUMBER = {"type": "number"}
WHOLE = {"type": "integer"}
LIST = {"type": "array", "items": TEXT}


def _literal(kind: Any, value: Any, holds: bool = True, every: bool = True) -> Literal:
    return Literal(Constraint(argument="a", kind=kind, value=value), holds, every)


def _solve(schema: dict[str, Any], *literals: Literal) -> Any:
    return Solver(_schema(a=schema)).solve("a", literals)


@pytest.mark.parametrize(
    ("schema", "literals"),
    [
        (TEXT, [_literal("in", ["a"]), _literal("not_in", ["a"])]),
        (TEXT, [_literal("in", ["a"]), _literal("in", ["b"])]),
        (TEXT, [_literal("glob", "release/*"), _literal("prefix", "main")]),
        (TEXT, [_literal("prefix", "x"), _literal("regex", "^y")]),
        (TEXT, [_literal("prefix", "long"), _literal("max_length", 3)]),
        (TEXT, [_literal("glob", "**", holds=False), _literal("max_length", 9)]),
        (TEXT, [_literal("path_under", "/etc"), _literal("path_under", "/srv")]),
        (TEXT, [_literal("path_under", "/etc/app"), _literal("path_under", "/etc", holds=False)]),
        (TEXT, [_literal("host_in", ["a.org"]), _literal("host_in", ["*.b.org"])]),
        (TEXT, [_literal("min", 3)]),
        (TEXT, [_literal("max_items", 3)]),
        ({"enum": ["dev", "test"]}, [_literal("glob", "prod*")]),
        ({"enum": ["dev", "test"]}, [_literal("prefix", ["d", "t"], holds=False)]),
        ({"type": "string", "pattern": "^v[0-9]+$"}, [_literal("prefix", "x")]),
        ({"type": "string", "maxLength": 2}, [_literal("glob", "abc*")]),
        (NUMBER, [_literal("min", 5), _literal("max", 3)]),
        (NUMBER, [_literal("min", 5), _literal("max", 5), _literal("not_in", [5])]),
        (WHOLE, [_literal("min", 5.2), _literal("max", 5.8)]),
        ({"type": "integer", "maximum": 9}, [_literal("min", 10)]),
        ({"type": "boolean"}, [_literal("in", [1])]),
        ({"type": "boolean"}, [_literal("not_in", [True, False])]),
        (LIST, [_literal("in", ["a"]), _literal("in", ["a"], holds=False, every=False)]),
        ({"type": "object"}, [_literal("prefix", "x")]),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, [_literal("max", 3)]),
    ],
)
def test_there_is_no_such_value(schema: dict[str, Any], literals: list[Literal]) -> None:
    answer = Solver(_schema(a=schema) | {"required": ["a"]}).solve("a", literals)
    assert answer.values == ()
    assert answer.impossible


@pytest.mark.parametrize(
    ("schema", "literals", "value"),
    [
        (TEXT, [_literal("glob", "release/*")], "release/x"),
        (
            TEXT,
            [_literal("prefix", "pu"), _literal("max_length", 4), _literal("regex", "h$")],
            "puh",
        ),
        (TEXT, [_literal("path_under", "/etc")], "/etc/x"),
        (TEXT, [_literal("path_under", "/etc"), _literal("glob", "**.conf")], "/etc/x.conf"),
        (TEXT, [_literal("host_in", ["*.b.org"])], "https://zz-fresh.b.org/"),
        (TEXT, [_literal("host_in", ["a.org"]), _literal("prefix", "http://")], "http://a.org/x"),
        (TEXT, [_literal("max_length", 5, holds=False)], "xxxxxx"),
        (WHOLE, [_literal("min", 5), _literal("not_in", [5, 6])], 7),
        (NUMBER, [_literal("min", 100), _literal("in", [100], holds=False)], 101),
        ({"enum": ["dev", "prod"]}, [_literal("glob", "p*")], "prod"),
        (LIST, [_literal("in", ["a"])], ["a"]),
        (LIST, [_literal("max_items", 2, holds=False), _literal("in", ["a"])], ["a", "a", "a"]),
        ({}, [_literal("min", 3)], 3),
        ({"type": ["string", "null"]}, [_literal("in", [None])], None),
    ],
)
def test_there_is_such_a_value(schema: dict[str, Any], literals: list[Literal], value: Any) -> None:
    assert _solve(schema, *literals).values[0] == value


def test_one_bad_item_is_enough_for_a_denial() -> None:
    bad = _literal("prefix", "/etc", every=False)
    good = _literal("prefix", "/srv", holds=False, every=True)
    (found, *_) = _solve(LIST, bad, good).values
    assert any(item.startswith("/etc") for item in found)


def test_an_argument_left_out_meets_no_constraint() -> None:
    denied = _literal("in", ["a"], holds=False, every=False)
    assert MISSING in _solve(TEXT, denied).values
    assert MISSING not in _solve(TEXT, _literal("not_in", ["a"])).values
    with_default = {"type": "string", "default": "a"}
    assert MISSING not in _solve(with_default, denied).values
    needed = Solver(_schema(a=TEXT) | {"required": ["a"]})
    assert MISSING not in needed.solve("a", [denied]).values


def test_an_argument_that_the_tool_does_not_have() -> None:
    solver = Solver(_schema(b=TEXT))
    assert solver.solve("a", [_literal("in", ["x"])]).impossible
    assert solver.solve("a", [_literal("in", ["x"], holds=False)]).values == (MISSING,)


def test_what_is_not_understood_is_not_called_impossible() -> None:
    clever = _literal("regex", r"\bx\b")
    other = _literal("glob", "y*")
    answer = _solve(TEXT, clever, other)
    assert not answer.impossible
    conditional = {"type": "string", "not": {"const": "a"}}
    assert not _solve(conditional, _literal("in", ["a"])).impossible


def test_paths_reach_into_objects_and_references() -> None:
    schema = {
        "type": "object",
        "properties": {"target": {"$ref": "#/$defs/target"}},
        "required": ["target"],
        "$defs": {
            "target": {
                "type": "object",
                "properties": {"env": {"enum": ["dev", "prod"]}, "size": {"type": "integer"}},
                "required": ["env", "size"],
                "additionalProperties": False,
            }
        },
    }
    solver = Solver(schema)
    wanted = Literal(Constraint(argument="target.env", kind="prefix", value="p"), True, True)
    answer = solver.solve("target.env", [wanted])
    assert answer.values == ("prod",)
    assert solver.build({"target.env": "prod"}) == {"target": {"env": "prod", "size": 0}}
    assert solver.solve("target.name", [wanted]).impossible


def test_a_schema_that_contains_itself() -> None:
    tree: dict[str, Any] = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "minItems": 1},
        },
        "required": ["name", "children"],
    }
    solver = Solver(_schema(a={"$ref": "#/$defs/tree"}) | {"$defs": {"tree": tree}})
    wanted = Literal(Constraint(argument="a.name", kind="prefix", value="p"), True, True)
    assert solver.solve("a.name", [wanted]).values[0].startswith("p")
