"""`serve:` as it is written, and what it means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.serving import (
    HttpSettings,
    JwtSettings,
    Listen,
    McpSettings,
    ServeSettings,
    SessionSettings,
    StdioSettings,
    Tls,
    TokenSettings,
)
from toolcrib.errors import ConfigError
from toolcrib.host.config import (
    config_from_mapping,
    document_settings,
    format_config,
    load_config,
    show_config,
)
from toolcrib.host.config.doorkinds import hash_of, listen_from, moment_from

SECRET = "canary-0123456789-secret"
PEOPLE: dict[str, Any] = {
    "profiles": {"reviewer": {}, "other": {}},
    "principals": {"ci": {}, "me": {}},
}


def serving(**serve: Any) -> ServeSettings:
    return config_from_mapping({**PEOPLE, "serve": serve}, env={"TOKEN": SECRET}).serving


def test_nothing_said_is_the_usual() -> None:
    assert config_from_mapping({}, env={}).serving == ServeSettings()
    assert serving(http=None, tokens=None, stdio={}) == ServeSettings()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (8700, [("127.0.0.1", 8700)]),
        ("8700", [("127.0.0.1", 8700)]),
        (0, [("127.0.0.1", 0)]),
        ("127.0.0.1:80", [("127.0.0.1", 80)]),
        ("[::1]:80", [("::1", 80)]),
        ("LOCALHOST:80", [("localhost", 80)]),
        (["0.0.0.0:1", "[::]:2", 3], [("0.0.0.0", 1), ("::", 2), ("127.0.0.1", 3)]),
        ("${PORT}", [("127.0.0.1", 9)]),
    ],
    ids=str,
)
def test_addresses(written: Any, meant: list[tuple[str, int]]) -> None:
    data = {"serve": {"http": {"listen": written}}}
    found = config_from_mapping(data, env={"PORT": "9"}).serving.http.listen
    assert [(place.host, place.port) for place in found] == meant


@pytest.mark.parametrize(
    "text",
    ["", "x", ":1", "*:1", "a b:1", "127.1:1", "0x7f.1:1", "2130706433:1", "[::1]", "[::1:1", "::1",
     "1.2.3.4:-1", "1.2.3.4:65536", "h:1:2", "http://h:1", "127.0.0.1:8700/", "127.0.0.01:1"],
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="Write"):
        listen_from(text)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.255.0.3", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("127.example.com", False), ("10.0.0.1", False),
     ("localhost.example.com", False)],
)  # fmt: skip
def test_what_only_this_machine_can_reach(host: str, loopback: bool) -> None:
    assert Listen(host=host, port=1).loopback == loopback


def test_every_setting_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.yaml"
    path.write_text("""\
profiles: {reviewer: {}}
principals: {ci: {}, me: {}}
serve:
  http:
    listen: [8701]
    unix: run/crib.sock
    users: {alice: me}
    profile: reviewer
    local: me
    hosts: crib.example.com
    origins: [https://app.example.com]
    tls: {cert: cert.pem, key: /etc/key.pem, password: "${TOKEN}"}
    wait: 1s
    max_wait: 2m
    max_body: 1MiB
    max_headers: 16KiB
    request_timeout: 3s
    keep_alive: 4s
    connections: 5
    heartbeat: 6s
    viewers: 7
    viewers_per_principal: 5
    queue: 8
    docs: false
    console: false
  stdio: {profile: reviewer, principal: me, max_line: 4MiB}
  mcp: {enabled: false, sse: true, ttl: 5s, page: 10, approval: hold, hold: 1m, parked: 3}
  tokens:
    ci: {secret: "${TOKEN}", principal: ci, profile: reviewer, expires: 2027-01-01}
  tokens_file: tokens.json
  jwt:
    issuer: https://login.example.com
    audience: toolcrib
    jwks: keys.json
    algorithms: ES256
    leeway: 0s
    cache: 1h
    principal: email
    prefix: "corp:"
    principals: true
    roles: realm.roles
    permissions: scope
    profiles: crib
    role_names: {a: b}
    profile: reviewer
    private: true
  sessions: {idle: 1m, absolute: 2h, per_principal: 3}
""")
    found = load_config(path, env={"TOKEN": SECRET}).serving
    assert found.http == HttpSettings(
        listen=(Listen(host="127.0.0.1", port=8701),),
        unix=str(tmp_path / "run/crib.sock"),
        users=(("alice", "me"),),
        profile="reviewer",
        local="me",
        hosts=("crib.example.com",),
        origins=("https://app.example.com",),
        tls=Tls(certificate=str(tmp_path / "cert.pem"), key="/etc/key.pem", password=SECRET),
        wait=1.0,
        max_wait=120.0,
        max_body=1 << 20,
        max_headers=1 << 14,
        request_timeout=3.0,
        keep_alive=4.0,
        connections=5,
        heartbeat=6.0,
        viewers=7,
        viewers_per_principal=5,
        queue=8,
        docs=False,
        console=False,
    )
    assert found.stdio == StdioSettings(profile="reviewer", principal="me", max_line=1 << 22)
    assert found.mcp == McpSettings(
        enabled=False, sse=True, ttl=5.0, page=10, approval="hold", hold=60.0, parked=3
    )
    assert found.tokens == (
        TokenSettings(
            name="ci",
            hash=hash_of(SECRET.encode()),
            principal="ci",
            profile="reviewer",
            expires=1_798_761_600.0,
            source="toolcrib.yaml:29",
        ),
    )
    assert found.tokens_file == str(tmp_path / "tokens.json")
    assert found.jwt == (
        JwtSettings(
            name="",
            issuer="https://login.example.com",
            audience=("toolcrib",),
            jwks=str(tmp_path / "keys.json"),
            algorithms=("ES256",),
            leeway=0.0,
            cache=3600.0,
            principal="email",
            prefix="corp:",
            principals=True,
            roles="realm.roles",
            permissions="scope",
            profiles="crib",
            role_names=(("a", "b"),),
            profile="reviewer",
            private=True,
        ),
    )
    assert found.sessions == SessionSettings(idle=60.0, absolute=7200.0, per_principal=3)


@pytest.mark.parametrize(
    ("kind", "prefix", "left_out"),
    [
        (HttpSettings, "serve.http.", set()),
        (Tls, "serve.http.tls.", set()),
        (StdioSettings, "serve.stdio.", set()),
        (McpSettings, "serve.mcp.", set()),
        (TokenSettings, "serve.tokens.NAME.", {"name", "source"}),
        (JwtSettings, "serve.jwt.", {"name"}),
        (SessionSettings, "serve.sessions.", set()),
        (ServeSettings, "serve.", set()),
    ],
)
def test_settings_and_their_description_do_not_drift(
    kind: Any, prefix: str, left_out: set[str]
) -> None:
    known = {row.path for row in document_settings()}
    wanted = set(kind.__struct_fields__) - left_out
    assert {f"{prefix}{name}" for name in wanted} <= known


def test_defaults_that_are_documented_are_the_defaults() -> None:
    """Each documented default, written out, changes nothing."""
    usual = {row.path: row.default for row in document_settings()}
    parts = (("http", HttpSettings()), ("sessions", SessionSettings()), ("mcp", McpSettings()))
    for part, made in parts:
        for name in made.__struct_fields__:
            text = usual[f"serve.{part}.{name}"]
            if not text or " " in text or text.startswith("host."):
                continue
            value: Any = {"true": True, "false": False}.get(text, text)
            value = int(value) if isinstance(value, str) and value.isdigit() else value
            found = getattr(serving(**{part: {name: value}}), part)
            assert found == made, name


def test_no_form_of_the_settings_shows_the_password_of_a_key() -> None:
    tls = Tls(certificate="cert.pem", key="key.pem", password=SECRET)
    assert repr(tls) == "Tls(certificate='cert.pem', key='key.pem')"
    assert SECRET not in repr(HttpSettings(tls=tls))
    assert SECRET not in str(tls.__rich_repr__())


def test_issuers_by_name() -> None:
    issuer = {"issuer": "https://a.example", "audience": ["x", "y"]}
    found = serving(jwt={"a": issuer, "b": {**issuer, "audience": "z", "prefix": ""}}).jwt
    assert [(each.name, each.prefix, each.audience) for each in found] == [
        ("a", "a:", ("x", "y")),
        ("b", "", ("z",)),
    ]
    assert [each.prefix for each in serving(jwt=issuer).jwt] == [""]


def test_secrets_are_hashed_and_hidden(tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.yaml"
    path.write_text("""\
principals: {ci: {}}
serve:
  tokens: {ci: {secret: "${TOKEN}", principal: ci}}
  http: {tls: {certificate: a, key: b, password: "${PASSWORD}"}}
""")
    config = load_config(path, env={"TOKEN": SECRET, "PASSWORD": "canary-password"})
    assert config.serving.tokens[0].hash == hash_of(SECRET.encode())
    assert "canary" not in repr(config.serving)
    assert "canary" not in repr(config.serve)
    assert "canary" not in show_config(config)
    assert config.secrets == {SECRET, "canary-password"}


def test_a_program_may_give_a_secret_itself() -> None:
    token = {"secret": SECRET, "principal": "ci"}
    config = config_from_mapping({**PEOPLE, "serve": {"tokens": {"ci": token}}}, env={})
    assert config.serving.tokens[0].hash == hash_of(SECRET.encode())
    assert SECRET in config.secrets
    assert SECRET not in show_config(config)


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (f"{SECRET}", "stands in the file for anybody to read"),
        (f"${{MISSING:-{SECRET}}}", "is the default of ${MISSING}"),
        ("${SHORT}", "is shorter than 16 characters"),
        ("${SPACED}", "no header can carry"),
        ("${FOREIGN}", "no header can carry"),
    ],
    ids=["clear", "default", "short", "spaces", "letters"],
)
def test_secrets_that_are_none(tmp_path: Path, secret: str, message: str) -> None:
    path = tmp_path / "t.yaml"
    token = f'{{secret: "{secret}", principal: ci}}'
    path.write_text(f"principals: {{ci: {{}}}}\nserve: {{tokens: {{ci: {token}}}}}\n")
    env = {"SHORT": "x" * 15, "SPACED": "a secret with spaces", "FOREIGN": "sécret-sécret-sécret"}
    with pytest.raises(ConfigError) as caught:
        load_config(path, env=env)
    (mistake,) = caught.value.all()
    assert message in mistake.message
    assert mistake.cure
    assert mistake.line == 2
    assert not any(each in str(mistake) for each in (SECRET, *env.values()))


def test_names_with_dots_stay_as_they_are() -> None:
    name = "a.b " + "x" * 80
    made = serving(tokens={name: {"hash": hash_of(b"x"), "principal": "ci"}}).tokens
    assert [token.name for token in made] == [name]


def test_serve_is_put_together_from_several_files(tmp_path: Path) -> None:
    (tmp_path / "main.yaml").write_text(
        "include: more.yaml\nprincipals: {ci: {}}\nserve: {http: {listen: 1}}\n"
    )
    (tmp_path / "more.yaml").write_text(
        f"serve: {{tokens: {{ci: {{hash: '{hash_of(b'x')}', principal: ci}}}}}}\n"
    )
    found = load_config(tmp_path / "main.yaml", env={}).serving
    assert (found.http.listen[0].port, found.tokens[0].source) == (1, "more.yaml:1")
    (tmp_path / "more.yaml").write_text("serve: {http: {listen: 2}}\n")
    with pytest.raises(ConfigError, match=r"serve\.http stands here and at main\.yaml:3"):
        load_config(tmp_path / "main.yaml", env={})


def test_formatting_keeps_serve() -> None:
    text = "serve:\n    http: {listen: 8700}   # here\n    sessions:\n        idle: 5m\n"
    done = format_config(text)
    assert "idle: 5m" in done
    assert "# here" in done
    assert format_config(done) == done


@pytest.mark.parametrize(
    ("text", "moment"),
    [("30d", 2_592_000.0), ("1h30m", 5400.0), ("2027-01-31", 1_801_353_600.0),
     ("2027-01-31T12:00:00+02:00", 1_801_389_600.0), ("20270131", 1_801_353_600.0)],
)  # fmt: skip
def test_moments(text: str, moment: float) -> None:
    assert moment_from(text, 0.0) == moment


@pytest.mark.parametrize("text", ["", "30", "someday", "2027-13-01", "2027-01-31T99:00", "-1d"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="Write"):
        moment_from(text, 0.0)
