from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.sandbox import SandboxLimits
from toolcrib.errors import ConfigError
from toolcrib.sandbox.limits import stricter

Make = Callable[..., Any]


def test_settings_are_read(make: Make, tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    sandbox = make(
        "bubblewrap",
        read=["."],
        write=["build"],
        network=False,
        memory="512MiB",
        cpu="30s",
        processes=8,
        time="5m",
        file_size="1GB",
        open_files=64,
        output="1MB",
        environment=["LANG"],
    )
    settings = sandbox.settings
    assert settings.read == (str(tmp_path),)
    assert settings.write == (str(tmp_path / "build"),)
    assert settings.environment == ("LANG",)
    assert settings.limits == SandboxLimits(
        time=300.0,
        cpu=30.0,
        memory=512 << 20,
        processes=8,
        file_size=10**9,
        open_files=64,
        output=10**6,
    )


def test_what_is_not_said_has_limits_too(make: Make) -> None:
    limits = make("bubblewrap").settings.limits
    assert (limits.memory, limits.processes) == (1 << 30, 64)
    assert limits.output is not None


@pytest.mark.parametrize(
    ("type", "settings", "key", "words"),
    [
        ("bubblewrap", {"raed": ["."]}, "raed", "Did you mean read?"),
        ("bubblewrap", {"write": ["build"]}, "write", "does not exist"),
        ("bubblewrap", {"read": ["nowhere"]}, "read", "does not exist"),
        ("bubblewrap", {"read": ["/"]}, "read", "whole file system"),
        ("bubblewrap", {"read": ["/proc/self"]}, "read", "own /proc"),
        ("bubblewrap", {"read": "."}, "read", "not a list"),
        ("bubblewrap", {"network": "no"}, "network", "true or"),
        ("bubblewrap", {"memory": "1 gig"}, "memory", "size"),
        ("bubblewrap", {"time": "soon"}, "time", "duration"),
        ("bubblewrap", {"processes": True}, "processes", "whole number"),
        ("bubblewrap", {"processes": 0}, "processes", "whole number"),
        ("bubblewrap", {"environment": ["A=b"]}, "environment", "names only"),
        ("bubblewrap", {"image": "x"}, "image", "no setting image"),
        ("landlock", {"netwrok": True}, "netwrok", "Did you mean network?"),
        ("subprocess", {"read": ["."]}, "read", "type: bubblewrap"),
        ("subprocess", {"network": False}, "network", "cannot keep apart"),
        ("container", {}, "image", "needs an image"),
        ("container", {"image": "--privileged"}, "image", "needs an image"),
        ("container", {"image": "x", "engine": "rkt"}, "engine", "no engine rkt"),
    ],
)
def test_what_is_wrong_is_said_with_a_cure(
    make: Make, type: str, settings: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=r"box|is|names") as caught:
        make(type, **settings)
    assert caught.value.key == key
    assert caught.value.cure
    assert words in str(caught.value)


def test_a_link_to_the_whole_file_system_is_refused(make: Make, tmp_path: Path) -> None:
    (tmp_path / "all").symlink_to("/")
    with pytest.raises(ConfigError, match="whole file system"):
        make("bubblewrap", read=["all"])


def test_the_stricter_limit_holds() -> None:
    one = SandboxLimits(time=5.0, memory=100, cpu=None, processes=3)
    other = SandboxLimits(time=7.0, memory=50, cpu=2.0)
    assert stricter(one, other) == SandboxLimits(time=5.0, memory=50, cpu=2.0, processes=3)
