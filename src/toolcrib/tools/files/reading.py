"""The actions of `files` that change nothing."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from toolcrib.errors import Denial, ToolFailure
from toolcrib.tools.files.beneath import reopened
from toolcrib.tools.files.patterns import glob
from toolcrib.tools.files.request import Encoding, Request
from toolcrib.tools.files.walking import Found, kind, walk


def read(request: Request) -> dict[str, Any]:
    """A file, or the lines of it from `offset` on."""
    policy = request.policy
    with request.file(request.path) as (fd, place, info):
        if request.offset == 1 and not request.limit:
            data = contents(fd, policy.max_read_bytes, request.path)
            answer = {"sha256": hashlib.sha256(data).hexdigest(), "truncated": False}
        else:
            data, more = _lines(fd, request)
            answer = {"first_line": request.offset, "truncated": more}
    shown = decoded(data, request.encoding, allow_binary=policy.allow_binary)
    return {"path": place, "text": shown, "size": info.st_size, **answer}


def contents(fd: int, most: int, path: str) -> bytes:
    """All of an open file, unless that is more than `most`."""
    with open(fd, "rb", closefd=False) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Denial(
            "file_too_large",
            f"{path} is larger than {most} bytes; read a part of it with offset and limit",
        )
    return data


def _lines(fd: int, request: Request) -> tuple[bytes, bool]:
    """Some lines; whether there are more of those asked for than may be read."""
    policy, passed, taken = request.policy, 0, 0
    parts: list[bytes] = []
    number = 1
    with open(fd, "rb", closefd=False) as file:
        while not request.limit or number < request.offset + request.limit:
            request.still_wanted()
            line = file.readline(65_536)
            if not line:
                return b"".join(parts), False
            passed += len(line)
            if passed > policy.max_search_bytes:
                break
            if number >= request.offset:
                if taken + len(line) > policy.max_read_bytes:
                    break
                parts.append(line)
                taken += len(line)
            number += line.endswith(b"\n")
        else:
            return b"".join(parts), False
    return b"".join(parts), True


def decoded(data: bytes, encoding: Encoding, *, allow_binary: bool) -> str:
    """Bytes as text, or as base64 where that is asked for and allowed."""
    if encoding == "base64":
        return base64.b64encode(data).decode("ascii")
    if b"\0" in data and not allow_binary:
        raise Denial("binary_not_allowed", "the file is not text")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        if not allow_binary:
            raise Denial("binary_not_allowed", "the file is not text in UTF-8") from None
        raise ToolFailure(
            "the file is not text in that encoding; ask for base64", reason="wrong_encoding"
        ) from None


def status(request: Request) -> dict[str, Any]:
    """What is at a path."""
    with request.root.look(request.path) as fd:
        info = os.fstat(fd)
        is_folder = stat.S_ISDIR(info.st_mode)
        place = request.allowed(fd, folder=is_folder)
        answer = _described(place, info)
        if stat.S_ISREG(info.st_mode) and info.st_size <= request.policy.max_read_bytes:
            with reopened(fd, os.O_RDONLY) as real:
                data = contents(real, request.policy.max_read_bytes, request.path)
            answer["sha256"] = hashlib.sha256(data).hexdigest()
    return answer


def _described(place: str, info: os.stat_result) -> dict[str, Any]:
    return {
        "path": place,
        "type": kind(info.st_mode),
        "size": info.st_size,
        "mode": f"{stat.S_IMODE(info.st_mode):04o}",
        "modified": datetime.fromtimestamp(info.st_mtime, UTC).isoformat(timespec="seconds"),
    }


def listing(request: Request) -> dict[str, Any]:
    """The entries of a folder, `depth` levels down."""
    entries: list[dict[str, Any]] = []
    fits = glob(request.glob) if request.glob else None
    with _folder(request) as (fd, place):
        for found in _below(request, fd, place, request.depth):
            if fits is not None and not fits(found.place):
                continue
            if len(entries) >= request.policy.max_entries:
                return {"path": place, "entries": entries, "truncated": True}
            entry: dict[str, Any] = {"path": found.place, "type": found.kind}
            if found.kind == "file":
                entry["size"] = found.info.st_size
            entries.append(entry)
    return {"path": place, "entries": entries, "truncated": False}


@contextmanager
def _folder(request: Request) -> Generator[tuple[int, str], None, None]:
    with request.root.look(request.path) as seen:
        place = request.allowed(seen, folder=True)
        if not stat.S_ISDIR(os.fstat(seen).st_mode):
            raise Denial("not_a_directory", f"{request.path} is not a folder")
        with reopened(seen, os.O_RDONLY | os.O_DIRECTORY) as fd:
            yield fd, place


def _below(request: Request, fd: int, place: str, depth: int) -> Iterator[Found]:
    def wanted(where: str, info: os.stat_result) -> bool:
        request.still_wanted()
        return request.reachable(where, folder=stat.S_ISDIR(info.st_mode), info=info)

    return walk(fd, place, min(depth, request.policy.max_depth), wanted)


def files_below(request: Request) -> Iterator[tuple[str, io.BufferedReader, int]]:
    """Every regular file at or below the path, opened, with its place and size."""
    with request.root.look(request.path) as seen:
        is_folder = stat.S_ISDIR(os.fstat(seen).st_mode)
    if not is_folder:
        with request.file(request.path) as (fd, place, info), open(fd, "rb", closefd=False) as file:
            yield place, file, info.st_size
        return
    with _folder(request) as (top, place):
        for found in _below(request, top, place, request.policy.max_depth):
            if found.kind != "file":
                continue
            try:
                fd = os.open(found.name, os.O_PATH | os.O_NOFOLLOW, dir_fd=found.folder)
            except OSError:
                continue  # gone since
            try:
                info = os.fstat(fd)
                if not stat.S_ISREG(info.st_mode):
                    continue  # swapped since
                if request.own.covers(found.place, info):
                    continue
                with reopened(fd, os.O_RDONLY) as real, open(real, "rb", closefd=False) as file:
                    yield found.place, file, info.st_size
            except PermissionError:
                continue
            finally:
                os.close(fd)
