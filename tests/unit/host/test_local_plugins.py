"""Plug-ins that a configuration lists: files beside it, or modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib import ConfigError, ToolHost, ToolSpec
from toolcrib.host.config import format_config, load_config, show_config

PLUGIN = """
closed = []

class Echo:
    kind = "echo"
    async def execute(self, ctx):
        return "{answer}"
    async def aclose(self):
        closed.append("{answer}")

def plugin(registrar):
    registrar.executor(Echo())
"""
CONFIG = """
plugins: [{plugin}]
tools:
  - {{name: say, kind: echo, effects: [read]}}
"""


class Project:
    """A folder with a configuration and a plug-in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "toolcrib.yaml"
        self.plugin(answer="one")
        self.config()

    def plugin(self, text: str = PLUGIN, **values: str) -> None:
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        (self.folder / "echo.py").write_text(text)

    def config(self, plugin: str = "echo.py", text: str = CONFIG) -> None:
        self.file.write_text(text.format(plugin=plugin))

    def mistakes(self) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            ToolHost.from_config(self.file)
        return [str(mistake).removeprefix(f"{self.folder}/") for mistake in caught.value.all()]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


async def said(host: ToolHost) -> Any:
    return (await host.call("say")).unwrap()


@pytest.mark.parametrize("plugin", ["echo.py", "echo.py:plugin", "./echo.py"])
async def test_a_listed_file_brings_its_names(project: Project, plugin: str) -> None:
    project.config(plugin)
    async with ToolHost.from_config(project.file) as host:
        assert await said(host) == "one"


async def test_a_module_is_named_with_its_function(project: Project) -> None:
    package = project.folder / "local_echo_package"
    package.mkdir()
    (package / "__init__.py").write_text("from .hand import bring\n")
    text = PLUGIN.replace("{answer}", "two").replace("def plugin", "def bring")
    (package / "hand.py").write_text(text)
    project.config("local_echo_package:bring")
    async with ToolHost.from_config(project.file) as host:
        assert await said(host) == "two"


async def test_listing_makes_nothing_active(project: Project) -> None:
    project.file.write_text("plugins: [echo.py]\n")
    async with ToolHost.from_config(project.file) as host:
        assert host.tools() == []
        assert "executor echo" in host.registrar.offers(f"{project.folder}/echo.py:plugin")


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        ("ecko.py", "plugins[0] names a file that does not exist: 'ecko.py'"),
        (
            "echo.py:plugn",
            "the plug-in echo.py:plugn has no function 'plugn'. Did you mean plugin?",
        ),
        ("'echo.py:'", "plugins[0] names no function behind the colon: 'echo.py:'"),
        ("no_such_module_here:plugin", "the module no_such_module_here cannot be imported"),
        ("'not a module'", "plugins[0] must be a Python file or module"),
        ("{a: 1}", "plugins[0] must be text"),
    ],
    ids=["file", "function", "colon", "module", "words", "mapping"],
)
def test_what_is_wrong_is_said_with_its_line(project: Project, plugin: str, said: str) -> None:
    project.config(plugin)
    first = project.mistakes()[0]
    assert first.startswith("toolcrib.yaml:2")
    assert said in first


def test_a_mistyped_key_is_named(project: Project) -> None:
    project.config(text=CONFIG.replace("plugins", "plugin"))
    assert "Did you mean plugins?" in project.mistakes()[0]


def test_a_plugin_that_fails_is_named(project: Project) -> None:
    project.plugin("def plugin(registrar):\n    raise KeyError('no luck')\n")
    assert "the plug-in echo.py failed: KeyError: 'no luck'" in project.mistakes()[0]
    project.plugin("import no_such_module_here\n")
    assert "echo.py cannot be imported: ModuleNotFoundError" in project.mistakes()[0]


def test_two_of_them_cannot_bring_the_same_name(project: Project) -> None:
    (project.folder / "other.py").write_text(PLUGIN)
    project.config("echo.py, other.py")
    (first,) = project.mistakes()
    assert "two plug-ins bring the executor 'echo'" in first
    assert "take it out of plugins:" in first


async def test_a_reload_takes_the_file_as_it_is_now(project: Project) -> None:
    async with ToolHost.from_config(project.file) as host:
        before = host.entries.executors["echo"]
        await host.reload()
        assert host.entries.executors["echo"] is before
        project.plugin(answer="two")
        await host.reload()
        assert await said(host) == "two"
        closed = _closed(before), _closed(host.entries.executors["echo"])
        project.file.write_text("tools: []\n")
        await host.reload()
        assert "echo" not in host.entries.executors
        assert closed == ([], [])
    assert closed == (["one"], ["two"])


async def test_a_wrong_reload_changes_nothing(project: Project) -> None:
    async with ToolHost.from_config(project.file) as host:
        project.plugin(answer="two")
        project.file.write_text(project.file.read_text() + "  - {name: bad, kind: nothing}\n")
        with pytest.raises(ConfigError, match="nothing runs the kind 'nothing'"):
            await host.reload()
        assert await said(host) == "one"
        host.register(ToolSpec(name="later", kind="echo", effects=frozenset({"read"})))
        assert (await host.call("later")).unwrap() == "one"
        project.config()
        await host.reload()
        assert await said(host) == "two"
        project.plugin("raise OSError\n")
        with pytest.raises(ConfigError, match="OSError"):
            await host.reload()
        assert await said(host) == "two"
        project.plugin(answer="three")
        await host.reload()
        assert await said(host) == "three"


def test_its_file_is_guarded(project: Project) -> None:
    host = ToolHost.from_config(project.file)
    assert (project.folder / "echo.py").resolve() in host.own_files.guarded()


def test_it_is_shown_and_put_in_order(project: Project) -> None:
    shown = show_config(project.file)
    assert "plugins:\n" in shown
    assert "- echo.py" in shown
    assert "toolcrib.yaml:2" in shown
    assert format_config("tools: []\nplugins: [a.py]\n") == "plugins: [a.py]\ntools: []\n"


def test_included_files_list_theirs_from_their_own_folder(project: Project) -> None:
    inner = project.folder / "inner"
    inner.mkdir()
    (project.folder / "echo.py").rename(inner / "echo.py")
    (inner / "more.yaml").write_text("plugins: [echo.py]\n")
    project.file.write_text("include: inner/more.yaml\n" + CONFIG.split("\n", 2)[2].format())
    assert load_config(project.file).plugins[0]["module"] == str(inner / "echo.py")
    ToolHost.from_config(project.file)


def _closed(executor: Any) -> list[str]:
    return type(executor).aclose.__globals__["closed"]
