"""Documents of real interfaces, taken from the registry when the tests run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from needs import needs
from toolcrib.core.names import look_alikes, wire_name
from toolcrib.core.schema import admit
from toolcrib.core.spec import ToolSpec
from toolcrib.providers.openapi.provider import OpenApiProvider, factory
from toolcrib.testing import make_host

REAL = {
    "github": ("@octokit/openapi@23.0.2", "generated/api.github.com.json", 1200),
    "figma": ("@figma/rest-api-spec@0.43.0", "openapi/openapi.yaml", 50),
    "star-trek": ("@readme/oas-examples@8.2.2", "3.0/json/star-trek.json", 120),
    "readme": ("@readme/oas-examples@8.2.2", "3.1/json/readme.json", 50),
    "train-travel": ("@readme/oas-examples@8.2.2", "3.1/json/train-travel.json", 7),
    "circular": ("@readme/oas-examples@8.2.2", "3.0/json/schema-circular.json", 2),
}


class Folder:
    folder = Path()

    def sandbox(self, name: str | None = None) -> object:
        raise AssertionError("no sandbox is needed")

    def file(self, path: str) -> Path:
        return Path(path)

    def keep_secret(self, text: str) -> None:
        raise AssertionError("no token is fetched")


@pytest.fixture(scope="module")
def packages() -> Path:
    """The documents, fetched once and kept for later runs; workers wait for each other."""
    npm = needs("npm", "npm")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "toolcrib-tests")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for package in sorted({package for package, _, _ in REAL.values()}):
            wanted = {n: kept(cache, package, n) for p, n, _ in REAL.values() if p == package}
            if not all(path.exists() for path in wanted.values()):
                fetch(npm, package, wanted)
    return cache


def kept(cache: Path, package: str, name: str) -> Path:
    return cache / f"{package}_{name}".replace("/", "_")


def fetch(npm: str, package: str, wanted: dict[str, Path]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [npm, "pack", package, "--silent"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
            timeout=100,
        )
        with tarfile.open(Path(folder, done.stdout.split()[-1])) as archive:
            for name, path in wanted.items():
                content = archive.extractfile(f"package/{name}")
                assert content is not None
                half = path.with_suffix(".part")
                half.write_bytes(content.read())
                half.replace(path)


async def tools_of(packages: Path, name: str) -> tuple[OpenApiProvider, list[ToolSpec]]:
    spec = kept(packages, *REAL[name][:2])
    settings = {"spec": str(spec), "base_url": "https://api.example.com"}
    async with factory(name, settings, Folder()) as made:  # type: ignore[arg-type]
        return made, list(await made.list_tools())


@pytest.mark.parametrize("name", REAL)
async def test_a_real_document_becomes_tools(packages: Path, name: str) -> None:
    made, specs = await tools_of(packages, name)
    assert len(specs) >= REAL[name][2]
    for spec in specs:
        admit(spec.input_schema)
        assert spec.effects
        assert spec.description
    assert len({wire_name(spec.name) for spec in specs}) == len(specs)
    assert len({key for spec in specs for key in look_alikes(spec.name)[:1]}) == len(specs)
    assert all(skipped.reason for skipped in made.skipped)


async def test_every_operation_is_a_tool_or_has_a_reason(packages: Path) -> None:
    made, specs = await tools_of(packages, "github")
    assert len(specs) + len(made.skipped) == 1223
    assert [skipped.operation for skipped in made.skipped] == [
        "POST /repos/{owner}/{repo}/releases/{release_id}/assets"
    ]


async def test_the_tools_of_a_large_document_stand_in_one_host(packages: Path) -> None:
    _, specs = await tools_of(packages, "star-trek")
    from toolcrib.core.entry import Entry

    async def execute(ctx: object) -> None:
        return None

    async with make_host() as host:
        for spec in specs:
            host.register(Entry(spec, execute, owner="provider star-trek"))
        assert len(host.tools()) >= len(specs)
