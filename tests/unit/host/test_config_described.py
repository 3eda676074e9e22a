"""The configuration described, shown and formatted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from toolcrib.errors import ConfigError
from toolcrib.host.config import (
    config_from_mapping,
    config_schema,
    document_settings,
    format_config,
    load_config,
    show_config,
)

FILE = """\
# what this project may do
profiles:            # rules
  base: {trust: 1, default: deny}
  # people's favourite
  reviewer:
    extends: base
    rules:
    # reading is fine
    - allow: [run_tests, "files-*"]   # both
    - deny: {effects: [destructive]}
      reason: too_dangerous
    - allow: deploy
      when: {roles: [releaser], arguments: {n: {min: 1, max: 5}, ref: {regex: "^v[0-9]+$"}}}
    limits:
    - {calls: 60/min, concurrent: 4, per: session}
    - {repeat: 5/min, tools: [git]}
    approval: {timeout: 5m, via: []}

# the tools
tools:
  - name: run_tests
    kind: shell
    config:
        argv: [pytest, -q]
        environment: {API_KEY: '${KEY}'}
    timeout: 90s
    retry: {attempts: 2, backoff: 1s}
  - template: git
extensions: [timing, {cache: {size: 3}}]
principals:
  ci: {roles: [builder], profiles: [reviewer], attributes: {team: core}}
serve:
  http: {listen: [8700, "[::1]:8701"], profile: reviewer, wait: 5s, max_body: 1MiB}
  tokens:
    ci:
      hash: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
      principal: ci
      expires: "2027-01-01"
  jwt: {issuer: "https://login.example.com", audience: toolcrib}
providers:
  api: {type: openapi, password: written-out, url: "https://user:${TOKEN}@host/"}
host:
  threads: ${THREADS}
  audit: {sync: always}
version: 1
"""
ENV = {"KEY": "key-98765", "TOKEN": "tok-12345", "THREADS": "16"}


def plain(text: str) -> Any:
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False
    return yaml.load(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "toolcrib.yaml"
    path.write_text(FILE)
    return path


def test_schema_is_draft_07_and_accepts_a_good_file() -> None:
    schema = config_schema()
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert jsonschema_rs.meta.is_valid(schema)
    validator = jsonschema_rs.Draft7Validator(schema)
    assert [str(error) for error in validator.iter_errors(plain(FILE))] == []


def test_schema_and_reader_agree_on_units() -> None:
    validator = jsonschema_rs.Draft7Validator(config_schema())
    for good in ("250ms", "1h30m", 5, 0.5, "${WAIT}", None):
        data = {"host": {"timeout": good}}
        assert validator.is_valid(data)
        config_from_mapping(data, env={"WAIT": "5s"})
    for bad in ("5 minutes", "5", "", True, []):
        data = {"host": {"timeout": bad}}
        assert not validator.is_valid(data)
        with pytest.raises(ConfigError):
            config_from_mapping(data, env={})


def test_every_setting_is_documented() -> None:
    rows = document_settings()
    paths = [row.path for row in rows]
    assert len(set(paths)) == len(paths)
    assert all(row.type and row.doc and not row.doc.endswith(".") for row in rows)
    assert {
        "host.audit.sync",
        "tools[].retry.attempts",
        "profiles.NAME.rules[].when.arguments.NAME.path_under",
        "profiles.NAME.limits[].calls",
        "principals.NAME.roles",
    } <= set(paths)
    by_path = {row.path: row for row in rows}
    assert by_path["host.timeout"].default == "1m"


def test_shown_configuration_hides_secrets(path: Path) -> None:
    shown = show_config(path, env=ENV)
    assert not any(secret in shown for secret in ("key-98765", "tok-12345", "written-out"))
    assert "https://user:********@host/" in shown
    assert "threads: 16" in shown


def test_shown_configuration_names_its_sources(path: Path) -> None:
    shown = show_config(load_config(path, env=ENV))
    lines = shown.splitlines()
    assert lines[0] == f"# from {path}"
    assert (
        lines[lines.index("  reviewer:") - 1] == "  # toolcrib.yaml:5, with what it has from base"
    )
    assert lines[lines.index("      - deny:") - 1] == "      # toolcrib.yaml:10"
    assert lines[lines.index("  - name: run_tests") - 1] == "  # toolcrib.yaml:21"


def test_shown_configuration_loads_again_as_the_same(path: Path) -> None:
    first = load_config(path, env=ENV)
    copy = path.with_name("copy.yaml")
    copy.write_text(show_config(first))
    second = load_config(copy, env={})
    assert second.settings == first.settings
    assert second.principals == first.principals
    assert second.serving.http == first.serving.http
    assert second.serving.jwt == first.serving.jwt
    assert [t.hash for t in second.serving.tokens] == [t.hash for t in first.serving.tokens]
    assert [tool.get("name") for tool in second.tools] == ["run_tests", None]
    assert second.tools[0]["retry"] == first.tools[0]["retry"]
    for name, profile in first.profiles.items():
        again = second.profiles[name]
        assert [rule.text for rule in again.rules] == [rule.text for rule in profile.rules]
        assert [(li.calls, li.repeat, li.per) for li in again.limits] == [
            (li.calls, li.repeat, li.per) for li in profile.limits
        ]
        assert again.approval == profile.approval


def test_formatting_orders_keys_and_keeps_comments() -> None:
    done = format_config(FILE)
    tops = [line.partition(":")[0] for line in done.splitlines() if line[:1].isalpha()]
    assert tops == [
        "version",
        "host",
        "tools",
        "providers",
        "profiles",
        "principals",
        "extensions",
        "serve",
    ]
    lines = done.splitlines()
    assert lines[lines.index("tools:") - 1] == "# the tools"
    assert lines[:2] == ["# what this project may do", "version: 1"]
    assert "profiles:            # rules" in lines
    assert "extensions: [timing, {cache: {size: 3}}]" in lines
    assert lines[lines.index("  reviewer:") - 1] == "  # people's favourite"
    both = lines.index('      - allow: [run_tests, "files-*"] # both')
    assert lines[both - 1].strip() == "# reading is fine"
    assert plain(done) == plain(FILE)
    assert format_config(done) == done


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "a: 1\n\n\n# the end\n",
        "# head\n\nversion: 1\nhost:\n    threads: 4 # four\n\n\n    drain: 5s\n",
        "tools:\n- name: x   # a\n\n  # b\n  kind: shell\n# c\n- {template: git}\n",
        "serve:\n  text: |\n    # not a comment\n    two\n  other: >-\n    folded\n    text\n",
        "profiles:\n  a: &a {trust: 1}\n  b: *a\nhost: {}\n",
        "serve:\n  a: &x 1\n  b: &x 2\n  c: *x\n",
        "{version: 1, host: {threads: 4}}\n",
        "serve: {q: 'single', d: \"double\", n: 0o17, f: 1.10, e: ''}\n",
        "version: 1\r\nhost: {threads: 4}\r\n",
    ],
)
def test_formatting_is_stable_and_keeps_values(text: str) -> None:
    done = format_config(text)
    assert plain(done) == plain(text)
    assert done.count("# ") == text.count("# ")
    assert format_config(done) == done


def test_formatting_a_broken_file_says_where() -> None:
    with pytest.raises(ConfigError, match=r"crib\.yaml:2:1: the key 'a' stands here and on line 1"):
        format_config("a: 1\na: 2\n", file="crib.yaml")
    with pytest.raises(ConfigError, match="must be a mapping"):
        format_config("- a\n")
