"""Undocumented is a failing test: what the code knows, the documentation says."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import jsonschema_rs
import pytest
from ruamel.yaml import YAML

import toolcrib
import toolcrib.testing
from markdown_runner import ROOT
from toolcrib.core import protocols
from toolcrib.core.events import EVENTS
from toolcrib.executors import http, processconfig, shellconfig
from toolcrib.host import builtin, kinds, provider_settings
from toolcrib.host.config import document_settings
from toolcrib.host.loaders import FORMATS, select
from toolcrib.host.verify.invariants import NEVER
from toolcrib.providers.mcp import settings as mcp
from toolcrib.providers.openapi import provider as openapi
from toolcrib.providers.storage import settings as storage
from toolcrib.reasons import REASONS
from toolcrib.sandbox import build as sandboxes
from toolcrib.sandbox import settings as sandbox_settings

DOCS = ROOT / "docs"
LINK = re.compile(r"\[[^\]]*\]\((?!https?:)(?P<target>[^)#]*)(?:#(?P<anchor>[^)]*))?\)")
PAGES = sorted([*DOCS.glob("**/*.md"), *ROOT.glob("*.md")])


def load_generator() -> ModuleType:
    """`docs/generate.py`, which is a program and not in any package."""
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


generate: Any = load_generator()


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def missing(names: list[str], text: str) -> list[str]:
    return [name for name in names if f"`{name}`" not in text]


@pytest.mark.parametrize(
    ("names", "where"),
    [
        pytest.param(list(REASONS), "reasons.md", id="reasons"),
        pytest.param(list(EVENTS), "trail.md", id="events"),
        pytest.param([s.path for s in document_settings()], "configuration.md", id="settings"),
        pytest.param([s.name for s in NEVER.settings], "policies.md", id="invariants"),
        pytest.param(list(toolcrib.__all__), "api.md", id="public names"),
        pytest.param(list(toolcrib.testing.__all__), "testing.md", id="test kit"),
    ],
)
def test_everything_is_documented(names: list[str], where: str) -> None:
    assert names
    assert missing(names, page(where)) == []


@pytest.mark.parametrize(
    ("names", "where"),
    [
        pytest.param(["python", *kinds.BUILTIN, *builtin.PROVIDERS], "kinds.md", id="kinds"),
        pytest.param(processconfig.KEYS, "kinds/process.md", id="kind process"),
        pytest.param(shellconfig.KEYS, "kinds/shell.md", id="kind shell"),
        pytest.param(http._KEYS, "kinds/http.md", id="kind http"),
        pytest.param(builtin.PROVIDERS, "providers.md", id="provider types"),
        pytest.param(
            list(provider_settings.ProviderSettings.__struct_fields__),
            "providers.md",
            id="every provider",
        ),
        pytest.param(storage.KEYS, "providers/storage.md", id="provider storage"),
        pytest.param(openapi._KEYS, "providers/openapi.md", id="provider openapi"),
        pytest.param(mcp.KEYS, "mcp-servers.md", id="provider mcp"),
        pytest.param(sandboxes.FACTORIES, "sandboxes.md", id="sandbox types"),
        pytest.param(
            [
                *sandbox_settings.PATHS,
                *sandbox_settings.LIMITS,
                *("network", "environment", "hide", "image", "engine"),
            ],
            "sandboxes.md",
            id="sandboxes",
        ),
        pytest.param(builtin.TEMPLATES, "tools.md", id="templates"),
        pytest.param(FORMATS, "loaders.md", id="formats"),
        pytest.param(["load", "table", *select._HTTP], "loaders.md", id="loaders"),
    ],
)
def test_every_kind_and_each_of_its_settings_is_documented(
    names: Iterable[str], where: str
) -> None:
    wanted = list(names)
    assert wanted
    assert missing(wanted, page(where)) == []


@pytest.mark.parametrize("name", builtin.TEMPLATES)
def test_every_knob_of_a_broad_tool_is_documented(name: str) -> None:
    template = importlib.import_module(builtin.TEMPLATES[name]).TEMPLATE
    knobs = list(template.policy.fields())
    assert len(knobs) > 5
    assert missing(knobs, page(f"tools/{name}.md")) == []


REASON = re.compile(r'(?:reason=|\bdeny\(\s*|\bDenial\(\s*)"(?P<code>[a-z]+(?:_[a-z]+)+)"')


def test_every_reason_that_code_gives_is_documented() -> None:
    sources = (ROOT / "src").glob("**/*.py")
    given = {m["code"] for file in sources for m in REASON.finditer(file.read_text("utf-8"))}
    assert {"not_in_profile", "path_outside_root", "statement_not_allowed"} <= given
    pages = "\n".join(path.read_text(encoding="utf-8") for path in DOCS.glob("**/*.md"))
    # The tool `git` has one for each of its actions, which its page says once.
    wanted = [code for code in sorted(given) if not re.fullmatch("git_.+_failed", code)]
    assert missing(wanted, pages) == []


def test_every_protocol_is_documented() -> None:
    declared = [
        name
        for name, thing in vars(protocols).items()
        if inspect.isclass(thing) and thing.__module__ == protocols.__name__
    ]
    assert {"Gate", "Extension", "Store", "Exporter"} <= set(declared)
    assert missing(declared, page("extending.md")) == []


def test_every_command_and_option_is_documented() -> None:
    text = page("cli.md")
    found = generate.all_commands()
    assert len(found) > 20
    for path, command in found:
        section = text.partition(f" `{path}`\n")[2].partition("\n##")[0]
        assert section, f"{path} has no section"
        spelled = [
            name
            for option in command.params
            if isinstance(option, click.Option)
            for name in (*option.opts, *option.secondary_opts)
        ]
        absent = [name for name in spelled if not re.search(rf"{name}\b", section)]
        assert absent == [], path


def test_methods_that_are_documented_exist_with_the_parameters_shown() -> None:
    things = {"ToolHost": toolcrib.ToolHost, "host": toolcrib.ToolHost, "session": toolcrib.Session}
    shown = re.findall(r"`(?:await )?(ToolHost|host|session)\.(\w+)\(([^)`]*)\)`", page("api.md"))
    assert len(shown) > 20
    for thing, method, parameters in shown:
        accepted = inspect.signature(getattr(things[thing], method)).parameters
        words = (word.split("=")[0].strip() for word in parameters.split(","))
        unknown = {word for word in words if word not in ("", "*", "…")} - set(accepted)
        assert unknown == set(), f"{thing}.{method}"


def test_generated_pages_and_schema_are_up_to_date() -> None:
    stale = [path.name for path in generate.outdated()]
    assert stale == [], "run `make docs`"


def test_a_page_that_is_out_of_date_is_noticed() -> None:
    text = "Before\n<!-- generated: events -->\nold\n<!-- end -->\nbehind\n"
    renewed = generate.renewed(text)
    assert renewed.startswith("Before\n<!-- generated: events -->\n| event |")
    assert renewed.endswith("|\n<!-- end -->\nbehind\n")
    assert generate.renewed(renewed) == renewed


def test_every_table_has_its_place() -> None:
    shown = {m["name"] for path in generate.pages() for m in generate.REGION.finditer(page(path))}
    assert shown == set(generate.REGIONS)


@pytest.mark.parametrize("name", ["quickstart/toolcrib.yaml", "toolcrib.yaml"])
def test_the_shipped_schema_knows_the_example_and_refuses_a_typo(name: str) -> None:
    check = jsonschema_rs.validator_for((DOCS / generate.SCHEMA).read_text(encoding="utf-8"))
    example = ROOT / "examples" / name
    settings = YAML(typ="safe").load(example.read_text(encoding="utf-8"))
    assert check.is_valid(settings)
    assert not check.is_valid({**settings, "profils": {}})


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for match in LINK.finditer(text):
        target = path if not match["target"] else (path.parent / match["target"]).resolve()
        assert target.exists(), match[0]
        if match["anchor"]:
            assert match["anchor"] in anchors(target), match[0]


def test_every_page_is_found_from_the_readme() -> None:
    linked = {m["target"] for m in LINK.finditer((ROOT / "README.md").read_text(encoding="utf-8"))}
    pages = {path.relative_to(ROOT).as_posix() for path in DOCS.glob("**/*.md")}
    assert pages - linked == set()


def anchors(path: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in headings}
