"""`python_code`: what both backends promise, and what each keeps out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from broad import broad_host
from executing import children
from needs import needs
from toolcrib import ConfigError, ToolHost, ToolResult
from toolcrib.testing import assert_denied
from toolcrib.tools.python_code import TEMPLATE, PythonCodePolicy

Make = Callable[..., ToolHost]


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    needs("bwrap", "bubblewrap")
    needs("python3", "python3")


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    hosts: list[ToolHost] = []

    def build(**knobs: Any) -> ToolHost:
        hosts.append(broad_host(TEMPLATE, knobs, tmp_path))
        return hosts[-1]

    yield build
    for host in hosts:
        await host.stop()


@pytest.fixture(params=["monty", "process"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


async def run(host: ToolHost, code: str, **inputs: Any) -> ToolResult:
    return await host.call("python_code", {"code": code, "inputs": inputs})


def _running(mark: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Any:
    before = children()
    yield
    assert children() <= before


async def test_the_last_expression_is_the_result(make: Make, backend: str) -> None:
    code = "print('working')\ntotal = sum(prices)\n{'total': total, 'pair': (1, None)}"
    result = await run(make(backend=backend), code, prices=[1, 2.5])
    assert result.unwrap() == {
        "result": {"total": 3.5, "pair": [1, None]},
        "stdout": "working\n",
    }


@pytest.mark.parametrize("code", ["x = 4", "", "# only words", "print('x', end='')"])
async def test_no_last_expression_is_null(make: Make, backend: str, code: str) -> None:
    assert (await run(make(backend=backend), code)).unwrap()["result"] is None


@pytest.mark.parametrize("code", ["{1, 2}", "b'x'", "float('nan')", "object", "[{'a': {1}}]"])
async def test_what_json_cannot_carry(make: Make, backend: str, code: str) -> None:
    result = await run(make(backend=backend), code)
    assert result.reason == "tool_error"
    assert "cannot be given back" in result.error.message


async def test_an_exception_comes_with_its_traceback(make: Make, backend: str) -> None:
    code = "print('before')\ndef half(n):\n    return 1 / n\nhalf(0)"
    result = await run(make(backend=backend), code)
    assert result.reason == "tool_error"
    assert "ZeroDivisionError: division by zero" in result.error.message
    assert "line 3" in result.error.message
    assert result.error.details["stdout"] == "before\n"
    for word in ("child", "site-packages", "toolcrib"):
        assert word not in result.error.message


async def test_code_that_is_no_python(make: Make, backend: str) -> None:
    result = await run(make(backend=backend), "def (:")
    assert result.reason == "tool_error"
    assert "SyntaxError" in result.error.message


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "while True:\n    try:\n        while True: pass\n    except: pass"],
    ids=["loop", "stubborn"],
)
async def test_an_endless_loop(make: Make, backend: str, code: str) -> None:
    result = await run(make(backend=backend, timeout="300ms"), code)
    assert result.reason == "timeout"


@pytest.mark.parametrize("code", ["x = [1]\nwhile True: x = x + x", "'x' * 10**10"])
async def test_a_memory_hog(make: Make, backend: str, code: str) -> None:
    result = await run(make(backend=backend, memory="100MB"), code)
    assert result.reason == "sandbox_violation"


async def test_memory_is_what_the_policy_says(make: Make, backend: str) -> None:
    code = "len('x' * 200_000_000)"
    small = await run(make(backend=backend, memory="100MB"), code)
    assert small.reason == "sandbox_violation"
    large = await run(make(backend=backend, memory="600MB"), code)
    assert large.unwrap()["result"] == 200_000_000


@pytest.mark.parametrize(
    "code",
    ["while True: print('x' * 1000)", "print('x' * 3000)", "'x' * 3000"],
    ids=["endless", "once", "result"],
)
async def test_huge_output(make: Make, backend: str, code: str) -> None:
    host = make(backend=backend, max_output_chars=2000, timeout="60s")
    assert (await run(host, code)).reason == "output_too_large"


async def test_a_canary_file_cannot_be_read(make: Make, backend: str, tmp_path: Path) -> None:
    canary = tmp_path.parent / f"{tmp_path.name}-canary"
    canary.write_text("canary-4410")
    try:
        for path in (str(canary), "/etc/shadow", "/root/.profile"):
            result = await run(make(backend=backend), "open(path).read()", path=path)
            assert result.reason == "tool_error"
            assert "canary" not in result.error.message.replace(canary.name, "")
    finally:
        canary.unlink()


async def test_the_environment_is_empty(
    make: Make, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "canary-4411")
    result = await run(make(backend=backend), "import os\nstr(dict(os.environ))")
    assert "canary" not in str(result.to_dict())


async def test_nothing_is_kept_for_the_next_run(make: Make, backend: str) -> None:
    host = make(backend=backend)
    assert (await run(host, "kept = 1\nkept")).unwrap()["result"] == 1
    assert "NameError" in (await run(host, "kept")).error.message


async def test_a_cancelled_run_is_gone(make: Make, backend: str) -> None:
    before = children()
    call = asyncio.ensure_future(run(make(backend=backend, timeout="60s"), "while True: pass"))
    for _ in range(5000):
        if children() > before:
            break
        await asyncio.sleep(0.002)
    assert children() > before
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert children() <= before


@pytest.mark.parametrize("module", ["socket", "subprocess", "ctypes", "multiprocessing"])
async def test_monty_has_no_way_out(make: Make, module: str) -> None:
    result = await run(make(), f"import {module}")
    assert "ModuleNotFoundError" in result.error.message


async def test_monty_sleeps_no_time_away(make: Make) -> None:
    code = "import time\nfor _ in range(100):\n    time.sleep(3600)\n'awake'"
    assert (await run(make(), code)).unwrap()["result"] == "awake"


async def test_a_process_reaches_no_network(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        code = "import socket\nsocket.create_connection(('127.0.0.1', port), 2)\n'through'"
        result = await run(make(backend="process"), code, port=listener.getsockname()[1])
        assert result.reason == "tool_error"
        with pytest.raises(TimeoutError):
            listener.accept()


async def test_a_process_sees_the_folder_only_when_told(make: Make, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("of the host")
    code = "import os\n(os.getcwd(), os.path.exists(folder + '/.env'), os.listdir('.'))"
    plain = (await run(make(backend="process"), code, folder=str(tmp_path))).unwrap()
    assert plain["result"] == ["/tmp", False, []]
    shown = make(backend="process", show_folder=True)
    told = (await run(shown, code, folder=str(tmp_path))).unwrap()
    assert told["result"] == [str(tmp_path), True, [".env"]]


async def test_a_process_writes_nowhere(make: Make, tmp_path: Path) -> None:
    code = "open(path, 'w').write('x')"
    for path in (str(tmp_path / "made"), "/usr/made", "/etc/made"):
        result = await run(make(backend="process"), code, path=path)
        assert result.reason == "tool_error"
    assert not (tmp_path / "made").exists()


async def test_a_fork_bomb_ends_with_its_sandbox(make: Make) -> None:
    code = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    result = await run(make(backend="process", timeout="500ms"), code)
    assert result.reason == "timeout"


async def test_a_process_that_leaves_others_behind(make: Make) -> None:
    code = (
        "import subprocess\n"
        "p = subprocess.Popen(['sleep', '86397'], start_new_session=True)\n'left'"
    )
    result = await run(make(backend="process"), code)
    assert result.unwrap()["result"] == "left"
    assert not _running("86397")


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "import os; os._exit(3)"])
async def test_a_process_that_ends_itself(make: Make, code: str) -> None:
    result = await run(make(backend="process"), code)
    assert result.reason == "tool_error"
    assert "it ended with code 3" in result.error.message


async def test_an_interpreter_that_is_not_there(make: Make) -> None:
    result = await run(make(backend="process", python="python-none"), "1")
    assert result.reason == "tool_error"
    assert "cannot be started" in result.error.message


async def test_code_and_inputs_are_checked_before_anything_runs(make: Make) -> None:
    host = make(max_code_chars=20)
    assert_denied(await run(host, "1" * 21), "argument_not_allowed")
    assert_denied(await run(host, "'\0'"), "argument_not_allowed")
    for name in ("not a name", "class", "__builtins__", "1a", ""):
        assert_denied(await run(host, "1", **{name: 1}), "argument_not_allowed")
        assert host.explain("python_code", {"code": "1", "inputs": {name: 1}}).verdict == "deny"


@pytest.mark.parametrize(
    ("knobs", "key"),
    [
        ({"backend": "docker"}, "backend"),
        ({"timeout": "soon"}, "timeout"),
        ({"memory": "lots"}, "memory"),
        ({"backend": "process", "allowed_tools": ["a"]}, "allowed_tools"),
        ({"allowed_tools": ["a-b", "a.b"]}, "allowed_tools"),
        ({"allowed_tools": ["print"]}, "allowed_tools"),
        ({"backend": "process", "sandbox": "nosuch"}, "sandbox"),
        ({"tools": ["a"]}, "tools"),
    ],
)
def test_a_wrong_policy(make: Make, knobs: Any, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make(**knobs)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("knobs", "effects"),
    [
        ({}, {"execute"}),
        ({"backend": "process"}, {"read", "execute"}),
        ({"backend": "process", "sandbox": "subprocess"}, None),
    ],
)
def test_effects_follow_the_knobs(knobs: Any, effects: set[str] | None) -> None:
    assert PythonCodePolicy(**knobs).allowed_effects() == effects
