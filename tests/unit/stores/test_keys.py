"""The file that holds the trail's key."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from toolcrib.errors import StoreError
from toolcrib.stores.keys import load_key


def test_a_missing_key_is_made_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "data" / "trail.key"
    key = load_key(file)
    assert len(key) == 32
    assert load_key(str(file)) == key
    assert bytes.fromhex(file.read_text().strip()) == key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["trail.key"]


def test_two_files_get_different_keys(tmp_path: Path) -> None:
    assert load_key(tmp_path / "a") != load_key(tmp_path / "b")


def test_concurrent_makers_agree_on_one_key(tmp_path: Path) -> None:
    start = Barrier(16)

    def load(_: int) -> bytes:
        start.wait()
        return load_key(tmp_path / "trail.key")

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(load, range(16)))) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_key_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "trail.key"
    load_key(file)
    file.chmod(mode)
    with pytest.raises(StoreError, match=f"chmod 600 {file}"):
        load_key(file)


@pytest.mark.parametrize("content", ["", "ab" * 31, "ab" * 33, "zz" * 32, "\udcff", "ab" * 500])
def test_a_short_or_garbled_key_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "trail.key"
    load_key(file)
    file.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(StoreError, match="does not hold a key") as caught:
        load_key(file)
    assert str(file) in str(caught.value)


def test_a_key_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be read or made"):
        load_key(tmp_path / "file" / "trail.key")
    with pytest.raises(StoreError, match="cannot be read or made"):
        load_key(tmp_path)
