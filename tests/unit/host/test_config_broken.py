"""Every broken file in tests/broken is refused with the message that stands in its first line."""

from __future__ import annotations

from pathlib import Path

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from toolcrib.errors import ConfigError
from toolcrib.host.config import config_schema, load_config
from toolcrib.host.config.node import Origin
from toolcrib.host.config.yamltext import parse_yaml

BROKEN = Path(__file__).parents[2] / "broken"
FILES = sorted(BROKEN.glob("*.yaml"))
MARK = "# expect: "
ENV = {
    "TOOLCRIB_TEST_SECRET": "a-secret-value",
    "TOOLCRIB_TEST_LONG": "a-secret-value-that-is-long",
}

# What a schema for editors cannot see: names that refer to others, other files, the environment,
# the insides of names, patterns and schemas, and which settings go together.
ONLY_THE_READER_SEES = frozenset(
    {
        "approval-timeout",
        "constraint-broken-regex",
        "constraint-look-around",
        "constraint-min-above-max",
        "host-profile-none",
        "host-profile-unknown",
        "include-address",
        "include-broken",
        "include-circle",
        "include-folder",
        "include-missing",
        "include-no-match",
        "include-twice-named",
        "limit-nothing",
        "limit-rate-unit",
        "principal-profile-unknown",
        "profile-extends-itself",
        "profile-extends-unknown",
        "rule-reason-on-ask",
        "rule-two-verdicts",
        "serve-body-tiny",
        "serve-jwt-http",
        "serve-jwt-profile",
        "serve-jwt-twice",
        "serve-listen-bare-ipv6",
        "serve-listen-nowhere",
        "serve-listen-port",
        "serve-listen-short-address",
        "serve-listen-star",
        "serve-local-unknown",
        "serve-profile-unknown",
        "serve-stdio-principal",
        "serve-token-default",
        "serve-token-principal",
        "serve-token-profile",
        "serve-token-profile-not-allowed",
        "serve-token-short",
        "serve-token-twice",
        "serve-user-unknown",
        "serve-wait-too-long",
        "timeout-negative",
        "tool-no-function",
        "tool-python-missing-file",
        "tool-python-module",
        "tool-python-with-timeout",
        "tool-schema-array",
        "tool-schema-pattern",
        "tool-schema-remote",
        "tool-schema-type",
        "tool-shell-module",
        "tool-template-kind",
        "tool-twice",
        "variable-for-number",
        "variable-malformed",
        "variable-open",
        "variable-unset",
    }
)


def _expected(path: Path) -> str:
    first = path.read_text("utf-8").split("\n", 1)[0]
    assert first.startswith(MARK), f"{path.name} does not say what is expected"
    return first.removeprefix(MARK)


def test_there_are_many_broken_files() -> None:
    assert len(FILES) >= 60


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_broken_file_gets_its_message(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BROKEN)
    with pytest.raises(ConfigError) as caught:
        load_config(path.name, env=ENV)
    assert str(caught.value) == _expected(path)
    assert all("a-secret-value" not in str(mistake) for mistake in caught.value.all())


def _readable(path: Path) -> bool:
    try:
        return parse_yaml(path.read_text("utf-8"), Origin(path.name, path.name, BROKEN)) is not None
    except ConfigError:
        return False


READABLE = [path for path in FILES if _readable(path)]


@pytest.mark.parametrize("path", READABLE, ids=lambda path: path.stem)
def test_schema_refuses_what_it_can_see(path: Path) -> None:
    data = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
    valid = jsonschema_rs.Draft7Validator(config_schema()).is_valid(data)
    assert valid == (path.stem in ONLY_THE_READER_SEES)


def test_the_list_of_exceptions_is_exact() -> None:
    assert {path.stem for path in READABLE} >= ONLY_THE_READER_SEES
