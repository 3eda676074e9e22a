"""The actions of `files` that change something."""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import os
import secrets
import stat
from contextlib import suppress
from typing import Any

from toolcrib.errors import Denial, ToolFailure
from toolcrib.tools.files.beneath import rename
from toolcrib.tools.files.reading import contents
from toolcrib.tools.files.request import Request, Spot, only_file
from toolcrib.tools.files.walking import inside, walk


def write(request: Request) -> dict[str, Any]:
    """Make a file, or put new contents in the place of the old."""
    data = _encoded(request)
    with request.spot(request.path, parents=request.parents) as spot:
        old = spot.info()
        if old is not None:
            only_file(old, request.path)
        if request.if_hash:
            if old is None:
                raise ToolFailure(f"{request.path}: no such file", reason="file_not_found")
            have = hashlib.sha256(_current(request, spot)[0]).hexdigest()
            if have != request.if_hash.lower().removeprefix("sha256:"):
                raise _changed(request.path)
        elif old is not None and not request.overwrite:
            raise Denial("file_exists", f"{request.path} exists; say overwrite, or give if_hash")
        _put(request, spot, data, old)
        return _written(spot, data, created=old is None)


def edit(request: Request) -> dict[str, Any]:
    """Replace a text that occurs exactly `count` times."""
    old_text, new_text = request.old.encode(), request.new.encode()
    with request.spot(request.path) as spot:
        info = spot.info()
        if info is None:
            raise ToolFailure(f"{request.path}: no such file", reason="file_not_found")
        only_file(info, request.path)
        data, seen = _current(request, spot)
        if b"\0" in data and not request.policy.allow_binary:
            raise Denial("binary_not_allowed", f"{request.path} is not text")
        times = data.count(old_text)
        if times == 0:
            raise ToolFailure(f"{request.path} does not contain that", reason="edit_not_found")
        if times != request.count:
            raise ToolFailure(
                f"{request.path} contains that {times} times, not {request.count}; "
                "give more of the text around it, or the right count",
                reason="edit_not_unique",
                details={"found": times},
            )
        size = len(data) + (len(new_text) - len(old_text)) * times
        _small_enough(size, request)
        data = data.replace(old_text, new_text)
        now = spot.info()
        if now is None or _identity(now) != _identity(seen):
            raise _changed(request.path)
        _put(request, spot, data, now)
        return {**_written(spot, data, created=False), "replaced": times}


def move(request: Request) -> dict[str, Any]:
    """Give a file or folder another name."""
    with (
        request.spot(request.path) as old,
        request.spot(request.to, parents=request.parents) as new,
    ):
        info = old.info()
        if info is None:
            raise ToolFailure(f"{request.path}: no such file", reason="file_not_found")
        if stat.S_ISDIR(info.st_mode):
            _all_reachable(request, old, new.place)
        there = new.info()
        if there is not None:
            if not request.overwrite:
                raise Denial("file_exists", f"{request.to} exists; say overwrite to replace it")
            only_file(there, request.to)
        request.still_wanted()
        try:
            rename(old.folder, old.name, new.folder, new.name, replace=there is not None)
        except OSError as error:
            if error.errno in (errno.EXDEV, errno.EINVAL, errno.ENOTDIR):
                text = f"{request.path} cannot be moved there: {error.strerror}"
                raise ToolFailure(text, reason="move_failed") from None
            raise
        return {"path": old.place, "to": new.place}


def delete(request: Request) -> dict[str, Any]:
    """Delete a file, an empty folder, or a whole folder where the policy lets that happen."""
    with request.spot(request.path) as spot:
        info = spot.info()
        if info is None:
            raise ToolFailure(f"{request.path}: no such file", reason="file_not_found")
        request.still_wanted()
        if not stat.S_ISDIR(info.st_mode):
            os.unlink(spot.name, dir_fd=spot.folder)
            return {"path": spot.place, "deleted": 1}
        if request.recursive and request.policy.allow_recursive_delete:
            _all_reachable(request, spot, spot.place)
            return {"path": spot.place, "deleted": _remove(request, spot.folder, spot.name)}
        try:
            os.rmdir(spot.name, dir_fd=spot.folder)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                text = f"{request.path} is a folder that is not empty"
                raise ToolFailure(text, reason="directory_not_empty") from None
            raise
        return {"path": spot.place, "deleted": 1}


def _remove(request: Request, folder: int, name: str) -> int:
    gone = 1
    with inside(folder, name) as fd:
        with os.scandir(fd) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for entry, is_folder in found:
            request.still_wanted()
            if is_folder:
                gone += _remove(request, fd, entry)
            else:
                os.unlink(entry, dir_fd=fd)
                gone += 1
    os.rmdir(name, dir_fd=folder)
    return gone


def _all_reachable(request: Request, spot: Spot, new: str) -> None:
    """Refuse to take a folder along with something in it that must not be touched, or that its
    new place would put within or out of reach."""
    policy = request.policy

    def every(where: str, info: os.stat_result) -> bool:
        request.must_reach(where, info=info)
        request.must_reach(new + where[len(spot.place) :])
        return True

    with inside(spot.folder, spot.name) as fd:
        most = policy.max_entries + 1
        every_one = walk(fd, spot.place, policy.max_depth, every, most=most, strict=True)
        for number, found in enumerate(every_one, 1):
            request.still_wanted()
            deep = found.place.count("/") - spot.place.count("/") >= policy.max_depth
            if number > policy.max_entries or (deep and found.kind == "folder"):
                raise Denial(
                    "too_many_files",
                    f"{request.path} holds more than {policy.max_entries} entries, "
                    f"or more than {policy.max_depth} levels of folders",
                )


def _encoded(request: Request) -> bytes:
    try:
        if request.encoding == "base64":
            data = base64.b64decode(request.content, validate=True)
        else:
            data = request.content.encode(request.encoding)
    except (binascii.Error, UnicodeEncodeError, ValueError):
        text = f"the content cannot be written as {request.encoding}"
        raise ToolFailure(text, reason="wrong_encoding") from None
    if b"\0" in data and not request.policy.allow_binary:
        raise Denial("binary_not_allowed", "only text may be written here")
    _small_enough(len(data), request)
    return data


def _small_enough(size: int, request: Request) -> None:
    most = request.policy.max_write_bytes
    if size > most:
        raise Denial("file_too_large", f"{size} bytes, and at most {most} may be written")


def _current(request: Request, spot: Spot) -> tuple[bytes, os.stat_result]:
    """What is in the file now, and which file that was. A link in its place is not followed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    fd = os.open(spot.name, flags, dir_fd=spot.folder)
    try:
        info = os.fstat(fd)
        only_file(info, request.path)
        return contents(fd, request.policy.max_read_bytes, request.path), info
    finally:
        os.close(fd)


def _put(request: Request, spot: Spot, data: bytes, old: os.stat_result | None) -> None:
    """All of the new contents or none of them: written aside, then put in place at once."""
    aside = f".{secrets.token_hex(8)}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(aside, flags, 0o666, dir_fd=spot.folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            if old is not None:
                with suppress(PermissionError):  # only root can give files away
                    os.fchown(fd, old.st_uid, old.st_gid)
                os.fchmod(fd, stat.S_IMODE(old.st_mode) & 0o777)
            os.fsync(fd)
        request.still_wanted()
        rename(spot.folder, aside, spot.folder, spot.name, replace=old is not None)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(aside, dir_fd=spot.folder)
        raise


def _identity(info: os.stat_result) -> tuple[int, int, int, int]:
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)


def _changed(path: str) -> ToolFailure:
    text = f"{path} was changed by somebody else; read it again"
    return ToolFailure(text, reason="file_changed", retryable=True)


def _written(spot: Spot, data: bytes, *, created: bool) -> dict[str, Any]:
    return {
        "path": spot.place,
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "created": created,
    }
