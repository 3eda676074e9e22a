"""Python modules that a configuration names: by dotted name, or by the path of a file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from toolcrib.core.canonical import digest_bytes
from toolcrib.core.spec import FILE_MODULE
from toolcrib.errors import SpecError


def load_module(name: str, base: str | None) -> ModuleType:
    """A module by its dotted name, or a file by its path relative to `base`."""
    if not name.endswith(".py"):
        with Importable(base):
            try:
                return importlib.import_module(name)
            except ImportError as error:
                raise SpecError(f"the module {name} cannot be imported: {error}") from None
    path = Path(base or ".", name).resolve()
    if not path.is_file():
        raise SpecError(f"there is no file {name}", cure=f"It was looked for in {path.parent}")
    title = f"{FILE_MODULE}{digest_bytes(str(path).encode())[:12]}_{path.stem}"
    before = sys.modules.get(title)
    spec = importlib.util.spec_from_file_location(title, path)
    if spec is None or spec.loader is None:
        raise SpecError(f"{name} cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[title] = module
    try:
        with Importable(str(path.parent)):
            # Not by the loader: it takes a compiled file for new that is as old and as long.
            exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102
    except Exception as error:
        if before is None:
            del sys.modules[title]
        else:
            sys.modules[title] = before
        line = getattr(error, "lineno", None)
        where = f"{name}:{line}" if line else name
        text = f"{where} cannot be imported: {type(error).__name__}: {error}"
        raise SpecError(text) from error
    return module


class Importable:
    """Modules beside the configuration can be imported while it is loaded."""

    def __init__(self, base: Any) -> None:
        self._base = str(base) if base else None

    def __enter__(self) -> None:
        if self._base is not None:
            sys.path.insert(0, self._base)

    def __exit__(self, *exc: object) -> None:
        if self._base is not None and self._base in sys.path:
            sys.path.remove(self._base)
