"""The pytest plug-in, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[3] / "src"

USER_TESTS = '''
import threading
import pytest
from toolcrib import tool
from toolcrib.testing import MockTool, assert_denied, assert_ok

@tool(inline=True)
def add(a: int, b: int) -> int:
    """Add."""
    return a + b

async def test_hosts_and_events(tool_host, event_recorder):
    host = tool_host([add], profile={"rules": [{"allow": "add"}]})
    result = await host.call("add", {"a": 1, "b": 2})
    assert_ok(result, 3)
    assert event_recorder.of(result.call_id)[-1].type == "call.finished"

async def test_clock(tool_host, fake_clock):
    limits = {"default": "allow", "limits": {"calls": "1/min"}}
    async with tool_host([add], profile=limits, clock=fake_clock) as host:
        assert_ok(await host.call("add", {"a": 1, "b": 2}))
        assert_denied(await host.call("add", {"a": 1, "b": 2}), "rate_limited")
        fake_clock.advance(60)
        assert_ok(await host.call("add", {"a": 1, "b": 2}))

async def test_approvals(tool_host, approvals):
    host = tool_host([MockTool("deploy")], profile={"default": "ask"}, approver=approvals)
    assert_denied(await host.call("deploy"), "approval_rejected")
    approvals.script("deploy", "allow")
    assert_ok(await host.call("deploy", {"n": 2}))
    assert len(approvals.requests) == 2

async def test_a_durable_host_that_is_not_stopped(tool_host, tmp_path):
    host = tool_host([add], store=f"sqlite:{tmp_path / 'store.db'}")
    assert_ok(await host.call("add", {"a": 1, "b": 2}))
    assert threading.active_count() > 1

def test_was_stopped_after_all():
    assert [thread.name for thread in threading.enumerate()] == ["MainThread"]

def test_failing(tool_host):
    assert False
'''

STORE_TESTS = """
import pytest
from toolcrib.stores.memory import MemoryStore
from toolcrib.testing import StoreContract

class TestGood(StoreContract):
    def make(self, clock):
        return MemoryStore(clock=clock)

class Forgetting(MemoryStore):
    async def get_request(self, id):
        return None

class TestBad(StoreContract):
    def make(self, clock):
        return Forgetting(clock=clock)

class TestUnfinished(StoreContract):
    pass
"""


def pytest_in(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "toolcrib.testing.fixtures"]
    command += ["-p", "pytest_asyncio.plugin", "-o", "asyncio_mode=auto"]
    command += ["-o", "asyncio_default_fixture_loop_scope=function", "-W", "error", *options]
    # The plug-in is named here, so that it is the same whether Toolcrib is installed or not.
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(SOURCES)}
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_fixtures_work(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(USER_TESTS)
    done = pytest_in(tmp_path, "-q", "-p", "no:cacheprovider")
    assert "1 failed, 5 passed" in done.stdout, done.stdout + done.stderr
    assert "FAILED test_user.py::test_failing" in done.stdout


def test_a_plug_in_author_inherits_a_contract(tmp_path: Path) -> None:
    (tmp_path / "test_store.py").write_text(STORE_TESTS)
    done = pytest_in(tmp_path, "-q", "-p", "no:cacheprovider")
    assert "broken promise: a request comes back as it was" in done.stdout, done.stdout
    assert "FAILED test_store.py::TestBad" in done.stdout
    assert "::TestGood" not in done.stdout
    assert "TypeError: TestUnfinished does not define `make`" in done.stdout


def test_the_fixtures_are_listed_with_their_words(tmp_path: Path) -> None:
    done = pytest_in(tmp_path, "--fixtures", "-q")
    for name in ("tool_host", "event_recorder", "fake_clock", "approvals"):
        assert f"\n{name} " in done.stdout, done.stdout + done.stderr


def loaded_by(code: str) -> set[str]:
    """The modules that are loaded after `code` in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_the_plug_in_is_light() -> None:
    loaded = {name for name in loaded_by("import toolcrib.testing.fixtures") if "toolcrib" in name}
    assert loaded == {"toolcrib", "toolcrib.testing", "toolcrib.testing.fixtures"}


def test_importing_toolcrib_leaves_the_test_kit_out() -> None:
    loaded = loaded_by("import toolcrib; toolcrib.ToolHost")
    assert not [name for name in loaded if name.startswith("toolcrib.testing")]


def test_the_kit_and_its_contracts_work_without_pytest() -> None:
    loaded = loaded_by(
        "import toolcrib.testing as kit\nfor name in kit.__all__: getattr(kit, name)"
    )
    assert "toolcrib.testing.contracts.store" in loaded
    assert not loaded & {"pytest", "_pytest", "pytest_asyncio"}
