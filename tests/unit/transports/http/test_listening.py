"""Addresses that are taken, and the socket that only one user can reach."""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from pathlib import Path

import pytest

from toolcrib.core.serving import Listen
from toolcrib.errors import ConfigError
from toolcrib.transports.http.listening import (
    AddressTaken,
    is_loopback,
    open_tcp,
    open_unix,
    remove_unix,
)


def test_a_port_of_its_own_choice() -> None:
    (held,) = open_tcp(Listen(host="127.0.0.1", port=0))
    with held:
        port = held.getsockname()[1]
        assert port > 0
        with pytest.raises(AddressTaken) as caught:
            open_tcp(Listen(host="127.0.0.1", port=port))
    assert f"127.0.0.1:{port} is in use" in str(caught.value)
    assert caught.value.cure


def test_a_name_with_two_addresses_gets_one_port() -> None:
    held = open_tcp(Listen(host="localhost", port=0))
    try:
        assert len({each.getsockname()[1] for each in held}) == 1
    finally:
        for each in held:
            each.close()


def test_an_address_of_another_machine() -> None:
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1"):
        open_tcp(Listen(host="192.0.2.1", port=0))
    with pytest.raises(ConfigError, match="no address"):
        open_tcp(Listen(host="nowhere.invalid", port=0))


def test_nobody_else_may_open_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "s.sock"
    with open_unix(str(path)) as held:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        remove_unix(str(path), path.stat())
        assert held.fileno() >= 0
    assert not path.exists()


def test_the_mode_holds_from_the_first_moment(tmp_path: Path, monkeypatch) -> None:
    seen: list[int] = []
    listen = socket.socket.listen

    def watched(self: socket.socket, *given: int) -> None:
        seen.append(stat.S_IMODE(Path(self.getsockname()).stat().st_mode))
        listen(self, *given)

    monkeypatch.setattr(socket.socket, "listen", watched)
    before = os.umask(0)
    try:
        open_unix(str(tmp_path / "s")).close()
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    assert seen == [0o600]


def test_a_socket_that_nobody_listens_on_makes_room(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    open_unix(path).close()
    assert Path(path).exists()
    with open_unix(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def test_a_socket_in_use_is_left_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with open_unix(path) as held:
        with pytest.raises(AddressTaken, match="in use"):
            open_unix(path)
        held.setblocking(True)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)


def test_a_file_is_no_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="no socket"):
        open_unix(str(path))
    assert path.read_text() == "mine"


def test_of_many_that_start_at_once_one_wins(tmp_path: Path, monkeypatch) -> None:
    path = str(tmp_path / "s")
    open_unix(path).close()
    unlink = Path.unlink

    def slowly(self: Path, missing_ok: bool = False) -> None:
        time.sleep(0.02)  # long enough for all to have found the socket stale
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", slowly)
    opened: list[socket.socket] = []
    refused: list[ConfigError] = []

    def start() -> None:
        try:
            opened.append(open_unix(path))
        except ConfigError as error:
            refused.append(error)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for held in opened:
        held.close()
    assert (len(opened), len(refused)) == (1, 7)


def test_somebody_elses_socket_is_not_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with open_unix(str(path)):
        mine = path.stat()
        path.unlink()
        with open_unix(str(path)):
            remove_unix(str(path), mine)
            assert path.exists()


@pytest.mark.parametrize(
    ("address", "here"),
    [
        (("127.0.0.1", 1), True),
        (("127.9.9.9", 1), True),
        (("::1", 1), True),
        (("::ffff:127.0.0.1", 1), False),
        (("192.0.2.1", 1), False),
        (("/run/s", None), False),
        (None, False),
        (("", 0), False),
    ],
    ids=["four", "range", "six", "mapped", "other", "path", "none", "empty"],
)
def test_which_addresses_are_this_machine(address, here) -> None:
    assert is_loopback(address) is here
