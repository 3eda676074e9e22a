"""Settings of extensions and exporters that do not fit are told in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib import ConfigError, ToolHost
from toolcrib.testing import EventRecorder

CANARY = "canary-4711-secret"
ODD = (
    "cannot be made from these settings: TypeError. "
    "Compare the kinds of the values with its documentation"
)


class Mail:
    """An exporter with settings."""

    mode = "queued"

    def __init__(self, address: str, *, subject: str = "news", retries: int = 3) -> None:
        self.address = address + subject

    async def export(self, batch: object) -> None:
        """Carry nothing."""


def build(text: str, tmp_path: Path, **exporters: Any) -> list[str]:
    """What is wrong with a configuration, one message each."""
    file = tmp_path / "toolcrib.yaml"
    file.write_text(text)
    host = ToolHost(config=file)
    for name, factory in exporters.items():
        host.registrar.exporter(name, factory)
    with pytest.raises(ConfigError) as caught:
        host.load()
    return [str(mistake).removeprefix(f"{tmp_path}/") for mistake in caught.value.all()]


def passes_on(**settings: Any) -> Mail:
    return Mail(**settings)


@pytest.mark.parametrize("factory", [Mail, passes_on], ids=["class", "function"])
@pytest.mark.parametrize(
    ("settings", "messages"),
    [
        (
            "{adress: x}",
            [
                "the exporter 'mail' has no setting 'adress'. Did you mean address?",
                "the exporter 'mail' needs the setting address. Write {address: …}",
            ],
        ),
        ("{}", ["the exporter 'mail' needs the setting address. Write {address: …}"]),
        (
            "{address: x, zzz: 1, Retry: 2}",
            [
                "the exporter 'mail' has no setting 'zzz'. Known: subject, retries",
                "the exporter 'mail' has no setting 'Retry'. Did you mean retries?",
            ],
        ),
        (
            "{address: [1]}",
            [f"the exporter 'mail' {ODD}"],
        ),
    ],
    ids=["mistyped", "missing", "unknown", "kind"],
)
def test_each_setting_that_does_not_fit_is_named(
    tmp_path: Path, factory: Any, settings: str, messages: list[str]
) -> None:
    found = build(f"exporters:\n  - mail: {settings}\n", tmp_path, mail=factory)
    assert [message.removeprefix("toolcrib.yaml:2: ") for message in found] == messages


def test_the_built_in_ones_know_what_was_meant(tmp_path: Path) -> None:
    (message,) = build("exporters:\n  - json: {fle: x.jsonl}\n", tmp_path)
    assert message.endswith(":2: the exporter 'json' has no setting 'fle'. Did you mean file?")


def test_a_setting_for_one_that_takes_none(tmp_path: Path) -> None:
    class Quiet:
        mode = "queued"

        async def export(self, batch: object) -> None: ...

    (message,) = build("exporters:\n  - quiet: {loud: 1}\n", tmp_path, quiet=Quiet)
    assert message.endswith("has no setting 'loud'. It takes none; remove the line")


def test_words_of_the_factory_that_may_hold_a_secret_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(**settings: Any) -> EventRecorder:
        raise TypeError(f"{settings['token']!r} is odd")

    monkeypatch.setenv("MAIL_TOKEN", CANARY)
    (message,) = build("exporters:\n  - odd: {token: '${MAIL_TOKEN}'}\n", tmp_path, odd=odd)
    assert CANARY not in message
    assert "cannot be made from these settings: TypeError" in message
