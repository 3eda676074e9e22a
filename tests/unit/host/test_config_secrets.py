"""Whatever is wrong with a configuration, no message holds the value of a variable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib import ConfigError, ToolHost, ToolPolicy, tool
from toolcrib.host.config import config_from_mapping, document_settings, load_config

CANARIES = {
    "word": "canary7f3a9b",
    "long": "canary7f3a9b" + "0123456789" * 40,
    "quoted": "canary'7f3a\\\"9b\nsecond-line\tend",
    "letters": "kanari-é漢字-\U0001f600-7f3a9b",
    "path": "/srv/canary7f3a9b/inner.yaml",
    "url": "https://user:canary7f3a9b@example.invalid/path",
    "number": "48151623421",
}
PATHS = [row.path for row in document_settings()]
SHAPES: dict[str, Any] = {
    "plain": "${CANARY}",
    "inside": "before ${CANARY} after",
    "list": ["${CANARY}", "${CANARY}"],
    "mapping": {"key": "${CANARY}"},
    "deep": {"key": {"type": "${CANARY}", "list": ["${CANARY}"]}},
    "named": [{"key": {"other": "${CANARY}"}}],
}


def at(path: str, value: Any) -> dict[str, Any]:
    """A configuration with a value at the path of a setting."""
    for part in reversed(path.split(".")):
        name = part.removesuffix("[]")
        value = {"x" if name == "NAME" else name: [value] if part.endswith("[]") else value}
    return value


def told(config: Any) -> list[str]:
    """All that is said about a configuration and all that is kept of it in the mistakes."""
    try:
        host = ToolHost(config=config)
        host.load()
    except ConfigError as error:
        return [f"{m} {m.message} {m.cure} {m.file} {m.key} {m.args}" for m in error.all()]
    return []


def assert_hidden(messages: list[str], canary: str) -> None:
    parts = [canary] if canary.isdigit() else [canary[i : i + 6] for i in range(len(canary) - 5)]
    plain = [part for part in parts if part not in "https://user example.invalid/path inner.yaml"]
    for message in messages:
        for part in plain:
            for form in (part, repr(part)[1:-1], ascii(part)[1:-1]):
                assert form not in message, message


@pytest.mark.parametrize("canary", CANARIES.values(), ids=CANARIES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_no_setting_gives_the_value_of_a_variable_away(
    canary: str, shape: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", canary)
    wrong = 0
    for path in PATHS:
        messages = told(at(path, shape))
        wrong += bool(messages)
        assert_hidden(messages, canary)
    assert wrong > len(PATHS) / 3, "there was something to say"


class Narrow(ToolPolicy):
    """Knobs of several kinds."""

    count: int = 1
    names: list[str] = []  # noqa: RUF012 - as users write it


@pytest.mark.parametrize("canary", CANARIES.values(), ids=CANARIES)
@pytest.mark.parametrize(
    "knobs",
    [{"count": "${CANARY}"}, {"names": "${CANARY}"}, {"names": [{"a": "${CANARY}"}]}],
    ids=["number", "list", "inner"],
)
def test_policies_of_tools_and_profiles_give_nothing_away(
    canary: str, knobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(policy=Narrow)
    def work() -> None:
        """Work."""

    monkeypatch.setenv("CANARY", canary)
    host = ToolHost([work], config={"profiles": {"p": {"policies": {"work": knobs}}}})
    with pytest.raises(ConfigError) as caught:
        host.load()
    assert_hidden([str(mistake) for mistake in caught.value.all()], canary)


@pytest.mark.parametrize("canary", CANARIES.values(), ids=CANARIES)
def test_tools_with_broken_parts_give_nothing_away(
    canary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", canary)
    broken: list[dict[str, Any]] = [
        {"input_schema": {"type": "${CANARY}"}},
        {"input_schema": {"properties": {"a": {"enum": "${CANARY}"}}}},
        {"input_schema": {"properties": {"a": {"pattern": "(${CANARY}"}}}},
        {"input_schema": {"$ref": "${CANARY}"}},
        {"output_schema": {"required": "${CANARY}"}},
        {"config": {"url": "${CANARY}", "${CANARY}": 1, "command": ["${CANARY}"]}},
        {"policy": {"use": "${CANARY}"}},
        {"policy": {"use": "paths", "root": {"a": "${CANARY}"}, "other": "${CANARY}"}},
    ]
    for fields in broken:
        for kind in ("python", "process", "shell", "http", "${CANARY}"):
            item: dict[str, Any] = {"name": "t", "kind": kind, **fields}
            assert_hidden(told({"tools": [item]}), canary)
    for item in ({"python": "${CANARY}"}, {"template": "${CANARY}"}):
        messages = told({"tools": [item]})
        assert messages
        assert_hidden(messages, canary)


@pytest.mark.parametrize("text", ["${CANARY}/none.yaml", "${CANARY}", "${CANARY}/no*.yaml"])
def test_a_file_that_a_variable_names_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "canary7f3a9b").mkdir()
    (tmp_path / "toolcrib.yaml").write_text(f"include: '{text}'\n")
    monkeypatch.chdir(tmp_path)
    for value in ("canary7f3a9b", str(tmp_path / "canary7f3a9b")):
        with pytest.raises(ConfigError) as caught:
            load_config("toolcrib.yaml", env={"CANARY": value})
        (message,) = [str(mistake) for mistake in caught.value.all()]
        assert "the value of ${CANARY}" in message
        assert_hidden([message], "canary7f3a9b")


def test_what_is_not_of_a_variable_is_still_told() -> None:
    with pytest.raises(ConfigError, match="not 'canary7f3a9b'"):
        config_from_mapping({"host": {"threads": "canary7f3a9b"}}, env={})
    with pytest.raises(ConfigError, match=r"not the value of \$\{CANARY\}"):
        config_from_mapping({"host": {"threads": "${CANARY}"}}, env={"CANARY": "canary7f3a9b"})
