"""A caller's text is never taken for code, for a program, or for what steers one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib import Denial, ToolContext
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import SpecError
from toolcrib.executors.shell import ShellExecutor
from toolcrib.host.workshop import Sandboxes, Workshop

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
SOME = {"type": "string", "enum": ["a", "b"]}
MANY = {"type": "array", "items": TEXT}


def bind(config: dict[str, Any], kind: dict[str, Any] = TEXT) -> tuple[ToolSpec, Any]:
    schema = {"type": "object", "properties": {"x": kind}, "required": ["x"]}
    spec = ToolSpec(name="t", kind="shell", input_schema=schema, config=config)
    return spec, ShellExecutor().bind(spec, Workshop(Sandboxes(), Path()))


@pytest.mark.parametrize(
    "command",
    [
        "awk {x} f", "gawk -f {x} f", "awk -v a=1 {x}", "awk -e BEGIN -e {x}", "sed {x} f",
        "sed -n {x}p f", "sed -ne {x} f", "sed -e p -e {x} f", "sed -f {x} f", "sed s/a/{x}/ f",
        "sed --expression={x} f", "env -S {x}", "env --split-string={x}", "env {x} ls",
        "env A=1 {x}", "env LD_PRELOAD={x} ls", "env -u A {x}", "find . -exec {x} ';'",
        "find . -execdir sh -c {x} ';'", "find . -exec ls ';' -ok {x} ';'", "timeout 5 {x}",
        "timeout -k 1 5 {x}", "timeout 5 sh -c {x}", "timeout 5 awk {x}", "xargs {x}",
        "xargs -n 1 {x}", "nice {x}", "nice -n 5 {x}", "nohup {x}", "setsid {x}", "sudo {x}",
        "sudo -u ann {x}", "sudo -- {x}", "doas {x}", "stdbuf -o L {x}", "busybox {x}",
        "busybox awk {x}", "chroot /srv {x}", "python3 -m {x}", "python3 -Im {x}", "sh -ce {x}",
        "perl -M{x} f", "perl -e 1 -e {x}", "perl -e1{x}", "ruby -r {x} f", "lua -e {x}",
        "su -c {x}", "su ann -c {x}", "script -qc {x} log", "flock lock -c {x}", "flock lock {x}",
        "tar cf a.tar --checkpoint=1 --checkpoint-action={x} f", "tar xf a.tar -I {x}",
        "tar cf a.tar --to-command {x}", "git -c {x} log", "git fetch --upload-pack={x} o",
        "ssh host {x}", "ssh -o {x} host", "rsync -e {x} a b", "watch {x}", "vim -c {x} f",
        "nice sh -c 'ls {x}'", "docker run image sh -c {x}",
    ],
)  # fmt: skip
def test_code_and_programs_are_fixed(command: str) -> None:
    with pytest.raises(SpecError, match="code from the caller") as caught:
        bind({"argv": _words(command)})
    assert caught.value.key == "config.argv"


def _words(command: str) -> list[str]:
    import shlex

    return shlex.split(command)


@pytest.mark.parametrize(
    "argv",
    [["xargs", "{x...}"], ["timeout", "{x...}"], ["ssh", "{x...}"], ["sed", "{x...}"]],
    ids=lambda argv: argv[0],
)
def test_nor_come_they_from_a_list(argv: list[str]) -> None:
    with pytest.raises(SpecError, match="code from the caller"):
        bind({"argv": argv}, MANY)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("sed -n {x}p f", NUMBER), ("awk 'NR == 1' {x}", TEXT), ("awk -v n={x} 'NR == n' f", TEXT),
        ("awk -F {x} '{{print $1}}' f", TEXT), ("awk -f own.awk {x}", TEXT), ("sed -e p {x}", TEXT),
        ("sed -f own.sed {x}", TEXT), ("sed -n 1p {x}", TEXT), ("env A={x} ls", TEXT),
        ("env -u {x} ls", TEXT), ("find {x} -name *.py -exec wc -l '{{}}' +", TEXT),
        ("find . -exec grep {x} '{{}}' ';'", TEXT), ("find . -exec ls ';' -name {x}", TEXT),
        ("timeout {x} ls", NUMBER), ("timeout {x} ls", TEXT), ("timeout 5 ls {x}", TEXT),
        ("timeout 5 {x}", SOME), ("nice -n {x} ls", NUMBER), ("xargs -n {x} ls", NUMBER),
        ("sudo -u {x} ls", TEXT), ("python3 -m pytest {x}", TEXT), ("python3 -m {x}", SOME),
        ("python3 own.py {x}", TEXT), ("python3 {x}", TEXT), ("git switch -c {x}", TEXT),
        ("git -C {x} log", TEXT), ("git -c user.name={x} commit", TEXT), ("ssh {x} uptime", TEXT),
        ("ssh -p {x} host uptime", TEXT), ("ssh -o Port={x} host uptime", TEXT),
        ("tar cf a.tar {x}", TEXT), ("tar xf {x} -C out", TEXT), ("flock {x} ls", TEXT),
        ("su {x} -c ls", TEXT), ("echo find -exec {x}", TEXT), ("echo awk {x}", TEXT),
        ("perl -ne print {x}", TEXT), ("date +%s -d {x}", TEXT),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_no_code_is_let_in(command: str, kind: dict[str, Any]) -> None:
    bind({"argv": _words(command)}, kind)


@pytest.mark.parametrize(
    "command", ["sh", "bash -s", "bash -s -- a", "python3", "python3 -", "timeout 5 sh", "perl -w"]
)
def test_input_is_not_code(command: str) -> None:
    with pytest.raises(SpecError, match="would run its input") as caught:
        bind({"argv": command.split(), "stdin": "x"})
    assert caught.value.key == "config.stdin"
    with pytest.raises(SpecError, match="would run its input"):
        bind({"argv": command.split(), "stdin": {"from": "x"}})


@pytest.mark.parametrize(
    "argv",
    [["sh", "-c", "wc -c", "sh"], ["python3", "own.py"], ["python3", "-m", "json.tool"],
     ["python3", "-c", "import sys"], ["python3", "-cprint(1)"], ["perl", "-ne", "print"],
     ["cat"], ["sh", "own.sh", "-"]],
    ids=" ".join,
)  # fmt: skip
def test_input_of_code_that_is_there_is_data(argv: list[str]) -> None:
    bind({"argv": argv, "stdin": "x"})


@pytest.mark.parametrize(
    "name",
    ["HOME", "XDG_CONFIG_HOME", "MAKEFLAGS", "LUA_INIT", "GOFLAGS", "OPENSSL_CONF", "CURL_HOME",
     "PIP_CONFIG_FILE", "CC", "VIMINIT", "ZDOTDIR", "http_proxy", "HTTPS_PROXY", "AWS_CONFIG_FILE",
     "KUBECONFIG", "DOCKER_HOST", "RUSTC_WRAPPER", "PGSERVICEFILE", "TAR_OPTIONS", "HGRCPATH"],
)  # fmt: skip
def test_what_steers_programs_is_fixed(name: str) -> None:
    with pytest.raises(SpecError, match="decides what programs run"):
        bind({"argv": ["ls"], "env": {name: "{x}"}})
    bind({"argv": ["ls", "{x}"], "env": {name: "fixed"}})


@pytest.mark.parametrize("name", ["TARGET_PATH", "AWS_PROFILE", "GOAL", "MODE", "TZ", "LANG"])
def test_other_variables_are_open(name: str) -> None:
    bind({"argv": ["ls"], "env": {name: "{x}"}})


@pytest.mark.parametrize("element", ["{x}/etc", "--in={x}/etc", "{x}{x}/etc"])
def test_nothing_in_front_of_a_slash(element: str) -> None:
    spec, command = bind({"argv": ["echo", element]})
    with pytest.raises(Denial, match="is empty"):
        command.check(ToolContext(tool="t", spec=spec, arguments={"x": ""}))
    command.check(ToolContext(tool="t", spec=spec, arguments={"x": "a"}))


@pytest.mark.parametrize("element", ["a{x}/etc", "{x}", "{x}.txt"])
def test_an_empty_text_may_be_meant(element: str) -> None:
    spec, command = bind({"argv": ["echo", element]})
    command.check(ToolContext(tool="t", spec=spec, arguments={"x": ""}))
