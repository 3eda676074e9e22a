"""Functions of every sort: what their signature says, and calls with converted arguments."""

from __future__ import annotations

import functools
import inspect
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Optional

import jsonschema_rs
import pytest
from annotated_types import Ge

from toolcrib.catalog.signature import ConversionError, Signature, describe
from toolcrib.core.context import ToolContext
from toolcrib.core.result import ToolResult
from toolcrib.errors import SpecError

if TYPE_CHECKING:
    from decimal import Decimal


def call(function: Any, **arguments: Any) -> Any:
    """Call as the pipeline does: validate, fill defaults, convert, pass positional by place."""
    signature = describe(function)
    jsonschema_rs.validator_for(signature.input_schema, validate_formats=True).validate(arguments)
    filled = {**(signature.defaults or {}), **arguments}
    if signature.convert is not None:
        filled = signature.convert(filled)
    places = [filled.pop(name) for name in signature.positional if name in filled]
    return function(*places, **filled)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_a_plain_function() -> None:
    signature = describe(add)
    assert signature.name == "add"
    assert signature.description == "Add two numbers."
    assert signature.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert signature.output_schema == {"type": "integer"}
    assert signature.defaults is None
    assert signature.context_parameter is None
    assert not signature.is_async
    assert not signature.is_generator
    assert not signature.accepts_extra
    assert signature.positional == ()


def test_a_signature_is_frozen_and_keyword_only() -> None:
    signature = describe(add)
    with pytest.raises(AttributeError):
        signature.name = "other"  # type: ignore[misc]
    assert all(
        p.kind is inspect.Parameter.KEYWORD_ONLY
        for p in inspect.signature(Signature).parameters.values()
    )


def test_integral_floats_arrive_as_integers() -> None:
    result = call(add, a=1.0, b=2)
    assert result == 3
    assert type(result) is int


def test_integers_arrive_as_floats_where_floats_are_wanted() -> None:
    def half(x: float, n: int = 2) -> Any:
        return x, n

    x, n = call(half, x=3, n=2.0)
    assert (type(x), type(n)) == (float, int)

    def only_float(x: float) -> Any:
        return x

    assert type(call(only_float, x=3)) is float
    assert call(only_float, x=0.5) == 0.5


def test_numbers_of_the_right_class_are_passed_without_a_copy() -> None:
    given = {"a": 1, "b": 2}
    convert = describe(add).convert
    assert convert is not None
    assert convert(given) is given


def test_converting_leaves_the_given_arguments_alone() -> None:
    given = {"a": 1.0, "b": 2}
    convert = describe(add).convert
    assert convert is not None
    assert convert(given) == {"a": 1, "b": 2}
    assert type(given["a"]) is float


def test_text_and_booleans_need_no_conversion() -> None:
    def f(a: str, b: bool, c: Any, d, e: dict[str, Any], g: list[str]) -> None: ...

    assert describe(f).convert is None


def test_a_parameter_without_annotation_takes_anything() -> None:
    def f(x):
        return x

    assert describe(f).input_schema["properties"] == {"x": {}}
    assert call(f, x={"any": [1]}) == {"any": [1]}


def test_names_and_descriptions_can_be_given() -> None:
    signature = describe(add, name="plus", description="")
    assert (signature.name, signature.description) == ("plus", "")


def test_the_docstring_describes_parameters_and_annotated_wins() -> None:
    def f(a: int, b: Annotated[int, "From the annotation."], c=1) -> None:
        """Do it.

        Args:
            a: From the docstring.
            b: Not this.
            c: The third.
        """

    signature = describe(f)
    properties = signature.input_schema["properties"]
    assert signature.description == "Do it."
    assert properties["a"]["description"] == "From the docstring."
    assert properties["b"]["description"] == "From the annotation."
    assert properties["c"] == {"description": "The third.", "default": 1}


def test_defaults_stand_in_the_schema_and_in_defaults() -> None:
    def f(a: int, b: str = "x", c: float = 1, d: list[int] = [1], e: bool = False) -> Any:  # noqa: B006
        return a, b, c, d, e

    signature = describe(f)
    assert signature.input_schema["required"] == ["a"]
    assert signature.defaults == {"b": "x", "c": 1, "d": [1], "e": False}
    assert signature.input_schema["properties"]["d"]["default"] == [1]
    assert call(f, a=1) == (1, "x", 1.0, [1], False)


def test_a_default_list_is_new_for_each_call() -> None:
    def f(x: list[str] = [], y={"a": [1]}) -> Any:  # noqa: B006
        x.append("seen")
        y["a"].append(2)
        return x, y

    signature = describe(f)
    assert signature.convert is not None
    for _ in range(2):
        assert f(**signature.convert(dict(signature.defaults or {}))) == (["seen"], {"a": [1, 2]})
    assert signature.defaults == {"x": [], "y": {"a": [1]}}


def test_none_as_default_makes_the_parameter_nullable() -> None:
    def f(x: int = None) -> Any:  # type: ignore[assignment]  # noqa: RUF013
        return x

    schema = describe(f).input_schema["properties"]["x"]
    assert schema == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert call(f) is None
    assert call(f, x=None) is None
    assert call(f, x=2.0) == 2


SENTINEL = object()


@pytest.mark.parametrize(
    "default", [SENTINEL, float("nan"), float("inf"), (1, 2), {1, 2}, "text", True]
)
def test_a_default_json_cannot_say_stays_with_the_function(default: Any) -> None:
    def f(x: Any = default, n: int = default) -> Any:
        return x, n

    signature = describe(f)
    assert "default" not in signature.input_schema["properties"]["n"]
    assert "required" not in signature.input_schema
    assert call(f)[1] is default


def test_a_default_outside_its_own_bounds_is_not_shown() -> None:
    def f(x: Annotated[int, Ge(1)] = 0, y: list[Annotated[int, Ge(1)]] = [0]) -> Any:  # noqa: B006
        return x, y

    assert describe(f).defaults is None
    assert call(f) == (0, [0])


def test_the_context_is_hidden() -> None:
    def f(a: int, ctx: ToolContext) -> None: ...

    signature = describe(f)
    assert signature.context_parameter == "ctx"
    assert list(signature.input_schema["properties"]) == ["a"]


@pytest.mark.parametrize(
    "annotation",
    [
        ToolContext,
        "ToolContext",
        "ToolContext | None",
        Optional[ToolContext],  # noqa: UP045
        Annotated[ToolContext, "the call"],
        type("Special", (ToolContext,), {}),
    ],
)
def test_every_spelling_of_the_context(annotation: Any) -> None:
    def f(c=None): ...

    f.__annotations__ = {"c": annotation}
    signature = describe(f)
    assert signature.context_parameter == "c"
    assert signature.input_schema["properties"] == {}


def test_the_context_imported_for_type_checkers_only_is_known() -> None:
    space: dict[str, Any] = {"__name__": "elsewhere"}
    exec("def f(ctx: 'ToolContext | None', n: int) -> 'ToolResult': ...", space)
    signature = describe(space["f"])
    assert signature.context_parameter == "ctx"
    assert signature.output_schema is None


def test_two_contexts_are_refused() -> None:
    def f(a: ToolContext, b: ToolContext) -> None: ...

    with pytest.raises(SpecError, match="taken by 'a' already"):
        describe(f)


def test_extra_arguments() -> None:
    def f(a: int, **rest: Any) -> Any:
        return a, rest

    signature = describe(f)
    assert signature.accepts_extra
    assert signature.input_schema["additionalProperties"] is True
    assert call(f, a=1, b="x") == (1, {"b": "x"})


def test_extra_arguments_with_a_type() -> None:
    def f(a: str, **rest: int) -> Any:
        return a, rest

    signature = describe(f)
    assert signature.input_schema["additionalProperties"] == {"type": "integer"}
    assert call(f, a="x", b=2.0) == ("x", {"b": 2})
    assert signature.convert is not None
    with pytest.raises(ConversionError) as caught:
        signature.convert({"a": "x", "b": "no"})
    assert caught.value.path == "b"


def test_star_arguments_are_refused_with_place_and_cure() -> None:
    def f(*names: str) -> None: ...

    with pytest.raises(SpecError) as caught:
        describe(f)
    error = caught.value
    assert error.file == __file__
    assert error.line == f.__code__.co_firstlineno
    assert "function f: parameter 'names'" in error.message
    assert "list" in str(error.cure)


def test_positional_only_parameters_are_named_in_order() -> None:
    def f(ctx: ToolContext, a: int, b: str = "x", /, c: int = 3) -> Any:
        return ctx, a, b, c

    signature = describe(f)
    assert signature.positional == ("ctx", "a", "b")
    assert list(signature.input_schema["properties"]) == ["a", "b", "c"]


def test_a_place_whose_default_json_cannot_say_is_filled() -> None:
    def f(a: Any = SENTINEL, b: int = 1, /) -> Any:
        return a, b

    assert call(f, b=5) == (SENTINEL, 5)


class Shop:
    """A shop."""

    def buy(self, item: str, count: int = 1) -> str:
        """Buy something."""
        return f"{count} {item}"

    @classmethod
    def open(cls, hour: int) -> str:
        """Open it."""
        return f"{cls.__name__} {hour}"

    @staticmethod
    def close(hour: int) -> int:
        return hour

    async def __call__(self, item: str) -> str:
        return item


class Undocumented:
    def __call__(self, x: int) -> int:
        """Call it."""
        return x


def test_methods() -> None:
    shop = Shop()
    assert list(describe(shop.buy).input_schema["properties"]) == ["item", "count"]
    assert describe(shop.buy).name == "buy"
    assert describe(shop.buy).description == "Buy something."
    assert call(shop.buy, item="nail", count=2.0) == "2 nail"
    assert call(Shop.open, hour=9.0) == "Shop 9"
    assert call(Shop.close, hour=9.0) == 9


def test_objects_that_can_be_called() -> None:
    signature = describe(Shop())
    assert (signature.name, signature.description) == ("Shop", "A shop.")
    assert signature.is_async
    assert describe(Undocumented()).description == "Call it."
    assert call(Undocumented(), x=4.0) == 4


def test_partials_hide_what_they_bind() -> None:
    def f(a: int, token: str, b: int = 2) -> Any:
        """Use a token."""
        return a, token, b

    part = functools.partial(f, token="secret")
    signature = describe(part)
    assert signature.name == "f"
    assert signature.description == "Use a token."
    assert "secret" not in str(signature)
    assert list(signature.input_schema["properties"]) == ["a", "b"]
    assert call(part, a=1.0) == (1, "secret", 2)
    assert call(functools.partial(f, 7), token="t") == (7, "t", 2)
    assert call(functools.partial(part, 7)) == (7, "secret", 2)


def test_decorated_functions() -> None:
    def twice(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return 2 * function(*args, **kwargs)

        return wrapper

    wrapped = twice(add)
    assert describe(wrapped).input_schema == describe(add).input_schema
    assert describe(wrapped).description == "Add two numbers."
    assert call(wrapped, a=1.0, b=2) == 6


def test_async_and_generators() -> None:
    async def a(x: int) -> int:
        return x

    def g(x: int) -> Iterator[int]:
        yield x

    async def ag(x: int) -> AsyncIterator[int]:
        yield x

    flavours = {f.__name__: (describe(f).is_async, describe(f).is_generator) for f in (a, g, ag)}
    assert flavours == {"a": (True, False), "g": (False, True), "ag": (True, True)}
    assert describe(a).output_schema == {"type": "integer"}
    assert describe(g).output_schema is None
    assert describe(ag).output_schema is None
    a.marked = True  # type: ignore[attr-defined]
    assert describe(a).is_async
    assert describe(functools.partial(ag, 1)).is_generator


def test_classes_and_signatureless_callables_are_refused() -> None:
    with pytest.raises(SpecError, match="is a class"):
        describe(Shop)
    with pytest.raises(SpecError, match="no signature"):
        describe(iter)
    with pytest.raises(SpecError, match="no signature"):
        describe(3)  # type: ignore[arg-type]


def test_functions_written_in_c() -> None:
    import math

    signature = describe(math.sqrt)
    assert signature.positional == ("x",)
    assert call(math.sqrt, x=4) == 2


def test_an_unknown_name_is_refused_with_place_and_cure() -> None:
    class Local:
        pass

    def f(x: Local) -> None: ...

    with pytest.raises(SpecError) as caught:
        describe(f)
    assert "'Local'" in caught.value.message
    assert caught.value.line == f.__code__.co_firstlineno
    assert "module level" in str(caught.value.cure)


def test_a_name_from_the_closure_is_known() -> None:
    from enum import Enum

    class Color(Enum):
        RED = "red"

    def f(x: Color) -> Any:
        return x is Color.RED

    assert call(f, x="red") is True


def test_an_import_for_type_checkers_only_is_refused() -> None:
    def f(x: Decimal) -> None: ...

    with pytest.raises(SpecError, match="'Decimal'"):
        describe(f)


def test_an_annotation_that_is_no_type_is_refused() -> None:
    def f(x): ...

    f.__annotations__ = {"x": "int +"}
    with pytest.raises(SpecError, match="cannot be evaluated"):
        describe(f)


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        ("list[str]", {"type": "array", "items": {"type": "string"}}),
        (Annotated[int, "The sum."], {"type": "integer", "description": "The sum."}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (dict[str, Any], {"type": "object"}),
        (None, None),
        (type(None), None),
        (Any, None),
        (object, None),
        (ToolResult, None),
        (ToolResult | int, None),
        (inspect.Signature, None),
        ("Nowhere", None),
    ],
)
def test_output_schemas(annotation: Any, schema: Any) -> None:
    def f(): ...

    f.__annotations__ = {"return": annotation}
    assert describe(f).output_schema == schema


def test_no_return_annotation_promises_nothing() -> None:
    assert describe(lambda: 1).output_schema is None


def test_describing_imports_no_optional_package() -> None:
    code = (
        "import sys; from toolcrib.catalog.signature import describe\n"
        "def f(a: int, b: list[str] = []) -> dict[str, int]: ...\n"
        "describe(f); print([n for n in ('pydantic', 'annotated_types') if n in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_all_failing_arguments_are_reported() -> None:
    def f(a: int, b: list[dict[str, int]], c: int) -> None: ...

    convert = describe(f).convert
    assert convert is not None
    with pytest.raises(ConversionError) as caught:
        convert({"a": "x", "b": [{"k": 1}, {"k": None}], "c": 1})
    assert isinstance(caught.value, ValueError)
    assert [e.path for e in caught.value.all()] == ["a", "b[1].k"]
    assert str(caught.value.all()[1]) == "b[1].k: expected an integer, not null"
