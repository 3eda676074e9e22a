"""`extends`, `include`, profile files, and `${VAR}`."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.core.profile import ApprovalRules
from toolcrib.errors import ConfigError
from toolcrib.host.config import config_from_mapping, load_config


def put(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / next(iter(files))


def first_mistake(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, env={})
    return str(caught.value).replace(f"{path.parent}/", "")


def test_a_child_inherits_and_adds() -> None:
    profiles = config_from_mapping(
        {
            "profiles": {
                "child": {
                    "extends": "middle",
                    "rules": [{"deny": "c"}],
                    "policies": {"git": {"allow_push": True}},
                    "approval": {"edit": True},
                    "limits": {"concurrent": 2},
                    "pins": {"y": "2"},
                },
                "base": {
                    "trust": 3,
                    "default": "ask",
                    "conceal": True,
                    "max_depth": 2,
                    "rules": [{"allow": "a"}],
                    "policies": {"git": {"allow_push": False, "depth": 1}, "web": {"x": 1}},
                    "approval": {"timeout": "1m", "via": []},
                    "limits": {"calls": "5/s"},
                    "versions": {"t": "1"},
                    "pins": {"x": "1"},
                },
                "middle": {"extends": "base", "rules": [{"ask": "b"}]},
            }
        },
        env={},
    ).profiles
    child = profiles["child"]
    assert [rule.text for rule in child.rules] == ["allow a", "ask b", "deny c"]
    assert child.policies == {"git": {"allow_push": True, "depth": 1}, "web": {"x": 1}}
    assert child.approval == ApprovalRules(timeout=60.0, via=(), edit=True)
    assert [limit.concurrent for limit in child.limits] == [None, 2]
    assert (child.default, child.conceal, child.max_depth) == ("ask", True, 2)
    assert (child.versions, child.pins) == ({"t": "1"}, {"x": "1", "y": "2"})
    assert child.extends == "middle"
    assert (child.trust, profiles["base"].trust) == (0, 3), "trust is never inherited"
    assert profiles["base"].policies["git"] == {"allow_push": False, "depth": 1}


def test_a_mistake_in_a_parent_is_told_once(tmp_path: Path) -> None:
    path = put(tmp_path, {"t.yaml": "profiles:\n  base: {trust: x}\n  a: {extends: base}\n"})
    with pytest.raises(ConfigError) as caught:
        load_config(path, env={})
    assert [mistake.key for mistake in caught.value.all()] == ["profiles.base.trust"]


def test_included_files_are_merged(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        {
            "toolcrib.yaml": "include: [more/*.yaml, last.json]\nprofiles: {a: {trust: 1}}\n",
            "more/b.yaml": "profiles:\n  b:\n    rules:\n      - allow: x\n"
            "host: {store: 'sqlite:crib.db'}\n",
            "more/c.yaml": "tools: [{name: x, kind: shell}]\ninclude: ../last.json\n",
            "last.json": '{"tools": [{"name": "y", "kind": "shell"}]}',
        },
    )
    config = load_config(path, env={})
    assert list(config.profiles) == ["a", "b"]
    assert config.profiles["b"].rules[0].source == "more/b.yaml:4"
    assert [tool["name"] for tool in config.tools] == ["x", "y"]
    assert config.settings.store == f"sqlite:{tmp_path / 'more' / 'crib.db'}"
    assert [Path(file).name for file in config.sources] == [
        "toolcrib.yaml",
        "b.yaml",
        "c.yaml",
        "last.json",
    ]


def test_a_tool_named_in_two_files_is_refused_with_both_places(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        {
            "toolcrib.yaml": "include: other.yaml\ntools: [{name: x, kind: shell}]\n",
            "other.yaml": "tools: [{name: x, kind: shell}]\n",
        },
    )
    assert first_mistake(path) == (
        "other.yaml:1:16: tools[0] is named 'x', as the tool at toolcrib.yaml:2 is. "
        "Give it another name, or another version"
    )


def test_mistakes_name_the_file_as_the_user_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(
        tmp_path,
        {
            "conf/main.yaml": "include: parts/a.yaml\nprofiles: {p: {rules: [{allow: x}]}}\n",
            "conf/parts/a.yaml": "hosts: {}\n",
        },
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_config("conf/main.yaml", env={})
    assert caught.value.where == "conf/parts/a.yaml:1:1"


def test_profile_files_beside_the_main_file_are_read(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        {
            "toolcrib.yaml": "host: {profile: reviewer}\ninclude: [profiles/named.yml]\n",
            "profiles/reviewer.yml": "trust: 1\nrules: [{allow: git}]\n",
            "profiles/named.yml": "name: fixer\nextends: reviewer\n",
            "profiles/several.yaml": "profiles: {a: {}, b: {}}\n",
            "profiles/README.md": "not a profile",
        },
    )
    config = load_config(path, env={})
    assert set(config.profiles) == {"reviewer", "fixer", "a", "b"}
    assert config.profiles["fixer"].rules[0].source == "profiles/reviewer.yml:2"


def test_variables_are_expanded_and_secret(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        {
            "t.yaml": """
host: {threads: "${THREADS}", drain: "${DRAIN:-5s}"}
principals:
  who:
    attributes:
      url: https://${USER}:${PASSWORD}@db/${NAME:-main}
      literal: $${HOME} costs $5
      empty: "${EMPTY:-}"
profiles:
  p: {approval: {edit: "${EDIT}"}}
"""
        },
    )
    env = {"THREADS": "4", "USER": "bob", "PASSWORD": "hunter22", "EDIT": "true"}
    config = load_config(path, env=env)
    assert config.settings.threads == 4
    assert config.settings.drain == 5
    known = config.principals["who"].attributes
    assert known["url"] == "https://bob:hunter22@db/main"
    assert known["literal"] == "${HOME} costs $5"
    assert known["empty"] == ""
    assert config.profiles["p"].approval.edit
    assert config.secrets == {"hunter22", "true"}, "short values and defaults are no secrets"


def test_an_unset_variable_is_told_once(tmp_path: Path) -> None:
    path = put(tmp_path, {"t.yaml": "host:\n  profile: ${WHO}\n  threads: ${N}\n"})
    with pytest.raises(ConfigError) as caught:
        load_config(path, env={})
    assert [(m.line, m.key) for m in caught.value.all()] == [
        (2, "host.profile"),
        (3, "host.threads"),
    ]


def test_the_process_environment_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_TEST_NAME", "p")
    path = put(
        tmp_path, {"t.yaml": "host: {profile: '${TOOLCRIB_TEST_NAME}'}\nprofiles: {p: {}}\n"}
    )
    assert load_config(path).settings.profile == "p"


def test_rule_text_hides_secrets() -> None:
    data = {"profiles": {"p": {"rules": [{"allow": "x", "when": {"principals": ["${WHO}"]}}]}}}
    rule = config_from_mapping(data, env={"WHO": "somebody"}).profiles["p"].rules[0]
    assert rule.text == "allow x when principals ********"
    assert rule.when is not None
    assert rule.when.principals == {"somebody"}


def test_messages_hide_secrets() -> None:
    data = {
        "host": {"profile": "${WHO}"},
        "tools": [{"name": "t", "kind": "x", "input_schema": {"type": "${WHO}"}}],
        "profiles": {"p": {"extends": "${WHO}", "limits": {"calls": "${WHO}"}}},
    }
    with pytest.raises(ConfigError) as caught:
        config_from_mapping(data, env={"WHO": "somebody"})
    told = "\n".join(str(mistake) for mistake in caught.value.all())
    assert "somebody" not in told
    assert len(caught.value.all()) == 3


@pytest.mark.parametrize("text", ['include: ["a\\0b"]\n', 'host: {store: "sqlite:a\\0b"}\n'])
def test_paths_with_nul_are_refused(tmp_path: Path, text: str) -> None:
    assert "NUL character" in first_mistake(put(tmp_path, {"t.yaml": text}))


def test_paths_are_relative_to_a_link_not_to_its_target(tmp_path: Path) -> None:
    put(tmp_path, {"real/t.yaml": "host: {store: 'sqlite:x.db'}\n"})
    link = tmp_path / "t.yaml"
    link.symlink_to(tmp_path / "real" / "t.yaml")
    assert load_config(link, env={}).settings.store == f"sqlite:{tmp_path / 'x.db'}"
