from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from toolcrib.sandbox import cgroup

V1 = (
    "30 25 0:26 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
    "31 25 0:27 / /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids\n"
)
V2 = "30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
CONTAINER = "30 25 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders in which a group would be tried; it works in the last of each resource."""
    folders: list[str] = []

    def works(controller: cgroup.Controller) -> bool:
        folders.append(str(controller.parent))
        return "sibling" in str(controller.parent) or "slice" not in str(controller.parent)

    monkeypatch.setattr(cgroup, "_works", works)
    return folders


def test_version_1_is_found_where_the_process_is(tried: list[str]) -> None:
    found = cgroup.find(V1, "4:memory:/a/b\n3:pids:/\n0::/\n")
    assert tried == ["/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/pids"]
    assert found.memory is not None
    assert found.memory.limit == "memory.limit_in_bytes"
    assert found.processes is not None


def test_version_2_is_tried_beside_the_process_too(tried: list[str]) -> None:
    found = cgroup.find(V2, "0::/sibling/x.slice\n")
    assert found.memory is not None
    assert found.memory.limit == "memory.max"
    tried.clear()
    cgroup.find(V2, "0::/a.slice/b.slice\n")
    places = ["/sys/fs/cgroup/a.slice/b.slice", "/sys/fs/cgroup/a.slice"]
    assert tried == [*places, *places]


def test_a_machine_with_both_versions(tried: list[str]) -> None:
    empty = "32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    found = cgroup.find(V1 + empty, "4:memory:/m\n3:pids:/p\n0::/\n")
    assert tried == ["/sys/fs/cgroup/memory/m", "/sys/fs/cgroup/pids/p"]
    assert found.memory is not None


def test_a_container_sees_a_part_of_the_tree(tried: list[str]) -> None:
    cgroup.find(CONTAINER, "4:memory:/docker/abc/inner\n")
    cgroup.find(CONTAINER, "4:memory:/elsewhere\n")
    assert tried == ["/sys/fs/cgroup/memory/inner", "/sys/fs/cgroup/memory"]


def test_what_cannot_be_written_is_not_used(tmp_path: Path) -> None:
    place = f"30 25 0:26 / {tmp_path}/absent rw - cgroup cgroup rw,memory\n"
    assert cgroup.find(place, "4:memory:/\n") == cgroup.Controllers()
    assert cgroup.find("", "") == cgroup.Controllers()


def test_a_group_limits_knows_and_goes() -> None:
    found = cgroup.controllers()
    if found.processes is None:
        pytest.skip("needs a control group that can be written")
    group = found.make(memory=None, processes=3)
    assert group is not None
    waiter = subprocess.Popen(["/bin/sh", "-c", "read -r _"], stdin=subprocess.PIPE)
    try:
        group.join(waiter.pid)
        assert group.members() == {waiter.pid}
        assert not group.out_of_memory()
        assert not group.remove()
    finally:
        waiter.communicate()
    assert group.remove()
    assert found.make(memory=None, processes=None) is None


def test_groups_of_dead_hosts_are_cleared_away() -> None:
    found = cgroup.controllers()
    if found.processes is None:
        pytest.skip("needs a control group that can be written")
    dead = subprocess.Popen(["true"])
    dead.wait()
    parent = found.processes.parent
    stale, own = parent / f"toolcrib-{dead.pid}-1", parent / f"toolcrib-{os.getpid()}-0"
    stale.mkdir()
    own.mkdir()
    try:
        cgroup.controllers.cache_clear()
        assert cgroup.controllers() == found
        assert not stale.exists()
        assert own.exists()
    finally:
        own.rmdir()
