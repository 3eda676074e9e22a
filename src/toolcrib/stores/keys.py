"""The key that signs a trail, in a file of its own."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from toolcrib.errors import StoreError

KEY_BYTES = 32


def load_key(path: str | os.PathLike[str]) -> bytes:
    """The key in the file `path`; a missing file is made with a fresh one.

    Programs that start at the same moment agree on one key.
    """
    file = Path(path)
    try:
        if not file.exists():
            _make(file)
        return _read(file)
    except OSError as error:
        raise StoreError(
            f"{file}: the key cannot be read or made ({error.strerror}). "
            "Check that this user owns the file and may write in its folder."
        ) from error


def _make(file: Path) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.urandom(8).hex()}.new")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        try:
            os.write(descriptor, os.urandom(KEY_BYTES).hex().encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        # A link appears whole or not at all, and never replaces what somebody else just made.
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()
    # A trail whose key is lost in a power cut can never be verified again.
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(file: Path) -> bytes:
    with file.open("rb") as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if stat.S_IMODE(mode) & 0o077:
            raise StoreError(
                f"{file}: others can read the key (mode {stat.S_IMODE(mode):04o}). "
                f"Run `chmod 600 {file}`, and replace the key if it may have been seen."
            )
        text = stream.read(4 * KEY_BYTES)
    try:
        key = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise StoreError(
            f"{file}: it does not hold a key ({2 * KEY_BYTES} hexadecimal digits). Restore it "
            "from a backup; or move it away to begin with a new key, which cannot verify the "
            "records signed so far."
        )
    return key
