"""Tools described in files: one file, the files of a folder, or those a pattern matches."""

from __future__ import annotations

import asyncio
import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError
from toolcrib.host.config.node import Origin
from toolcrib.host.loaders.modules import specs_of
from toolcrib.host.loaders.reader import MAX_BYTES, Format, read_document
from toolcrib.host.loaders.report import Fate, LoadReport, failed, without_doubles

ENDINGS = (".yaml", ".yml", ".json", ".jsonc", ".toml")
MAX_FILES = 1000


class FileLoader:
    """Reads tools from local files; their relative paths start from the file's own folder."""

    def __init__(
        self,
        path: str,
        folder: str | Path | None = None,
        *,
        format: Format | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        """A file, a folder, or a pattern such as `tools/**/*.yaml`."""
        self.folder = Path(folder or ".")
        self.format: Format | None = format
        self._env = env

    async def load(self) -> Sequence[ToolSpec]:
        """All specs; Python files that entries name are imported. Raises `ConfigError`."""
        report = (await self.load_all()).check()
        return [spec for fate in report.entries for spec in specs_of(fate)]

    async def load_all(self) -> LoadReport:
        """What became of every entry of every file; nothing but foreign Python is imported."""
        return await asyncio.to_thread(self.read)

    def read(self) -> LoadReport:
        """As `load_all`, for whoever does not wait."""
        try:
            files = self._files()
        except ConfigError as error:
            return LoadReport(entries=(Fate(name=self.path, source=self.path, problem=error),))
        entries: list[Fate] = []
        secrets: set[str] = set()
        for file in files:
            origin = self._origin(file)
            try:
                text = _text(file, origin)
            except ConfigError as error:
                entries.append(Fate(name=origin.label, source=origin.label, problem=error))
                continue
            found = read_document(text, origin, format=self.format, env=self._env)
            if not found.fates:
                entries.append(failed(origin.label, f"{origin.label}:1", "the file holds no tools"))
            entries += found.fates
            secrets |= found.secrets
        return LoadReport(entries=tuple(without_doubles(entries)), secrets=frozenset(secrets))

    def _files(self) -> list[Path]:
        if "\0" in self.path:
            raise ConfigError("a path cannot hold a NUL character", cure="Remove it")
        path = self.folder / self.path
        if glob.has_magic(self.path):
            found = [Path(name) for name in glob.glob(str(path), recursive=True)]  # noqa: PTH207
            files = sorted(file for file in found if file.is_file())
            nothing = f"{self.path} matches no file"
        elif os.path.isdir(path):  # noqa: PTH112 - a path object refuses some names
            files = sorted(file for file in path.iterdir() if file.suffix.lower() in ENDINGS)
            nothing = f"the folder {self.path} holds no file of tools ({', '.join(ENDINGS)})"
        else:
            files = [path]
            nothing = ""
        if not files:
            raise ConfigError(nothing, cure=f"It was looked for in {self.folder.absolute()}")
        if len(files) > MAX_FILES:
            raise ConfigError(f"{self.path} means over {MAX_FILES} files", cure="Name fewer")
        return files

    def _origin(self, file: Path) -> Origin:
        absolute = os.path.abspath(file)  # noqa: PTH100 - symbolic links stay as written
        label = os.path.relpath(absolute, os.path.abspath(self.folder))  # noqa: PTH100
        label = absolute if label.startswith("../../") else label
        return Origin(str(file), label, Path(absolute).parent)


def _text(file: Path, origin: Origin) -> str:
    try:
        if file.suffix.lower() not in ENDINGS:
            raise _unreadable(origin, "is not a file of tools", f"Use: {', '.join(ENDINGS)}")
        if not file.is_file():
            raise _unreadable(origin, "does not exist", "Name a file that is there")
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise _unreadable(origin, what, "Check its permissions") from None
    if len(data) > MAX_BYTES:
        limit = MAX_BYTES // 1024 // 1024
        raise _unreadable(origin, f"is larger than {limit} MiB", "Split it into several")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"is not UTF-8 text: byte 0x{data[error.start]:02x}"
        raise _unreadable(origin, what, "Save it as UTF-8", line) from None


def _unreadable(origin: Origin, what: str, cure: str, line: int = 1) -> ConfigError:
    return ConfigError(f"{origin.label} {what}", file=origin.file, line=line, cure=cure)
