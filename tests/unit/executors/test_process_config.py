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
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import SpecError, ToolFailure
from toolcrib.executors.process import ProcessExecutor
from toolcrib.host.workshop import Sandboxes, Workshop

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
    ("function", "module", "words"),
    [
        ("gg", "few", "few has no function 'gg'. It has: boom, g"),
        ("absent.deeper", "few", "few has no function 'absent.deeper'. It has: boom, g"),
        (
            "NOT_CALLABLE",
            "process_functions",
            "NOT_CALLABLE in process_functions is not a function",
        ),
        ("f", "imp", "imp.py:2: No module named 'nothere'"),
        ("f", "imp.py", "imp.py:2: No module named 'nothere'"),
        ("f", "over", "imp.py:2: No module named 'nothere'"),
        ("f", "unready.py", "unready.py:1: KeyError: 'REGION'"),
        ("f", "wrong", "wrong.py:2: expected ':'"),
    ],
    ids=lambda value: value.replace("/", "") if len(value) < 20 else "",
)
async def test_what_cannot_be_loaded_is_said_at_the_call(
    bind: Callable[..., Execute], tmp_path: Path, function: str, module: str, words: str
) -> None:
    (tmp_path / "few.py").write_text("def g():\n    pass\n\n\ndef boom():\n    pass\n")
    (tmp_path / "imp.py").write_text("import os\nimport nothere\n\n\ndef f():\n    pass\n")
    (tmp_path / "over.py").write_text("import imp\n\n\ndef f():\n    pass\n")
    (tmp_path / "unready.py").write_text(
        "a = __import__('os').environ['REGION']\n\n\ndef f():\n    pass\n"
    )
    (tmp_path / "wrong.py").write_text("\ndef f()\n    pass\n")
    ctx = context()
    said = heard(ctx)
    with pytest.raises(ToolFailure) as caught:
        await bind(function, module=module)(ctx)
    assert caught.value.message == f"t cannot run: {words}"
    assert caught.value.reason == "tool_error"
    assert any("Traceback" in str(data) for _, data in said)


@pytest.mark.parametrize(
    ("text", "schema", "key", "words"),
    [
        ("def g(:\n", {}, "config.module", "f.py:1: invalid syntax"),
        ("x = '\0'\n", {}, "config.module", "f.py"),
        (
            "def boom(): pass\ndef h(): pass\ndef _i(): pass\n",
            {},
            "config.function",
            "tool t: f.py has no function 'g'. It has: boom, h",
        ),
        ("X = 1\n", {}, "config.function", "f.py has no function 'g'. It has none"),
        (
            "\n\nasync def g(text: str, *, n: int = 1): ...\n",
            {"txt": {}},
            "config.function",
            "f.py:3: the function g takes no argument 'txt'; input_schema has it",
        ),
    ],
    ids=["syntax", "nul", "missing", "empty", "argument"],
)
async def test_a_file_is_read_when_the_tool_is_registered_and_not_run(
    executor: ProcessExecutor,
    tmp_path: Path,
    text: str,
    schema: dict[str, Any],
    key: str,
    words: str,
) -> None:
    (tmp_path / "f.py").write_text(f"{text}open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(SpecError) as caught:
        _bind_file(executor, tmp_path, schema)
    assert caught.value.key == key
    assert words in str(caught.value)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "text",
    [
        "def g(a, **more): ...",
        "def g(input, context): ...",
        "from f_other import *",
        "def __getattr__(name): ...",
        "globals()['g'] = print",
        "try:\n    from x import g\nexcept ImportError:\n    def g(): ...",
        "import functools\n@functools.cache\ndef g(): ...",
        "g = print",
        "class g:\n    pass",
        "import x.y as g",
        "for g in (print,):\n    pass",
    ],
)
async def test_what_a_file_does_not_tell_for_certain_is_not_refused(
    executor: ProcessExecutor, tmp_path: Path, text: str
) -> None:
    (tmp_path / "f.py").write_text(text + "\n")
    _bind_file(executor, tmp_path, {"txt": {}})


def _bind_file(executor: ProcessExecutor, folder: Path, properties: dict[str, Any]) -> Execute:
    schema = {"type": "object", "properties": properties}
    config = {"module": "f.py", "function": "g"}
    spec = ToolSpec(name="t", kind="process", input_schema=schema, config=config)
    return executor.bind(spec, Workshop(Sandboxes(), folder))


async def test_arguments_that_the_function_does_not_take_are_said_at_the_call(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    (tmp_path / "f.py").write_text(
        "import functools\n\ndef same(f):\n    return functools.wraps(f)(lambda **k: f(**k))\n\n"
        "@same\ndef g(text: str = 'a', n: int = 1):\n    return text\n"
    )
    run = _bind_file(executor, tmp_path, {"txt": {}, "text": {}})
    with pytest.raises(ToolFailure) as caught:
        await run(context(txt="a"))
    assert caught.value.message == "the function g takes no argument 'txt'; input_schema has it"
    assert caught.value.reason == "tool_error"
    with pytest.raises(ToolFailure) as caught:
        await run(context(other="a"))
    assert caught.value.reason == "invalid_arguments"
    assert await run(context(text="b")) == "b"


async def test_an_argument_that_only_the_function_knows(bind: Callable[..., Execute]) -> None:
    with pytest.raises(ToolFailure, match="needs the argument 'a'; input_schema does not have it"):
        await bind("add")(context())


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
