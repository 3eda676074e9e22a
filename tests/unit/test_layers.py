"""The contracts in pyproject.toml bite, and the sources keep the shape the design gives them."""

from __future__ import annotations

import ast
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "toolcrib"
SOURCES = sorted(PACKAGE.rglob("*.py"))
ABOVE = {"__main__.py", "cli", "client", "compat", "console", "testing"}
BELOW = {"approvals", "catalog", "core", "executors", "host", "observe", "pipeline", "protocol"}
BELOW |= {"providers", "sandbox", "stores", "tools", "transports"}
PACKAGES = sorted({name for name in ABOVE | BELOW if not name.endswith(".py")})
LINT = "from importlinter.cli import lint_imports_command as lint; lint()"


def lint(directory: Path, modules: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Check the real contracts on an empty package of the same layout with these modules in it."""
    package = directory / "toolcrib"
    for name in PACKAGES:
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").touch()
    for name in ("__init__", "__main__", "sync", "errors", "reasons"):
        (package / f"{name}.py").touch()
    for module, text in modules.items():
        (package / module).write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "pyproject.toml", directory)
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-logo", "--no-cache"],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(directory), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_imports_that_point_downwards_are_kept(tmp_path: Path) -> None:
    done = lint(
        tmp_path,
        {
            "cli/main.py": "import toolcrib.compat, toolcrib.host, toolcrib.sync",
            "compat/policies.py": "import toolcrib.host, toolcrib.transports",
            "sync.py": "import toolcrib.host",
            "host/build.py": "import toolcrib.pipeline, toolcrib.stores, toolcrib.core",
            "errors.py": "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    import toolcrib.core\n",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_imports_that_point_elsewhere_are_refused(tmp_path: Path) -> None:
    done = lint(
        tmp_path,
        {
            "core/call.py": "import toolcrib.host",
            "core/spec.py": "import pydantic",
            "catalog/search.py": "import toolcrib.stores",
            "host/host.py": "import toolcrib.sync",
            "protocol/frames.py": "import toolcrib.observe",
            "reasons.py": "import toolcrib.errors",
            "transports/stdio.py": "import toolcrib.cli",
            "newcomer.py": "",
        },
    )
    assert done.returncode == 1, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    for refused in (
        "toolcrib.core is not allowed to import toolcrib.host",
        "toolcrib.core is not allowed to import pydantic",
        "toolcrib.catalog is not allowed to import toolcrib.stores",
        "toolcrib.host is not allowed to import toolcrib.sync",
        "toolcrib.protocol is not allowed to import toolcrib.observe",
        "toolcrib.reasons is not allowed to import toolcrib.errors",
        "toolcrib.transports is not allowed to import toolcrib.cli",
        "newcomer",
    ):
        assert refused in said


def test_lower_layers_do_not_go_through_the_front_door() -> None:
    """`toolcrib` itself leads to every layer, so an import of it would pass by the contracts."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        if not ABOVE & set(path.relative_to(PACKAGE).parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and node.module == "toolcrib")
        or (isinstance(node, ast.Import) and any(name.name == "toolcrib" for name in node.names))
    ]
    assert found == []


def test_source_files_stay_small() -> None:
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {str(path.relative_to(ROOT)): size for path, size in sizes.items() if size > 500} == {}
    assert statistics.median(sizes.values()) < 200


def test_files_and_folders_say_what_they_are_for() -> None:
    vague = {"common", "helpers", "managers", "misc", "utils"}
    places = [path.relative_to(PACKAGE) for path in SOURCES]
    assert [str(place) for place in places if place.stem in vague] == []
    assert [str(place) for place in places if (vague | {"types"}) & set(place.parts[:-1])] == []
