"""Text of any kind becomes a configuration or a ConfigError, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcrib.core.settings import HostConfig
from toolcrib.errors import ConfigError
from toolcrib.host.config import format_config, load_config

KEYS = ["version", "host", "tools", "profiles", "serve", "include", "name", "rules", "when"]
MARKS = [": ", "- ", "\n", "\n  ", "\n    ", "[", "]", "{", "}", ", ", "'", '"', "#", "? ", "> "]
YAML_WORDS = ["&a ", "*a", "<<: *a", "!x ", "!!str ", "%YAML 1.1\n", "---\n", "~", "yes", ".nan"]
ODD_WORDS = ["\t", "@", "${A}", "${", "1", "0x1", "1e999", "é", "\\x", "\\ud800", "\x00", "\x85"]
PARTS = st.sampled_from([*KEYS, *MARKS, *YAML_WORDS, *ODD_WORDS, chr(0xD83D)])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)


def attempt(path: Path, data: bytes) -> HostConfig | ConfigError:
    path.write_bytes(data)
    try:
        return load_config(path, env={"A": "value of A"})
    except ConfigError as error:
        return error


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("text")


@given(data=st.binary(max_size=200))
def test_random_bytes(folder: Path, data: bytes) -> None:
    assert isinstance(attempt(folder / "x.yaml", data), HostConfig | ConfigError)


@given(parts=st.lists(PARTS, max_size=30), ending=st.sampled_from(["yaml", "json", "toml"]))
@example(parts=["%YAML 1.1\n", "---\n", "a: 012"], ending="yaml")
@example(parts=['a: "\\ud800"'], ending="yaml")
@example(parts=['a: "\\Uffffffff"'], ending="yaml")
@example(parts=["!<tag:x> a"], ending="yaml")
@example(parts=["a = 2020-01-01"], ending="toml")
def test_random_almost_configurations(folder: Path, parts: list[str], ending: str) -> None:
    data = "".join(parts).encode("utf-8", "surrogatepass")
    assert isinstance(attempt(folder / f"x.{ending}", data), HostConfig | ConfigError)


@given(parts=st.lists(PARTS, max_size=20))
def test_formatting_random_text(parts: list[str]) -> None:
    try:
        once = format_config("".join(parts))
    except ConfigError:
        return
    assert format_config(once) == once


@given(data=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
def test_random_structures(folder: Path, data: dict[str, Any]) -> None:
    for ascii_only in (True, False):
        text = json.dumps(data, ensure_ascii=ascii_only).encode()
        assert isinstance(attempt(folder / "x.yaml", text), HostConfig | ConfigError)


@given(value=JSON)
def test_json_keeps_its_values(folder: Path, value: Any) -> None:
    principals = {"p": {"attributes": {"x": value}}}
    text = json.dumps({"principals": principals}, indent="\t").encode()
    config = attempt(folder / "x.json", text)
    assert isinstance(config, HostConfig)
    assert config.principals["p"].attributes == {"x": value}


def test_yaml_1_2_types(folder: Path) -> None:
    text = "{a: yes, b: 012, c: 0o17, d: 0xff, e: 1e3, f: 2020-01-01, g: 1_000, 404: ~}"
    config = attempt(folder / "x.yaml", f"principals: {{p: {{attributes: {text}}}}}".encode())
    assert isinstance(config, HostConfig)
    assert config.principals["p"].attributes == {
        "a": "yes",
        "b": 12,
        "c": 15,
        "d": 255,
        "e": 1000.0,
        "f": "2020-01-01",
        "g": "1_000",
        "404": None,
    }


def test_toml(tmp_path: Path) -> None:
    text = """\
[host]
timeout = "5s"

[[tools]]
name = "one"
kind = "shell"

[[tools]]
name = "two"
kind = "shell"

[profiles.reviewer]
trust = 1
rules = [{allow = "one"}, {deny = {effects = ["write"]}}]
"""
    path = tmp_path / "toolcrib.toml"
    config = attempt(path, text.encode())
    assert isinstance(config, HostConfig)
    assert config.settings.timeout == 5
    assert [tool["source"] for tool in config.tools] == ["toolcrib.toml:5", "toolcrib.toml:9"]
    assert config.profiles["reviewer"].source == "toolcrib.toml:12"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.yaml", b"host: {}\n\xff\n", "x.yaml:2:1: byte 0xff is not UTF-8 text"),
        ("x.yaml", b"#" * (4 * 1024 * 1024 + 1), "x.yaml:1:1: the file is larger than 4 MiB"),
        ("x.yaml", b'a: "\\ud800"', "x.yaml:1:4: this value holds half of a character"),
        ("x.json", b'{"host": {},}', "x.json:1:13: this is not JSON"),
        ("x.json", b'{"a": 1, "a": 2}', "x.json:1:10: the key 'a' stands here and on line 1"),
        ("x.json", b'{"serve": {"a": NaN}}', "x.json: this is not JSON: NaN is not a number"),
        ("x.json", b"[" * 100_000, "x.json: this is not JSON"),
        ("x.toml", b"host = {\n", "x.toml:1:9: this is not TOML"),
        ("x.toml", b"when = 2020-01-01\n", "x.toml: the file holds a value of type date"),
        ("x.toml", b"[host]\nthread = 1\n", "x.toml:2:1: host has no setting 'thread'"),
    ],
)
def test_unreadable_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    error = attempt(Path(name), data)
    assert isinstance(error, ConfigError)
    assert str(error).startswith(message)
