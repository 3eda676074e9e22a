"""What is wrong with a shell tool is said when it is registered, with the key and the cure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, SpecError
from toolcrib.executors.shell import ShellExecutor
from toolcrib.host.workshop import Sandboxes, Workshop

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
FLAG = {"type": "boolean"}


def bind(config: dict[str, Any], properties: dict[str, Any], *, required: Any = None) -> None:
    names = list(properties) if required is None else required
    schema = {"type": "object", "properties": properties, "required": names}
    spec = ToolSpec(name="t", kind="shell", input_schema=schema, config=config)
    ShellExecutor().bind(spec, Workshop(Sandboxes(), Path()))


@pytest.mark.parametrize(
    "command",
    [
        "cat {a} | sort", "rm {a}; ls", "rm {a} && ls", "rm {a} &", "ls > {a}", "cat < {a}",
        "echo $HOME {a}", "echo `id` {a}", "echo $(id) {a}", "rm *{a}", "rm ?{a}", "ls ~ {a}",
        "(rm {a})", "rm {a}\nls", 'echo "$HOME" {a}', 'echo "`id`" {a}', "echo a\\ b {a}",
        "ls [ab] {a}", "ls {a} # rest", "! rm {a}", "rm {a}\r",
    ],
    ids=ascii,
)  # fmt: skip
def test_a_command_that_needs_a_shell_is_refused_with_the_cure(command: str) -> None:
    with pytest.raises(SpecError, match=r"needs a shell for .*Write argv") as caught:
        bind({"command": command}, {"a": TEXT})
    assert caught.value.key == "config.command"


@pytest.mark.parametrize(
    ("config", "properties", "key", "words"),
    [
        ({}, {}, "argv", "needs argv"),
        ({"argv": ["ls"], "command": "ls"}, {}, "argv", "not both"),
        ({"argv": "ls"}, {}, "argv", "must be a list"),
        ({"argv": []}, {}, "argv", "must be a list"),
        ({"command": ["ls"]}, {}, "command", "written as argv"),
        ({"command": ""}, {}, "command", "must be a list"),
        ({"command": "ls 'a"}, {}, "command", "not closed"),
        ({"command": "X=1 ls"}, {}, "command", "Write it in env"),
        ({"argv": ["{a}"]}, {"a": TEXT}, "argv", "takes no placeholder"),
        ({"argv": ["-x"]}, {}, "argv", "name or path of a file"),
        ({"argv": ["ls", "{pth}"]}, {"path": TEXT}, "argv[1]", "Did you mean path"),
        ({"argv": ["ls", "{a b}"]}, {"a": TEXT}, "argv[1]", "plain braces"),
        ({"argv": ["ls", "{"]}, {}, "argv[1]", "plain braces"),
        ({"argv": ["ls", "x{a...}"]}, {"a": TEXT}, "argv[1]", "whole element"),
        ({"argv": ["ls", "x{a?-v}"]}, {"a": FLAG}, "argv[1]", "whole element"),
        ({"argv": ["ls", "{a?-v}"]}, {"a": TEXT}, "argv[1]", "must be a boolean"),
        ({"argv": ["ls", {"if": "a"}]}, {"a": FLAG}, "argv[1]", "if and then"),
        ({"argv": ["ls", {"if": "a", "then": ["{c}"]}]}, {"a": FLAG}, "argv[1]", "'c'"),
        ({"argv": ["ls", "{a}"]}, {"a": {"type": "object"}}, "argv[1]", "must be a string"),
        ({"argv": ["ls", "{a}"]}, {"a": {}}, "argv[1]", "must be a string"),
        ({"argv": ["ls", "{a}"]}, {"a": {"type": "array", "items": TEXT}}, "argv[1]", "{a...}"),
        ({"argv": ["ls", "{a...}"]}, {"a": TEXT}, "argv[1]", "needs an array"),
        ({"argv": ["ls", "{a...}"]}, {"a": {"type": "array"}}, "argv[1]", "needs an array"),
        ({"argv": ["ls", ["-x"]]}, {}, "argv[1]", "needs a placeholder"),
        ({"argv": ["ls", [["{a}"]]]}, {"a": TEXT}, "argv[1]", "text only"),
        ({"argv": ["ls", None]}, {}, "argv[1]", "cannot stand in argv"),
        ({"argv": ["ls", "a\0"]}, {}, "argv[1]", "NUL"),
        ({"argv": ["ls"]}, {"a": TEXT}, "argv", "goes nowhere"),
        ({"argv": ["ls", "-{a}"]}, {"a": TEXT}, "argv", "choose any option"),
        ({"argv": ["ls", "--{a}=1"]}, {"a": TEXT}, "argv", "choose any option"),
        ({"argv": ["ls", ["--{a}"]]}, {"a": TEXT}, "argv", "choose any option"),
        ({"argv": ["ls"], "sandbx": "x"}, {}, "sandbx", "Did you mean sandbox"),
        ({"argv": ["ls"], "stdin": "a"}, {}, "stdin", "'a'"),
        ({"argv": ["ls"], "stdin": 3}, {}, "stdin", "must name an argument"),
        ({"argv": ["ls"], "env": {"A B": "x"}}, {}, "env.A B", "cannot be a variable"),
        ({"argv": ["ls"], "env": {"A": None}}, {}, "env.A", "must be text"),
        ({"argv": ["ls"], "env": {"A": "{b}"}}, {}, "env.A", "'b'"),
        ({"argv": ["ls"], "env": {"PATH": "{a}"}}, {"a": TEXT}, "env.PATH", "no argument may"),
        ({"argv": ["ls"], "env": {"LD_PRELOAD": "{a}"}}, {"a": TEXT}, "env.LD_PRELOAD", "no arg"),
        ({"argv": ["ls"], "env": {"PYTHONPATH": "{a}"}}, {"a": TEXT}, "env.PYTHONPATH", "no arg"),
        ({"argv": ["ls"], "env": {"git_ssh": "{a}"}}, {"a": TEXT}, "env.git_ssh", "no arg"),
        ({"argv": ["ls"], "environment": "HOME"}, {}, "environment", "list of names"),
        ({"argv": ["ls"], "exit_codes": 0}, {}, "exit_codes", "whole numbers"),
        ({"argv": ["ls"], "exit_codes": [True]}, {}, "exit_codes", "whole numbers"),
        ({"argv": ["ls"], "output": "xml"}, {}, "output", "text, lines or json"),
        ({"argv": ["ls"], "progress": "yes"}, {}, "progress", "true or false"),
        ({"argv": ["ls"], "limits": {"memry": 1}}, {}, "limits.memry", "Did you mean memory"),
        ({"argv": ["ls"], "limits": {"memory": "x"}}, {}, "limits.memory", "not a size"),
        ({"argv": ["ls"], "limits": {"time": "5"}}, {}, "limits.time", "no unit"),
        ({"argv": ["ls"], "limits": {"processes": 0}}, {}, "limits.processes", "whole number"),
        ({"argv": ["ls"], "limits": [1]}, {}, "limits", "mapping"),
        ({"argv": ["ls"], "cwd": 3}, {}, "cwd", "must be text"),
        ({"argv": ["ls", "{path}"], "allow_dash": ["pth"]}, {"path": TEXT}, "allow_dash", "path?"),
        ({"argv": ["ls", "{path}"], "multiline": ["pth"]}, {"path": TEXT}, "multiline", "path?"),
    ],
    ids=lambda value: ascii(value)[:40] if isinstance(value, dict) else "",
)  # fmt: skip
def test_mistakes(config: dict[str, Any], properties: Any, key: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        bind(config, properties)
    assert caught.value.key == f"config.{key}"
    assert words in str(caught.value)
    assert "tool t" in str(caught.value)


def test_an_argument_that_a_call_may_leave_out_needs_its_own_list() -> None:
    for properties in ({"a": TEXT}, {"a": {"type": ["string", "null"], "default": None}}):
        with pytest.raises(SpecError, match="a call may leave a out"):
            bind({"argv": ["ls", "{a}"]}, properties, required=[])
        bind({"argv": ["ls", ["{a}"]]}, properties, required=[])
    bind({"argv": ["ls", "{a}"]}, {"a": {"type": "string", "default": "."}}, required=[])


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "ls {a}"],
        ["bash", "-ec", "{a}"],
        ["/bin/bash", "-o", "pipefail", "-c", "{a}"],
        ["env", "X=1", "bash", "-c", "{a}"],
        ["python3", "-c", "{a}"],
        ["python3.11", "-c{a}"],
        ["perl", "-e", "{a}"],
        ["node", "--eval={a}"],
        ["sh", ["-c", "{a}"]],
        ["busybox", "sh", "-c", "{a}"],
    ],
    ids=str,
)
def test_an_argument_never_becomes_code(argv: list[Any]) -> None:
    with pytest.raises(SpecError, match="code from the caller"):
        bind({"argv": argv}, {"a": TEXT})


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", 'ls -- "$1"', "sh", "{a}"],
        ["python3", "script.py", "-c", "{a}"],
        ["node", "server.js", "-p", "{a}"],
        ["grep", "-e", "{a}"],
    ],
    ids=str,
)
def test_options_of_others_are_not_taken_for_code(argv: list[Any]) -> None:
    bind({"argv": argv}, {"a": TEXT})


@pytest.mark.parametrize(
    "properties",
    [
        {"a": {"enum": ["x", "y"]}},
        {"a": {"const": 3}},
        {"a": {"anyOf": [TEXT, NUMBER]}},
        {"a": {"$ref": "#/$defs/A"}},
    ],
    ids=str,
)
def test_types_are_found_where_the_schema_has_them(properties: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["a"],
        "$defs": {"A": {"type": "integer"}},
    }
    spec = ToolSpec(name="t", kind="shell", input_schema=schema, config={"argv": ["ls", "{a}"]})
    ShellExecutor().bind(spec, Workshop(Sandboxes(), Path()))


def test_an_option_may_be_chosen_from_a_list() -> None:
    bind({"argv": ["ls", "-{a}"]}, {"a": {"type": "string", "enum": ["l", "a"]}})
    bind({"argv": ["head", "-{n}"]}, {"n": NUMBER})
    bind({"argv": ["ls", "-{a}"], "allow_dash": ["a"]}, {"a": TEXT})


def test_a_sandbox_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="no sandbox 'projct'"):
        bind({"argv": ["ls"], "sandbox": "projct"}, {})
