"""Classes with named fields as parameters: their schema, and the objects that arrive."""

from __future__ import annotations

import datetime as dt
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
)

import jsonschema_rs
import msgspec
import pydantic
import pytest
import typing_extensions
from annotated_types import Ge

from toolcrib.catalog.signature import ConversionError, Signature, describe
from toolcrib.errors import SpecError

T = TypeVar("T")


def taking(annotation: Any, default: Any = ...) -> Signature:
    """The signature of a function whose parameter `x` has the annotation."""

    def f(x): ...

    f.__annotations__ = {"x": annotation}
    if default is not ...:
        f.__defaults__ = (default,)
    return describe(f)


def definition(annotation: Any) -> dict[str, Any]:
    """The schema of the class itself, which stands in `$defs`."""
    schema = taking(annotation).input_schema
    name = schema["properties"]["x"]["$ref"].removeprefix("#/$defs/")
    return schema["$defs"][name]


def read(annotation: Any, value: Any) -> Any:
    signature = taking(annotation)
    validator = jsonschema_rs.validator_for(signature.input_schema, validate_formats=True)
    validator.validate({"x": value})
    return signature.convert({"x": value})["x"] if signature.convert else value


def refusal(annotation: Any, value: Any) -> ConversionError:
    convert = taking(annotation).convert
    assert convert is not None
    with pytest.raises(ConversionError) as caught:
        convert({"x": value})
    return caught.value


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True, kw_only=True)
class Order:
    """An order.

    Attributes:
        items: What is bought.
    """

    items: list[Point]
    due: dt.date | None = None
    tags: set[str] = field(default_factory=set)
    stamp: float = field(default_factory=lambda: 1 / 0)
    price: Annotated[Decimal, Ge(0), "In euros."] = Decimal("1.5")
    scale: InitVar[int] = 1
    kind: ClassVar[str] = "order"
    total: int = field(init=False, default=0)

    def __post_init__(self, scale: int) -> None:
        if scale < 0:
            raise ValueError("scale must not be negative")
        object.__setattr__(self, "total", scale * len(self.items))


def test_a_dataclass_arrives_as_itself() -> None:
    assert definition(Point) == {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert read(Point, {"x": 1.0}) == Point(1, 0)


def test_a_dataclass_with_everything() -> None:
    found = definition(Order)
    assert found["description"] == "An order."
    assert found["required"] == ["items"]
    assert found["properties"] == {
        "items": {
            "type": "array",
            "items": {"$ref": "#/$defs/Point"},
            "description": "What is bought.",
        },
        "due": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
        "tags": {
            "type": "array",
            "items": {"type": "string"},
            "uniqueItems": True,
            "default": [],
        },
        "stamp": {"type": "number"},
        "price": found["properties"]["price"],
        "scale": {"type": "integer", "default": 1},
    }
    assert found["properties"]["price"]["description"] == "In euros."
    assert found["properties"]["price"]["default"] == "1.5"
    got = read(
        Order,
        {"items": [{"x": 1}], "due": "2026-01-31", "tags": ["a"], "stamp": 1, "scale": 3},
    )
    assert got.items == [Point(1)]
    assert (got.due, got.tags, got.total) == (dt.date(2026, 1, 31), {"a"}, 3)


def test_what_a_class_says_against_its_values_is_reported() -> None:
    error = refusal(Order, {"items": [], "stamp": 1, "scale": -1})
    assert (error.path, error.message) == ("x", "scale must not be negative")


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({"items": [{"x": 1}, {"y": 2}]}, "x.items[1].x", "is required"),
        ({"items": [], "color": 1}, "x.color", "is not a field"),
        ({"items": [{"x": "a"}]}, "x.items[0].x", "expected an integer, not text"),
        ([], "x", "expected an object, not an array"),
    ],
)
def test_the_path_leads_into_the_object(value: Any, path: str, words: str) -> None:
    error = refusal(Order, value)
    assert (error.path, error.message) == (path, words)


def test_a_dataclass_as_default() -> None:
    signature = taking(Point, Point(1, 2))
    assert signature.defaults == {"x": {"x": 1, "y": 2}}
    assert signature.convert is not None
    assert signature.convert(dict(signature.defaults)) == {"x": Point(1, 2)}


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


def test_a_class_may_contain_itself() -> None:
    assert definition(Tree)["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert read(Tree, {"value": 1.0, "children": [{"value": 2}]}) == Tree(1, [Tree(2)])
    assert refusal(Tree, {"value": 1, "children": [{"value": "x"}]}).path == "x.children[0].value"


def test_too_deep_nesting_is_refused() -> None:
    value: dict[str, Any] = {"value": 1}
    for _ in range(5000):
        value = {"value": 1, "children": [value]}
    error = refusal(Tree, value)
    assert (error.path, error.message) == ("x", "is nested too deep")


def test_a_long_key_is_cut_in_the_path() -> None:
    assert len(refusal(Point, {"k" * 10_000: 1}).path) < 100


def test_classes_of_one_name_are_kept_apart() -> None:
    def make(kind: Any) -> Any:
        @dataclass
        class Same:
            value: Any

        Same.__annotations__ = {"value": kind}
        return Same

    first, second = make(int), make(str)
    schema = taking(tuple[first, second]).input_schema
    assert [d["properties"]["value"] for d in schema["$defs"].values()] == [
        {"type": "integer"},
        {"type": "string"},
    ]
    assert list(schema["$defs"]) == ["Same", "Same_2"]
    got = read(tuple[first, second], [{"value": 1.0}, {"value": "a"}])
    assert [type(item) for item in got] == [first, second]


@dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = field(default_factory=list)


def test_generic_classes_with_their_types_named() -> None:
    assert read(Box[int], {"content": 1.0, "more": [2.0]}) == Box(1, [2])
    schema = taking(tuple[Box[int], Box[str]]).input_schema
    assert list(schema["$defs"]) == ["Box_int", "Box_str"]
    with pytest.raises(SpecError, match="type variable T"):
        taking(Box)


def test_a_local_class_may_contain_itself() -> None:
    @dataclass
    class Local:
        inner: Local | None = None

    assert read(Local, {"inner": {"inner": None}}) == Local(Local(None))


def test_an_unknown_name_in_a_class_is_refused_with_the_field() -> None:
    @dataclass
    class Wrong:
        fine: int
        bad: list[Nowhere]  # noqa: F821

    with pytest.raises(SpecError, match=r"'Wrong\.bad' uses 'Nowhere'"):
        taking(Wrong)


@dataclass
class Cat:
    lives: int


@dataclass
class Dog:
    tricks: list[str]


def test_a_union_of_classes() -> None:
    schema = taking(Cat | Dog | None).input_schema["properties"]["x"]
    assert schema["anyOf"] == [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}, {"type": "null"}]
    assert read(Cat | Dog | None, {"tricks": ["sit"]}) == Dog(["sit"])
    assert read(Cat | Dog | None, {"lives": 9.0}) == Cat(9)


class Movie(TypedDict):
    """A movie."""

    title: str
    year: NotRequired[int]


class Partial(TypedDict, total=False):
    a: Required[str]
    b: Annotated[int, "The second."]


class Plain(TypedDict):
    a: str


def test_typed_dicts() -> None:
    assert definition(Movie) == {
        "type": "object",
        "description": "A movie.",
        "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["title"],
        "additionalProperties": False,
    }
    assert read(Movie, {"title": "M", "year": 1931.0}) == {"title": "M", "year": 1931}
    assert definition(Partial)["required"] == ["a"]
    assert definition(Partial)["properties"]["b"]["description"] == "The second."
    assert refusal(Movie, {"year": 1}).path == "x.title"


class Extended(typing_extensions.TypedDict):
    a: int


def test_typed_dicts_of_typing_extensions() -> None:
    assert definition(Extended)["required"] == ["a"]
    assert read(Extended, {"a": 1.0}) == {"a": 1}


def test_a_typed_dict_of_text_needs_no_conversion() -> None:
    assert taking(Plain).convert is None


class Span(NamedTuple):
    """From here to there."""

    start: int
    end: int = 9


def test_named_tuples_are_arrays_whose_places_have_titles() -> None:
    assert definition(Span) == {
        "type": "array",
        "prefixItems": [
            {"title": "start", "type": "integer"},
            {"title": "end", "type": "integer", "default": 9},
        ],
        "items": False,
        "minItems": 1,
        "maxItems": 2,
        "description": "From here to there.",
    }
    assert read(Span, [1.0]) == Span(1, 9)
    assert type(read(Span, [1, 2])) is Span
    assert refusal(Span, []).path == "x"
    assert taking(Span, Span(1, 2)).defaults == {"x": [1, 2]}


class User(msgspec.Struct, rename="camel"):
    """A user."""

    full_name: str
    age: Annotated[int, msgspec.Meta(ge=0)] = 0
    friends: list[User] = []


class Circle(msgspec.Struct, tag="circle"):
    r: float


class Square(msgspec.Struct, tag="square"):
    r: float


class Pair(msgspec.Struct, array_like=True):
    a: int
    b: str = "x"


def test_structs() -> None:
    found = definition(User)
    assert found["description"] == "A user."
    assert found["properties"] == {
        "fullName": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "default": 0},
        "friends": {"type": "array", "items": {"$ref": "#/$defs/User"}, "default": []},
    }
    got = read(User, {"fullName": "A", "friends": [{"fullName": "B", "age": 3.0}]})
    assert got == User("A", 0, [User("B", 3)])


def test_tagged_structs_are_told_apart() -> None:
    assert definition(Circle)["properties"]["type"] == {"type": "string", "enum": ["circle"]}
    assert definition(Circle)["required"] == ["type", "r"]
    assert read(Circle | Square, {"type": "square", "r": 1}) == Square(1.0)
    assert refusal(Circle, {"type": "square", "r": 1}).path == "x.type"


def test_structs_that_are_arrays() -> None:
    assert definition(Pair)["type"] == "array"
    assert read(Pair, [1.0]) == Pair(1, "x")


class Thing:
    """Nothing that JSON could say."""


class Address(pydantic.BaseModel):
    """Where somebody lives."""

    street: str = pydantic.Field(min_length=1)
    since: dt.date | None = None


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    name: str
    born: dt.date
    address: Address | None = None


class Node(pydantic.BaseModel):
    value: int
    next: Node | None = None


def test_pydantic_models() -> None:
    found = definition(Address)
    assert found["description"] == "Where somebody lives."
    assert found["properties"]["street"]["minLength"] == 1
    assert read(Address, {"street": "A", "since": "2026-01-31"}) == Address(
        street="A", since=dt.date(2026, 1, 31)
    )


def test_strict_pydantic_models_take_dates_from_json() -> None:
    got = read(Person, {"name": "A", "born": "2000-01-31", "address": {"street": "S"}})
    assert got == Person(name="A", born=dt.date(2000, 1, 31), address=Address(street="S"))
    assert set(taking(Person).input_schema["$defs"]) == {"Person", "Address"}


def test_a_pydantic_model_may_contain_itself() -> None:
    schema = taking(Node).input_schema
    assert list(schema["$defs"]) == ["Node"]
    got = read(Node, {"value": 1, "next": {"value": 2}})
    assert got == Node(value=1, next=Node(value=2))
    error = refusal(Node, {"value": 1, "next": {"value": "secret"}})
    assert error.path == "x.next.value"
    assert "secret" not in str(error)


def test_names_inside_pydantic_models_do_not_clash() -> None:
    own = Address

    def make() -> Any:
        @dataclass
        class Address:
            zip: int

        return Address

    other = make()
    schema = taking(tuple[other, Person, own]).input_schema
    validator = jsonschema_rs.validator_for(schema)
    street = {"street": "S"}
    person = {"name": "A", "born": "2000-01-31", "address": street}
    assert not validator.is_valid({"x": [street, person, street]})
    got = read(tuple[other, Person, own], [{"zip": 1.0}, person, street])
    assert [type(item) for item in got] == [other, Person, own]


def test_a_pydantic_model_in_a_dataclass_and_as_default() -> None:
    signature = taking(Address | None, Address(street="A"))
    assert signature.defaults == {"x": {"street": "A", "since": None}}
    assert read(list[Address], [{"street": "A"}]) == [Address(street="A")]
    assert refusal(list[Address], [{"street": "A"}, {"street": ""}]).path == "x[1].street"


def test_a_pydantic_model_without_json_form_is_refused() -> None:
    class Opaque(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

        thing: Thing

    with pytest.raises(SpecError, match="Opaque"):
        taking(Opaque)


def test_pydantic_field_as_default() -> None:
    def f(
        a: int = pydantic.Field(ge=1, description="The first."),
        b: int = pydantic.Field(2, le=5),
    ) -> Any:
        return a, b

    signature = describe(f)
    assert signature.input_schema["properties"] == {
        "a": {"type": "integer", "minimum": 1, "description": "The first."},
        "b": {"type": "integer", "maximum": 5, "default": 2},
    }
    assert signature.input_schema["required"] == ["a"]
    assert signature.defaults == {"b": 2}

    def g(a: list[int] = pydantic.Field(default_factory=list)) -> None: ...  # noqa: B008

    with pytest.raises(SpecError, match="default_factory"):
        describe(g)


def test_a_pydantic_field_whose_default_json_cannot_say_is_filled() -> None:
    marker = object()

    def f(a: Any = pydantic.Field(marker)) -> None: ...  # noqa: B008

    convert = describe(f).convert
    assert convert is not None
    assert convert({}) == {"a": marker}


def test_output_objects_may_have_more_than_their_fields() -> None:
    def f() -> Tree: ...

    schema = describe(f).output_schema
    assert schema is not None
    assert schema["$ref"] == "#/$defs/Tree"
    assert "additionalProperties" not in schema["$defs"]["Tree"]
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"value": 1, "children": [{"value": 2, "more": True}]})
    assert not validator.is_valid({"value": "x"})


def test_output_of_a_pydantic_model_is_as_it_is_written() -> None:
    class Sum(pydantic.BaseModel):
        a: int

        @pydantic.computed_field
        def double(self) -> int:
            return 2 * self.a

    def f(): ...

    f.__annotations__ = {"return": Sum}
    schema = describe(f).output_schema
    assert schema is not None
    assert set(schema["$defs"]["Sum"]["properties"]) == {"a", "double"}
