"""What `toolcrib doctor` says of containers: never that one isolates which was not tried."""

from __future__ import annotations

import pytest

from toolcrib.sandbox import container, once

BOX = "\nsandboxes:\n  box: {type: container, image: python, engine: %s}\n"


@pytest.fixture(autouse=True)
def _looked_for_again():
    container._find.cache_clear()
    once.forget()
    yield
    container._find.cache_clear()
    once.forget()


def containers(cli):
    done = cli("doctor", "--json")
    return done.code, [f for f in done.json if f["name"] == "sandbox" and "(container" in f["text"]]


def test_without_an_engine_it_is_unverified_and_no_problem(cli, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    code, (found,) = containers(cli)
    assert (code, found["state"]) == (0, "ok")
    assert "unverified: no podman or docker was found" in found["text"]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ("exit 0", "names an image"),
        ("echo off; exit 1", "does not answer, so nothing was verified: off"),
    ],
)
def test_with_an_engine_it_is_unverified_until_an_image_is_named(cli, monkeypatch, answers, why):
    folder = cli.folder / "bin"
    folder.mkdir()
    (folder / "podman").write_text(f"#!/bin/sh\n{answers}\n")
    (folder / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    code, (found,) = containers(cli)
    assert (code, found["state"]) == (0, "ok")
    assert "unverified: " in found["text"]
    assert why in found["text"]


def test_one_that_is_configured_and_cannot_be_used_is_told(cli):
    path = cli.folder / "toolcrib.yaml"
    text = path.read_text()
    path.write_text(text + BOX % "/nowhere/podman")
    code, (found,) = containers(cli)
    assert (code, found["state"]) == (0, "warn")
    assert "unverified: no /nowhere/podman was found" in found["text"]


def test_one_that_a_tool_needs_is_a_problem(cli):
    path = cli.folder / "toolcrib.yaml"
    tool = "  - {name: now, kind: shell, effects: [read], config: {argv: [date], sandbox: box}}\n"
    text = path.read_text().replace("tools:\n", f"tools:\n{tool}", 1)
    path.write_text(text + BOX % "/nowhere/podman")
    code, (found,) = containers(cli)
    assert (code, found["state"]) == (1, "fail")
