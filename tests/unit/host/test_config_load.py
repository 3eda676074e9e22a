"""What a configuration file says arrives in the HostConfig."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.profile import ApprovalRules, Constraint, Limit, Match, Rate, When
from toolcrib.core.spec import RetryPolicy
from toolcrib.errors import ConfigError
from toolcrib.host.config import config_from_mapping, load_config

EXAMPLE = """\
version: 1
tools:
  - python: tools.py                     # every @tool in this file
  - name: run_tests
    kind: shell
    effects: [read]
    input_schema: {type: object, properties: {path: {type: string, default: tests}}}
    config: {argv: [pytest, -q, "{path}"], sandbox: project}
    policy: {use: paths, arguments: [path]}
    timeout: 5m
    retry: {attempts: 2, backoff: 250ms}
  - template: git                        # broad tool + narrow policy
    policy: {allowed_actions: [status, diff, log], max_output_chars: 5000}
providers:
  files:   {type: mcp, command: [npx, -y, server, "."]}
  billing: {type: openapi, spec: billing.json, base_url: "${BILLING_URL}"}
sandboxes:
  project: {type: bubblewrap, read: ["."], write: [build], network: false, memory: 1GiB}
principals:
  ci: {roles: [builder], permissions: [repo.read], profiles: [reviewer]}
profiles:
  base: {trust: 1, default: deny}
  reviewer:
    extends: base
    trust: 1
    rules:
      - allow: [run_tests, git, "files-read_*"]
      - allow: deploy
        when: {roles: [releaser], arguments: {env: {in: [staging]}, ref: {glob: "release/*"}}}
        reason: deploy_staging_only
      - deny: {effects: [destructive]}
      - ask:  {tags: [expensive]}
    policies:
      git: {allowed_actions: [status, diff, log]}
    limits: {calls: 60/min, concurrent: 4}
    approval: {timeout: 5m, remember: [once, session], via: [console, cli]}
serve:
  http: {listen: "127.0.0.1:8700", profile: reviewer, console: true}
  tokens: {ci: {secret: "${CI_TOKEN}", principal: ci, profile: reviewer}}
"""
ENV = {"BILLING_URL": "https://billing.test", "CI_TOKEN": "tok-12345-67890-abc"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text("")
    (tmp_path / "toolcrib.yaml").write_text(EXAMPLE)
    return tmp_path


def write(folder: Path, **files: str) -> Path:
    """Files by name, `__` for a folder; the first one is returned."""
    paths = [folder / f"{name.replace('__', '/')}.yaml" for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return paths[0]


def mistakes(path: Path, **env: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(path, env=env)
    return [str(mistake).replace(f"{path.parent}/", "") for mistake in caught.value.all()]


def test_example_loads(folder: Path) -> None:
    config = load_config(folder / "toolcrib.yaml", env=ENV)
    whole_file, run_tests, git = config.tools
    assert whole_file["python"] == str(folder / "tools.py")
    assert run_tests["kind"] == "shell"
    assert run_tests["timeout"] == 300
    assert run_tests["retry"] == RetryPolicy(attempts=2, backoff=0.25)
    assert run_tests["effects"] == {"read"}
    assert run_tests["source"] == "toolcrib.yaml:4"
    assert run_tests["base"] == str(folder)
    assert run_tests["lines"]["policy.use"] == 9
    assert git["template"] == "git"
    assert git["policy"]["max_output_chars"] == 5000
    assert config.providers["files"]["command"] == ["npx", "-y", "server", "."]
    assert config.providers["files"]["place"]["source"] == "toolcrib.yaml:15"
    assert config.sandboxes["project"]["memory"] == "1GiB"
    assert config.principals["ci"].roles == {"builder"}
    assert config.principal_profiles == {"ci": ("reviewer",)}
    assert config.serve["http"]["listen"] == "127.0.0.1:8700"
    assert config.secrets == set(ENV.values())
    assert config.sources == (str(folder / "toolcrib.yaml"),)


def test_example_profile(folder: Path) -> None:
    profile = load_config(folder / "toolcrib.yaml", env=ENV).profiles["reviewer"]
    first, second, third, fourth = profile.rules
    assert first.match == Match(names=("run_tests", "git", "files-read_*"))
    assert second.when == When(
        roles=frozenset({"releaser"}),
        arguments=(
            Constraint(argument="env", kind="in", value=("staging",), source="toolcrib.yaml:29"),
            Constraint(
                argument="ref", kind="glob", value=("release/*",), source="toolcrib.yaml:29"
            ),
        ),
    )
    assert second.reason == "deploy_staging_only"
    assert (third.text, third.source) == ("deny effects destructive", "toolcrib.yaml:31")
    assert fourth.text == "ask tags expensive"
    assert second.text == (
        "allow deploy when roles releaser and env in staging and ref glob release/*"
    )
    assert profile.limits == (
        Limit(calls=Rate(count=60, seconds=60.0), concurrent=4, source="toolcrib.yaml:35"),
    )
    assert profile.approval == ApprovalRules(timeout=300.0, via=("console", "cli"))
    assert profile.source == "toolcrib.yaml:23"


def test_host_settings(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        main="""
host:
  store: sqlite:data/crib.db
  timeout: null
  deadline: 1h30m
  max_output: 64kB
  threads: 8
  drain: 0
  audit: {sync: always, key: keys/trail, anchor: /srv/head, capture: 1KiB}
  redact: [ssn]
""",
    )
    settings = load_config(path, env={}).settings
    assert settings.store == f"sqlite:{tmp_path / 'data' / 'crib.db'}"
    assert settings.timeout is None
    assert (settings.deadline, settings.max_output, settings.drain) == (5400, 64_000, 0)
    assert settings.audit_sync == "always"
    assert settings.audit_key == str(tmp_path / "keys" / "trail")
    assert settings.audit_anchor == "/srv/head"
    assert settings.audit_capture == 1024
    assert settings.redact == ("ssn",)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "host:\ntools:\nprofiles:\n"])
def test_empty_files_are_empty_configurations(tmp_path: Path, text: str) -> None:
    config = load_config(write(tmp_path, main=text), env={})
    assert (config.tools, config.profiles) == ((), {})


def test_every_mistake_is_found_in_one_pass(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        main="host: {thread: 4}\ntools: [{name: a b}]\nprofiles:\n  p: {trust: no, extends: q}\n",
    )
    assert [mistake.partition(". ")[0] for mistake in mistakes(path)] == [
        "main.yaml:1:8: host has no setting 'thread'",
        "main.yaml:2:16: tools[0].name is wrong: the tool name 'a b' contains ' '",
        "main.yaml:4:14: profiles.p.trust must be a whole number from 0 to 1000, not 'no'",
    ]


def test_mistakes_carry_their_place_and_key(tmp_path: Path) -> None:
    path = write(tmp_path, main="host:\n  threads: none\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path, env={})
    error = caught.value
    assert (error.file, error.line, error.column) == (str(path), 2, 12)
    assert error.key == "host.threads"


def test_a_missing_file_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml does not exist"):
        load_config(tmp_path / "absent.yaml")


def test_anchors_and_merge_keys(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        main="""
profiles:
  a: &a {trust: 1, rules: [{allow: read}]}
  b:
    <<: *a
    trust: 2
""",
    )
    profiles = load_config(path, env={}).profiles
    assert profiles["b"].trust == 2
    assert profiles["b"].rules == profiles["a"].rules


def test_a_mapping_is_read_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("")
    data: dict[str, Any] = {
        "host": {"store": "sqlite:x.db", "timeout": "5s"},
        "tools": [{"python": "tools.py"}],
        "profiles": {"p": {"rules": ({"allow": ["add"]},)}},
        "principals": {"ci": {}},
        "serve": {"tokens": {"ci": {"secret": "${TOKEN}", "principal": "ci"}}},
    }
    config = config_from_mapping(data, base=tmp_path, env={"TOKEN": "very-secret-indeed"})
    assert config.settings.store == f"sqlite:{tmp_path / 'x.db'}"
    assert config.profiles["p"].rules[0].source == "config"
    assert config.secrets == {"very-secret-indeed"}
    assert config.sources == ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"host": {"thread": 1}}, "config: host has no setting 'thread'. Did you mean threads?"),
        ({"host": {1: 2}}, "config: the configuration has the key 1, which is not text"),
        ({"tools": [print]}, "config: the configuration holds a value of type"),
        ({"serve": {"x": float("nan")}}, "config: the configuration holds a number that is"),
        ({"include": ["x.yaml"]}, "config: a configuration given as a mapping includes no files"),
        ([], "config: the configuration must be a mapping, not a list"),
    ],
)
def test_mistakes_in_mappings(data: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_mapping(data, env={})
    assert str(caught.value).startswith(message)


def test_a_mapping_that_holds_itself_is_refused() -> None:
    data: dict[str, Any] = {}
    data["serve"] = data
    with pytest.raises(ConfigError, match="nested over"):
        config_from_mapping(data, env={})


def test_extensions_and_exporters(tmp_path: Path) -> None:
    path = write(tmp_path, main="extensions:\n  - timing\n  - cache: {size: 3}\nexporters: [log]\n")
    config = load_config(path, env={})
    assert [(e["name"], e["settings"], e["source"]) for e in config.extensions] == [
        ("timing", {}, "main.yaml:2"),
        ("cache", {"size": 3}, "main.yaml:3"),
    ]
    assert config.exporters[0]["name"] == "log"


def test_two_versions_of_one_tool_may_stand_side_by_side(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        main="tools:\n- {name: t, kind: x, version: '1'}\n- {name: t, kind: x, version: '2'}\n",
    )
    assert [tool["version"] for tool in load_config(path, env={}).tools] == ["1", "2"]
