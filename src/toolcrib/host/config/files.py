"""The files of a configuration: the main one, those it includes, and `profiles/` beside it."""

from __future__ import annotations

import os
from pathlib import Path

from toolcrib.errors import ConfigError
from toolcrib.host.config.document import parse_document
from toolcrib.host.config.environment import expand
from toolcrib.host.config.node import Node, Origin
from toolcrib.host.config.reading import Reading
from toolcrib.host.config.seeds import normalise

MAX_BYTES = 4 * 1024 * 1024
MAX_FILES = 1000


def gather(path: Path, reading: Reading) -> list[Node]:
    """The top-level mappings of all files, the main one first."""
    files = _Files(path, reading)
    if files.add(path, None, ()):
        files.add_profiles(path.parent / "profiles")
    return files.roots


class _Files:
    def __init__(self, main: Path, reading: Reading) -> None:
        self.main = main
        self.folder = Path(os.path.abspath(main)).parent  # noqa: PTH100 - symbolic links stay
        self.reading = reading
        self.roots: list[Node] = []
        self.seen: set[Path] = set()

    def add(self, path: Path, place: Node | None, chain: tuple[Path, ...]) -> bool:
        """Read one file and what it includes; a file met again is read once."""
        if "\0" in str(path):
            self.wrong(place, "a path cannot hold a NUL character", "Remove it")
            return False
        real = Path(os.path.realpath(path))
        if real in chain:
            names = [self.label(p) for p in (*chain[chain.index(real) :], real)]
            self.wrong(place, f"include goes in a circle: {' → '.join(names)}", "Break the circle")
            return False
        if real in self.seen:
            return True
        self.seen.add(real)
        if len(self.seen) > MAX_FILES:
            self.wrong(place, f"over {MAX_FILES} files are included", "Include fewer")
            return False
        label, absolute = self.label(path), os.path.abspath(path)  # noqa: PTH100
        shown = os.path.join(os.path.dirname(self.main), label)  # noqa: PTH118, PTH120
        origin = Origin(shown if not os.path.isabs(label) else label, label, Path(absolute).parent)  # noqa: PTH117
        text = self.text(path, origin, place)
        if text is None:
            return False
        self.reading.files.append(origin.file)
        try:
            root = parse_document(text, origin)
        except ConfigError as error:
            self.reading.add(error)
            return False
        if root is None:
            return True
        root = normalise(expand(root, self.reading), self.reading)
        self.roots.append(root)
        self.include(root, (*chain, real))
        return True

    def add_profiles(self, folder: Path) -> None:
        """Read the profile files of a folder, if it is there."""
        if not folder.is_dir():
            return
        try:
            found = sorted(file for file in folder.iterdir() if file.suffix in (".yml", ".yaml"))
        except OSError as error:
            message = f"{self.label(folder)} cannot be read: {error.strerror}"
            self.wrong(None, message, "Check its permissions")
            return
        for file in found:
            self.add(file, None, ())

    def label(self, path: Path) -> str:
        absolute = os.path.abspath(path)  # noqa: PTH100 - symbolic links stay as written
        relative = os.path.relpath(absolute, self.folder)
        return absolute if relative.startswith("../../") else relative

    def text(self, path: Path, origin: Origin, place: Node | None) -> str | None:
        name = origin.file if place is None else origin.label
        if place is not None and place.variable is not None:
            name = place.shown
        try:
            if not path.is_file():
                what = "is a folder" if path.is_dir() else "does not exist"
                self.wrong(place, f"{name} {what}", "Name a file that is there")
                return None
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.wrong(place, f"{name} cannot be read: {reason}", "Check its permissions")
            return None
        if len(data) > MAX_BYTES:
            limit = MAX_BYTES // 1024 // 1024
            self.at(origin, f"the file is larger than {limit} MiB", "Split it with include")
            return None
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = data[: error.start]
            self.reading.add(
                ConfigError(
                    f"byte 0x{data[error.start]:02x} is not UTF-8 text",
                    file=origin.file,
                    line=before.count(b"\n") + 1,
                    column=error.start - before.rfind(b"\n"),
                    cure="Save the file as UTF-8",
                )
            )
            return None

    def include(self, root: Node, chain: tuple[Path, ...]) -> None:
        included = root.get("include")
        if included is None:
            return
        items = included.items if included.items is not None else (included,)
        for item in items:
            if not isinstance(item.value, str) or not item.value:
                continue  # the reader says what is wrong with it
            if "://" in item.value:
                cure = "Copy the file here: configuration is local"
                self.wrong(item, f"include takes files, not addresses: {item.shown}", cure)
                continue
            for path in self.matches(item, item.value):
                self.add(path, item, chain)

    def matches(self, item: Node, text: str) -> list[Path]:
        import glob

        path = item.origin.base / text
        if "\0" in text or not glob.has_magic(text):
            return [path]
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))  # noqa: PTH207
        if not found:
            self.wrong(item, f"include: {item.shown} matches no file", "Correct or remove it")
        return [file for file in found if file.is_file()]

    def wrong(self, place: Node | None, message: str, cure: str) -> None:
        if place is None:
            self.reading.add(ConfigError(message, cure=cure))
        else:
            self.reading.wrong(place, "include", message, cure)

    def at(self, origin: Origin, message: str, cure: str) -> None:
        self.reading.add(ConfigError(message, file=origin.file, line=1, column=1, cure=cure))
