"""Opening files below a folder so that no path, link or race leads out of it.

The kernel resolves each path (`openat2` with `RESOLVE_BENEATH`), so that there is no moment
between a check of the path and its use. Everything here works on descriptors.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager

from toolcrib.errors import Denial, ToolFailure

_SYS_OPENAT2 = 437  # the same on every architecture that Python runs on under Linux
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_HERE = -100  # where relative paths begin: the working folder
_NOREPLACE = 1
_TRIES = 64
_LIBC = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def _openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    how = _How(flags | os.O_CLOEXEC, 0, resolve)
    for _ in range(_TRIES):
        found = _LIBC.syscall(
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if found >= 0:
            return int(found)
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):  # the kernel saw a rename while it looked
            raise OSError(code, os.strerror(code), path)
    raise ToolFailure(
        f"{path}: the folders on the way change too quickly", reason="file_busy", retryable=True
    )


def rename(source: int, name: str, target: int, new: str, *, replace: bool) -> None:
    """Move a name between two open folders. `FileExistsError` unless it may replace."""
    if replace:
        os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)
        return
    done = _LIBC.renameat2(
        ctypes.c_int(source),
        ctypes.c_char_p(os.fsencode(name)),
        ctypes.c_int(target),
        ctypes.c_char_p(os.fsencode(new)),
        ctypes.c_uint(_NOREPLACE),
    )
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), new)


class Root:
    """A folder, named without links and held open. Paths are relative to it; what leaves it is
    `path_outside_root`."""

    def __init__(self, folder: str, *, follow: bool = True) -> None:
        self._resolve = _BENEATH | _NO_MAGICLINKS | (0 if follow else _NO_SYMLINKS)
        try:
            # Where it is was found out before; a link on the way was put there since.
            self.fd = _openat2(_HERE, folder, os.O_PATH | os.O_DIRECTORY, _NO_SYMLINKS)
        except OSError as error:
            if error.errno == errno.ELOOP:
                text = "the tool's folder has become a link, or lies behind one"
                raise Denial("path_outside_root", text) from None
            if error.errno in (errno.ENOSYS, errno.EPERM):
                raise _no_openat2() from None
            raise ToolFailure(
                f"the tool's folder cannot be opened: {error.strerror}", reason="tool_unavailable"
            ) from None
        try:
            self._name = _name(self.fd).rstrip(b"/")
            os.close(_openat2(self.fd, ".", os.O_PATH, self._resolve))
        except OSError:
            os.close(self.fd)
            raise _no_openat2() from None

    @property
    def path(self) -> str:
        """Where the folder really is."""
        return os.fsdecode(self._name or b"/")

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self.fd)

    @contextmanager
    def look(self, path: str, flags: int = 0) -> Generator[int, None, None]:
        """A descriptor that says what is at `path` and opens nothing: no device is touched."""
        fd = self._open(path, os.O_PATH | flags)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def folder(self, path: str) -> Generator[int, None, None]:
        """The folder at `path`."""
        with self.look(path) as fd:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                raise Denial("not_a_directory", f"{path} is not a folder")
            yield fd

    def _open(self, path: str, flags: int) -> int:
        try:
            return _openat2(self.fd, path, flags, self._resolve)
        except OSError as error:
            raise said(error, path) from None

    def place(self, fd: int) -> str:
        """Where an open file really is, relative to the root; `.` is the root itself."""
        name = _name(fd)
        if name == (self._name or b"/"):
            return "."
        if not name.startswith(self._name + b"/"):
            raise Denial("path_outside_root", "the file is not below the tool's folder any more")
        return os.fsdecode(name[len(self._name) + 1 :])


def _no_openat2() -> ToolFailure:
    text = "files need Linux 5.6 or newer with openat2 and /proc"
    return ToolFailure(text, reason="tool_unavailable")


def _name(fd: int) -> bytes:
    # Bytes and no `Path`: the name is compared, not tidied up.
    return os.readlink(b"/proc/self/fd/%d" % fd)  # noqa: PTH115


@contextmanager
def reopened(fd: int, flags: int) -> Generator[int, None, None]:
    """The very file behind a `look`, opened for real once it is known what it is."""
    real = os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        yield real
    finally:
        os.close(real)


def said(error: OSError, path: str) -> Denial | ToolFailure:
    """An error of the system in words for the caller."""
    match error.errno:
        case errno.EXDEV:
            return Denial("path_outside_root", f"{path!r} leads out of the tool's folder")
        case errno.ELOOP:
            return Denial("path_not_allowed", f"{path!r} goes through a symbolic link")
        case errno.ENOENT:
            return ToolFailure(f"{path}: there is no such file", reason="file_not_found")
        case errno.ENOTDIR:
            return ToolFailure(f"{path}: a part of it is not a folder", reason="file_not_found")
        case errno.ENAMETOOLONG | errno.EINVAL:
            return Denial("invalid_path", f"{path[:80]!r} cannot be a path here")
        case errno.EEXIST:
            return Denial("file_exists", f"{path} exists")
        case errno.EISDIR:
            return Denial("is_directory", f"{path} is a folder")
        case _:
            return ToolFailure(f"{path}: {error.strerror}", reason="file_failure")
