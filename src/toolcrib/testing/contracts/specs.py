"""What holds for specs wherever they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcrib.core.schema import admit
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import SchemaError
from toolcrib.testing.contracts.promise import promise


def check_specs(specs: Sequence[ToolSpec], who: str) -> None:
    """These are specs that a catalog takes: some, each once, with schemas that can be used."""
    given: Any = specs
    promise(isinstance(given, list | tuple), f"{who} gives a list or tuple of specs", given)
    promise(len(specs), f"{who} gives one spec or more")
    seen: set[tuple[str, str]] = set()
    for spec in specs:
        each: Any = spec
        promise(isinstance(each, ToolSpec), f"{who} gives ToolSpecs", each)
        promise(
            (spec.name, spec.version) not in seen,
            f"{who} gives each name and version once",
            spec.name,
        )
        seen.add((spec.name, spec.version))
        for schema in (spec.input_schema, spec.output_schema):
            try:
                if schema is not None:
                    admit(schema)
            except SchemaError as error:
                raise AssertionError(
                    f"broken promise: {who} gives schemas that can be used; {spec.name}: {error}"
                ) from error
