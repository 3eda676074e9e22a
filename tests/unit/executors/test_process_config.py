"""What a process tool may be told, and what is said about mistakes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import process_functions
from executing import context, heard
from toolcrib.core.entry import Execute
from toolcrib.errors import SpecError, ToolFailure
from toolcrib.executors.process import ProcessExecutor

KIT = str(Path(process_functions.__file__).parent)


async def test_the_environment_is_clean(
    bind: Callable[..., Execute], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    monkeypatch.setenv("REGION", "eu")
    assert set(await bind("environment")(context())) <= {"PATH", "LANG", "LC_CTYPE"}
    seen = await bind("environment", environment=["REGION"])(context())
    assert seen["REGION"] == "eu"
    assert "SECRET_TOKEN" not in seen


async def test_a_module_can_be_a_file_or_lie_in_another_folder(
    bind: Callable[..., Execute], tmp_path: Path
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "elsewhere.py").write_text("def f() -> int:\n    return 5\n")
    assert await bind("add", module=f"{KIT}/process_functions.py")(context(a=1)) == 11
    assert await bind("f", module="elsewhere", path=["lib"])(context()) == 5


async def test_a_file_in_the_folder_does_not_take_a_modules_place(
    bind: Callable[..., Execute], tmp_path: Path
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('taken over')\n")
    assert await bind("add")(context(a=1)) == 11


@pytest.mark.parametrize(
    ("function", "module"),
    [
        ("absent", "process_functions"),
        ("NOT_CALLABLE", "process_functions"),
        ("f", "broken"),
        ("f", "broken.py"),
    ],
)
async def test_what_cannot_be_loaded_is_said_at_the_call(
    bind: Callable[..., Execute], tmp_path: Path, function: str, module: str
) -> None:
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    ctx = context()
    said = heard(ctx)
    with pytest.raises(ToolFailure, match="cannot be loaded"):
        await bind(function, module=module)(ctx)
    assert any("Traceback" in str(data) for _, data in said)


@pytest.mark.parametrize(
    ("config", "key", "words"),
    [
        ({"memori": "1GiB"}, "config.memori", "Did you mean memory"),
        ({"module": None}, "config.module", "needs module and function"),
        ({"module": "no_such_module_here"}, "config.module", "there is no module"),
        ({"module": "../work"}, "config.module", "not the name of a module"),
        ({"module": "missing.py"}, "config.module", "there is no file"),
        ({"function": "a b"}, "config.function", "not the name of a function"),
        ({"memory": "1MB"}, "config.memory", "at least 64MiB"),
        ({"memory": "lots"}, "config.memory", "not a size"),
        ({"cpu": "5"}, "config.cpu", "no unit"),
        ({"output": -1}, "config.output", "negative"),
        ({"workers": 0}, "config.workers", "1 to 256"),
        ({"environment": "HOME"}, "config.environment", "list"),
        ({"path": [1]}, "config.path", "list"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
async def test_what_is_wrong_is_said_when_the_tool_is_registered(
    bind: Callable[..., Execute], config: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        bind(**{"function": "add", **config})
    assert caught.value.key == key


async def test_a_function_given_as_such(
    executor: ProcessExecutor, bind: Callable[..., Execute]
) -> None:
    assert await bind(os.path.basename)(context(p="/a/b")) == "b"  # pyright: ignore[reportArgumentType]
    with pytest.raises(SpecError, match="top level of a module"):
        bind(lambda: 1)  # pyright: ignore[reportArgumentType]
