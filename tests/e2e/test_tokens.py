"""`toolcrib tokens`, as its users run it."""

from __future__ import annotations

import json

import pytest

CONFIG = """\
version: 1
principals:
  ci: {roles: [builder]}
  boss: {profiles: [wide]}
profiles: {narrow: {}, wide: {}}
"""


@pytest.fixture
def crib(empty):
    empty.write("toolcrib.yaml", CONFIG)
    return empty


def kept(crib):
    return json.loads((crib.folder / ".toolcrib" / "tokens.json").read_text())["tokens"]


def test_a_token_is_shown_once_and_only_its_hash_is_kept(crib):
    done = crib("tokens", "new", "laptop", "--principal", "ci", "--profile", "narrow")
    assert done.code == 0, done.err
    secret = done.out.strip()
    assert secret.startswith("tcr_")
    assert "the only time" in done.err
    assert "callers without a token are refused" in done.err
    for path in crib.folder.rglob("*"):
        assert not path.is_file() or secret not in path.read_text()
    assert (crib.folder / ".toolcrib" / "tokens.json").stat().st_mode & 0o777 == 0o600
    assert (crib.folder / ".toolcrib" / ".gitignore").read_text() == "*\n"
    entry = kept(crib)["laptop"]
    assert entry["hash"].startswith("sha256:")
    listed = crib("tokens")
    assert secret not in listed.out
    assert f"tcr_…{secret[-4:]}" in listed.out
    for word in ("laptop", "ci", "narrow", "never"):
        assert word in listed.out
    second = crib("tokens", "new", "desk", "--principal", "boss")
    assert "callers without a token" not in second.err


def test_json_for_programs(crib):
    made = crib("tokens", "new", "a", "--principal", "ci", "--expires", "30d", "--json").json
    assert made["name"] == "a"
    assert made["expires"] == pytest.approx(made["created"] + 30 * 86400)
    (row,) = crib("tokens", "list", "--json").json
    assert row["name"] == "a"
    assert "hash" not in row
    assert made["token"] not in json.dumps(row)
    assert crib("tokens", "revoke", "a", "--json").json == [{"name": "a", "revoked": True}]
    assert crib("tokens", "--json").json == []


def test_revoking(crib):
    assert crib("tokens", "revoke", "a").code == 2
    assert not (crib.folder / ".toolcrib").exists(), "looking leaves nothing behind"
    crib("tokens", "new", "a", "--principal", "ci")
    crib("tokens", "new", "b", "--principal", "ci")
    done = crib("tokens", "revoke", "a", "c")
    assert done.code == 2
    assert "a   revoked" in done.out
    assert "'c'" in done.err
    assert list(kept(crib)) == ["b"]
    assert crib("tokens", "revoke", "b").code == 0
    assert kept(crib) == {}, "the file stays, so that the host stays closed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("new x", "--principal"),
        ("new x --principal bosss", "Did you mean boss?"),
        ("new x --principal nobody-at-all", "Add it: principals:"),
        ("new x --principal ci --profile none", "Known: narrow, wide"),
        ("new x --principal boss --profile narrow", "boss may not use the profile narrow"),
        ("new x --principal ci --expires someday", "--expires"),
        ("new x --principal ci --expires 2001-01-01", "in the past"),
        ("nwe x", "Did you mean new?"),
    ],
)
def test_mistakes_change_nothing(crib, words, said):
    done = crib("tokens", *words.split())
    assert done.code == 2
    assert said in done.err
    assert not (crib.folder / ".toolcrib").exists()


def test_names_stand_once(crib, monkeypatch):
    monkeypatch.setenv("CI_TOKEN", "0123456789-canary")
    more = 'serve: {tokens: {ci: {secret: "${CI_TOKEN}", principal: ci}}}\n'
    crib.write("toolcrib.yaml", CONFIG + more)
    assert "already" in crib("tokens", "new", "ci", "--principal", "ci").err
    crib("tokens", "new", "a", "--principal", "ci")
    again = crib("tokens", "new", "a", "--principal", "ci")
    assert again.code == 2
    assert "revoke it first" in again.err
    assert again.out == ""
    listed = crib("tokens")
    assert "toolcrib.yaml:6" in listed.out
    assert "canary" not in listed.out
    assert "Remove it: toolcrib.yaml:6" in crib("tokens", "revoke", "ci").err


def test_another_file_can_be_named(crib):
    crib.write("toolcrib.yaml", CONFIG + "serve: {tokens_file: kept/here.json}\n")
    assert crib("tokens", "new", "a", "--principal", "ci").code == 0
    assert (crib.folder / "kept" / "here.json").is_file()
    assert not (crib.folder / ".toolcrib").exists()


def test_a_file_that_is_broken_is_told(crib):
    path = crib.write(".toolcrib/tokens.json", "{")
    path.chmod(0o600)
    done = crib("tokens")
    assert done.code == 2
    assert "is not as `toolcrib tokens` wrote it" in done.err
