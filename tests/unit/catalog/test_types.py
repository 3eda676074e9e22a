"""Every kind of annotation: its schema, and what its JSON values become."""

from __future__ import annotations

import collections
import datetime as dt
import json
import re
import typing
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NewType, Optional, TypeVar, Union
from uuid import UUID

import annotated_types as at
import jsonschema_rs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Doc, TypeAliasType

from toolcrib.catalog.signature import ConversionError, Signature, describe
from toolcrib.errors import SpecError


class _Stray:
    """Means nothing in an annotation; its repr is the same in every process."""

    def __repr__(self) -> str:
        return "stray"


def taking(annotation: Any, default: Any = ...) -> Signature:
    """The signature of a function whose parameter `x` has the annotation."""

    def f(x): ...

    f.__annotations__ = {"x": annotation}
    if default is not ...:
        f.__defaults__ = (default,)
    return describe(f)


def schema_of(annotation: Any) -> dict[str, Any]:
    return taking(annotation).input_schema["properties"]["x"]


def read(annotation: Any, value: Any) -> Any:
    """Validate and convert, as a call does."""
    signature = taking(annotation)
    validator = jsonschema_rs.validator_for(signature.input_schema, validate_formats=True)
    validator.validate({"x": value})
    return signature.convert({"x": value})["x"] if signature.convert else value


def refusal(annotation: Any, value: Any) -> ConversionError:
    """How the conversion alone, without the schema, refuses a value."""
    convert = taking(annotation).convert
    assert convert is not None
    with pytest.raises(ConversionError) as caught:
        convert({"x": value})
    return caught.value


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Unit(StrEnum):
    M = "m"


class Odd(Enum):
    BAD = (1, 2)


class Empty(Enum):
    pass


Name = NewType("Name", str)
Even = NewType("Even", Annotated[int, at.MultipleOf(2)])
T = TypeVar("T")

KINDS: list[tuple[Any, dict[str, Any], Any, Any]] = [
    (int, {"type": "integer"}, 3.0, 3),
    (float, {"type": "number"}, 3, 3.0),
    (str, {"type": "string"}, "a", "a"),
    (bool, {"type": "boolean"}, True, True),
    (None, {"type": "null"}, None, None),
    (Any, {}, [1], [1]),
    (object, {}, {"a": 1}, {"a": 1}),
    (bytes, {"type": "string", "contentEncoding": "base64"}, "aGk=", b"hi"),
    (bytearray, {"type": "string", "contentEncoding": "base64"}, "aGk=", bytearray(b"hi")),
    (
        dt.datetime,
        {"type": "string", "format": "date-time"},
        "2026-01-31T09:00:00Z",
        dt.datetime(2026, 1, 31, 9, tzinfo=dt.UTC),
    ),
    (dt.date, {"type": "string", "format": "date"}, "2026-01-31", dt.date(2026, 1, 31)),
    (
        UUID,
        {"type": "string", "format": "uuid"},
        "12345678-1234-5678-1234-567812345678",
        UUID("12345678123456781234567812345678"),
    ),
    (Path, {"type": "string", "format": "path"}, "/a/b", Path("/a/b")),
    (PurePosixPath, {"type": "string", "format": "path"}, "a", PurePosixPath("a")),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
    (Literal[1, 2], {"type": "integer", "enum": [1, 2]}, 2.0, 2),
    (Literal["a", 1, None], {"enum": ["a", 1, None]}, None, None),  # noqa: PYI061
    (Literal[Color.RED], {"type": "string", "enum": ["red"]}, "red", Color.RED),
    (Color, {"type": "string", "enum": ["red", "blue"]}, "blue", Color.BLUE),
    (Level, {"type": "integer", "enum": [1, 2]}, 2.0, Level.HIGH),
    (Unit, {"type": "string", "enum": ["m"]}, "m", Unit.M),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 2.0, 2),  # noqa: UP045
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),
    (
        Union[str, list[int]],  # noqa: UP007
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
        [1.0],
        [1],
    ),
    (int | Any, {}, "x", "x"),
    (list, {"type": "array"}, [1], [1]),
    (list[int], {"type": "array", "items": {"type": "integer"}}, [1.0, 2], [1, 2]),
    (
        set[str],
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        ["a", "b"],
        {"a", "b"},
    ),
    (frozenset, {"type": "array", "uniqueItems": True}, [1], frozenset({1})),
    (
        AbstractSet[int],
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        [1.0],
        {1},
    ),
    (tuple, {"type": "array"}, [1], (1,)),
    (typing.Tuple, {"type": "array"}, [1], (1,)),  # noqa: UP006
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1.0], (1,)),
    (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": False,
            "minItems": 2,
            "maxItems": 2,
        },
        [1.0, "a"],
        (1, "a"),
    ),
    (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}, [], ()),
    (
        collections.deque[int],
        {"type": "array", "items": {"type": "integer"}},
        [1.0],
        collections.deque([1]),
    ),
    (Sequence[int], {"type": "array", "items": {"type": "integer"}}, [1.0], [1]),
    (typing.List[int], {"type": "array", "items": {"type": "integer"}}, [1.0], [1]),  # noqa: UP006
    (Iterable[str], {"type": "array", "items": {"type": "string"}}, ["a"], ["a"]),
    (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
    (
        dict[str, int],
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"a": 1.0},
        {"a": 1},
    ),
    (Mapping[str, Any], {"type": "object"}, {"a": 1}, {"a": 1}),
    (
        MutableMapping[str, bool],
        {"type": "object", "additionalProperties": {"type": "boolean"}},
        {"a": True},
        {"a": True},
    ),
    (
        dict[int, str],
        {
            "type": "object",
            "propertyNames": {"pattern": "^(0|-?[1-9][0-9]*)$"},
            "additionalProperties": {"type": "string"},
        },
        {"-7": "a"},
        {-7: "a"},
    ),
    (
        dict[Color, int],
        {
            "type": "object",
            "propertyNames": {"type": "string", "enum": ["red", "blue"]},
            "additionalProperties": {"type": "integer"},
        },
        {"red": 1.0},
        {Color.RED: 1},
    ),
    (Name, {"type": "string"}, "a", "a"),
    (Even, {"type": "integer", "multipleOf": 2}, 4.0, 4),
    (typing.LiteralString, {"type": "string"}, "a", "a"),
    ("list['int']", {"type": "array", "items": {"type": "integer"}}, [1.0], [1]),
    (typing.List["int"], {"type": "array", "items": {"type": "integer"}}, [1.0], [1]),  # noqa: UP006
]


@pytest.mark.parametrize(
    ("annotation", "schema", "value", "result"),
    KINDS,
    ids=lambda v: "set" if isinstance(v, set) else str(v)[:40],
)
def test_every_kind(annotation: Any, schema: Any, value: Any, result: Any) -> None:
    assert schema_of(annotation) == schema
    got = read(annotation, value)
    assert got == result
    assert type(got) is type(result)
    if isinstance(result, list | tuple):
        assert [type(item) for item in got] == [type(item) for item in result]


@pytest.mark.parametrize(
    ("annotation", "value", "result"),
    [
        (dt.time, "09:30", dt.time(9, 30)),
        (dt.time, "09:30:15.5", dt.time(9, 30, 15, 500000)),
        (dt.time, "09:30:00Z", dt.time(9, 30, tzinfo=dt.UTC)),
        (dt.timedelta, "PT1H30M", dt.timedelta(hours=1.5)),
        (dt.timedelta, "-P1DT0.5S", -dt.timedelta(days=1, seconds=0.5)),
        (Decimal, "19.99", Decimal("19.99")),
        (Decimal, "-1E+2", Decimal(-100)),
    ],
)
def test_text_forms_with_a_pattern(annotation: Any, value: str, result: Any) -> None:
    assert schema_of(annotation).keys() == {"type", "pattern"}
    assert read(annotation, value) == result


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 1.5),
        (list[int], [True]),
        (list[int], ["1"]),
        (list[float], [True]),
        (float, 10**400),
        (bytes, "?"),
        (bytes, 1),
        (dt.datetime, "2026-01-31T09:00:00"),
        (dt.datetime, "yesterday"),
        (dt.date, "20260131"),
        (dt.time, "25:00"),
        (dt.timedelta, "P1Y"),
        (UUID, "x"),
        (Decimal, "NaN"),
        (Decimal, "1,5"),
        (Color, "green"),
        (Color, ["red"]),
        (Level, True),
        (list[int], "no"),
        (set[Any], [[1]]),
        (tuple[int, str], [1]),
        (tuple[int, str], "no"),
        (dict[str, int], []),
        (dict[int, str], {"x": "a"}),
        (dict[int, str], {"9" * 50: "a"}),
        (int | None, "x"),
    ],
)
def test_values_that_do_not_fit_are_refused_without_being_repeated(
    annotation: Any, value: Any
) -> None:
    error = refusal(annotation, value)
    assert error.message
    assert error.path.startswith("x")
    assert "yesterday" not in str(error)


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (list[int], [1, "a"], "x[1]"),
        (list[list[int]], [[], [1, None]], "x[1][1]"),
        (tuple[int, int], [1, "a"], "x[1]"),
        (dict[str, list[int]], {"k": ["a"]}, "x.k[0]"),
        (str | list[dict[str, int]], [{"k": "a"}], "x[0].k"),
    ],
)
def test_the_path_leads_to_the_value(annotation: Any, value: Any, path: str) -> None:
    assert refusal(annotation, value).path == path


@pytest.mark.parametrize(
    ("annotation", "value", "result"),
    [
        (int | float, 1, 1),
        (float | int, 1, 1),
        (int | float, 1.0, 1.0),
        (str | dt.date, "2026-01-31", dt.date(2026, 1, 31)),
        (str | dt.date, "soon", "soon"),
        (str | Path, "a", "a"),
        (Path | str, "a", Path("a")),
        (bytes | str, "abcd", "abcd"),
        (str | Color, "red", Color.RED),
        (bool | int, True, True),
        (int | bool, True, True),
        (int | str, "1", "1"),
    ],
)
def test_unions_choose_the_most_exact_member(annotation: Any, value: Any, result: Any) -> None:
    got = read(annotation, value)
    assert got == result
    assert type(got) is type(result)


def test_a_value_that_fits_no_member_is_told_all_of_them() -> None:
    message = refusal(int | Color | list[int], 1.5).message
    assert "an integer" in message
    assert "'red'" in message
    assert "an array" in message


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (
            Annotated[int, at.Ge(1), at.Lt(9)],
            {"type": "integer", "minimum": 1, "exclusiveMaximum": 9},
        ),
        (
            Annotated[float, at.Interval(gt=0, le=1)],
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        ),
        (Annotated[int, at.MultipleOf(5)], {"type": "integer", "multipleOf": 5}),
        (Annotated[str, at.Len(1, 3)], {"type": "string", "minLength": 1, "maxLength": 3}),
        (
            Annotated[list[int], at.MinLen(1)],
            {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        ),
        (Annotated[dict[str, Any], at.MaxLen(2)], {"type": "object", "maxProperties": 2}),
        (
            Annotated[str, msgspec.Meta(pattern="^a", max_length=5)],
            {"type": "string", "pattern": "^a", "maxLength": 5},
        ),
        (Annotated[str, re.compile("^a")], {"type": "string", "pattern": "^a"}),
        (
            Annotated[int, msgspec.Meta(ge=1, description="d", title="t", examples=[2])],
            {"type": "integer", "minimum": 1, "description": "d", "title": "t", "examples": [2]},
        ),
        (
            Annotated[str, msgspec.Meta(extra_json_schema={"format": "email"})],
            {"type": "string", "format": "email"},
        ),
        (
            Annotated[int, pydantic.Field(ge=1, description="d")],
            {"type": "integer", "minimum": 1, "description": "d"},
        ),
        (Annotated[str, pydantic.Field(pattern="^a")], {"type": "string", "pattern": "^a"}),
        (Annotated[int, "words"], {"type": "integer", "description": "words"}),
        (Annotated[int, Doc("words")], {"type": "integer", "description": "words"}),
        (Annotated[int, _Stray(), int], {"type": "integer"}),
        (
            Annotated[int | None, at.Ge(0)],
            {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
        ),
        (
            list[Annotated[int, at.Ge(0), "A count."]],
            {
                "type": "array",
                "items": {"type": "integer", "minimum": 0, "description": "A count."},
            },
        ),
    ],
    ids=lambda v: str(v)[:50],
)
def test_what_annotated_says_stands_in_the_schema(annotation: Any, schema: Any) -> None:
    assert schema_of(annotation) == schema


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (Annotated[Decimal, at.Gt(0)], "0.5", "-1"),
        (Annotated[Decimal, at.MultipleOf(Decimal("0.5"))], "1.5", "1.2"),
        (Annotated[dt.date, at.Ge(dt.date(2026, 1, 1))], "2026-01-01", "2025-12-31"),
        (Annotated[bytes, at.MaxLen(2)], "aGk=", "aGkh"),
        (Annotated[bytes, at.MinLen(3)], "aGkh", "aGk="),
        (Annotated[str, at.Predicate(str.islower)], "a", "A"),
        (Annotated[dt.timedelta | None, at.Le(dt.timedelta(hours=1))], "PT1H", "PT2H"),
    ],
)
def test_bounds_json_schema_cannot_say_are_checked(annotation: Any, good: Any, bad: Any) -> None:
    read(annotation, good)
    assert refusal(annotation, bad).message.startswith(("must", "does not satisfy"))


def test_a_bound_that_cannot_be_compared_refuses_the_value() -> None:
    annotation = Annotated[dt.datetime, at.Ge(dt.date(2026, 1, 1))]
    assert "cannot be checked" in refusal(annotation, "2026-01-31T09:00:00Z").message


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (T, "type variable T"),
        (list[T], "type variable T"),
        (Callable[[], int], "no JSON form"),
        (complex, "no JSON form"),
        (type[int], "no JSON form"),
        (re.Pattern, "no JSON form"),
        (dict[float, int], "keys of a dict"),
        (Odd, "enum Odd"),
        (Empty, "no values"),
        (Literal[b"x"], "not a JSON scalar"),
        (Annotated[bool, at.Ge(1)], "bound ge=1"),
        (Annotated[int, at.MinLen(1)], "bound min_length=1"),
        (Annotated[list[int] | None, at.Ge(1)], "bound ge=1"),
        (Annotated[dt.datetime, msgspec.Meta(tz=False)], "tz=False"),
    ],
)
def test_what_has_no_json_form_is_refused_with_place_and_cure(annotation: Any, words: str) -> None:
    with pytest.raises(SpecError, match=re.escape(words)) as caught:
        taking(annotation)
    assert "function f: parameter 'x'" in caught.value.message
    assert caught.value.line
    assert caught.value.cure


Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | None")


def test_an_alias_may_contain_itself() -> None:
    signature = taking(Json)
    assert signature.input_schema["properties"]["x"] == {"$ref": "#/$defs/Json"}
    assert read(Json, {"a": [1.0, {"b": None}]}) == {"a": [1, {"b": None}]}
    assert refusal(Json, {"a": [True]}).path == "x.a[0]"


@pytest.mark.parametrize(
    ("annotation", "default", "shown"),
    [
        (Color, Color.RED, "red"),
        (dt.date, dt.date(2026, 1, 31), "2026-01-31"),
        (dt.timedelta, dt.timedelta(seconds=90), "PT90S"),
        (Path, Path("a/b"), "a/b"),
        (bytes, b"hi", "aGk="),
        (Decimal, Decimal("1.50"), "1.50"),
        (set[str], {"c", "a", "b"}, ["a", "b", "c"]),
        (tuple[int, ...], (1, 2), [1, 2]),
        (dict[int, str], {1: "a"}, {"1": "a"}),
        (UUID, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_defaults_in_json_and_back(annotation: Any, default: Any, shown: Any) -> None:
    signature = taking(annotation, default)
    assert signature.defaults == {"x": shown}
    assert signature.convert is not None
    assert signature.convert(dict(signature.defaults)) == {"x": default}


def test_a_default_without_utc_offset_is_not_shown() -> None:
    assert taking(dt.datetime, dt.datetime(2026, 1, 31)).defaults is None  # noqa: DTZ001


AWARE = st.datetimes(timezones=st.just(dt.UTC))
ROUND_TRIPS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (int, st.integers()),
    "float": (float, st.floats(allow_nan=False, allow_infinity=False)),
    "text": (str, st.text()),
    "bytes": (bytes, st.binary()),
    "datetime": (dt.datetime, AWARE),
    "date": (dt.date, st.dates()),
    "time": (dt.time, st.times()),
    "timedelta": (dt.timedelta, st.timedeltas()),
    "uuid": (UUID, st.uuids()),
    "decimal": (Decimal, st.decimals(-1000, 1000)),
    "enum": (Color, st.sampled_from(Color)),
    "optional": (Level | None, st.none() | st.sampled_from(Level)),
    "numbers": (int | float, st.integers() | st.floats(allow_nan=False, allow_infinity=False)),
    "set": (set[dt.date], st.sets(st.dates())),
    "tuple": (tuple[int, bytes], st.tuples(st.integers(), st.binary())),
    "mapping": (
        dict[int, list[Color]],
        st.dictionaries(st.integers(), st.lists(st.sampled_from(Color))),
    ),
    "union": (int | dt.date | list[UUID], st.integers() | st.dates() | st.lists(st.uuids())),
}


@pytest.mark.parametrize("kind", ROUND_TRIPS)
@given(data=st.data())
def test_values_survive_the_trip_through_json(kind: str, data: st.DataObject) -> None:
    annotation, values = ROUND_TRIPS[kind]
    value = data.draw(values)
    sent = msgspec.json.encode(msgspec.to_builtins(value, str_keys=True))
    got = read(annotation, json.loads(sent))
    assert got == value
    assert type(got) is type(value)


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_the_conversion_refuses_or_gives_the_type(value: Any) -> None:
    for annotation, kind in (
        (int | str, (int, str)),
        (Color, Color),
        (list[int], list),
        (dt.date, dt.date),
    ):
        convert = taking(annotation).convert
        assert convert is not None
        try:
            got = convert({"x": value})["x"]
        except ConversionError:
            continue
        assert isinstance(got, kind)
