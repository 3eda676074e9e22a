"""Tools from files: every entry has a fate, and a bad one hides no other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import ConfigError
from toolcrib.host.loaders import FileLoader, LoadReport, ModuleLoader
from toolcrib.testing.contracts.loader import LoaderContract

GOOD = {
    "name": "city",
    "kind": "http",
    "description": "Look a city up.",
    "input_schema": {"type": "object", "properties": {"name": {"type": "string"}}},
    "config": {"method": "GET", "url": "https://api.example.com/cities/{name}"},
    "effects": ["read"],
    "tags": ["maps"],
    "timeout": "5s",
}


def named(name: str, **more: Any) -> dict[str, Any]:
    return {**GOOD, "name": name, **more}


def report(folder: Path, path: str, **settings: Any) -> LoadReport:
    return FileLoader(path, folder, **settings).read()


def told(found: LoadReport) -> list[tuple[str, str]]:
    """Name and source of every entry, marked where it is wrong."""
    return [(f.name + "!" * (f.problem is not None), f.source) for f in found.entries]


DURATIONS = 'Write a number with a unit, such as "250ms", "30s", "5m", "1h30m" or "2d"'
YAML = """\
tools:
  - name: city
    kind: http
    config: {url: "https://a.example/x"}
  - name: typo
    kind: http
    descripton: oops
    timeout: soon
  - 7
  - name: street
    kind: http
    config: {url: "https://a.example/y"}
"""


def test_one_bad_entry_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text(YAML)
    found = report(tmp_path, "tools.yaml")
    assert told(found) == [
        ("city", "tools.yaml:2"),
        ("typo!", "tools.yaml:5"),
        ("tools[2]!", "tools.yaml:9"),
        ("street", "tools.yaml:10"),
    ]
    assert [spec.name for spec in found.specs] == ["city", "street"]
    assert [item["name"] for item in found.items] == ["city", "street"]
    file = tmp_path / "tools.yaml"
    assert [str(mistake) for mistake in found.problems[0].all()] == [
        f"{file}:7:5: tools[1] has no setting 'descripton'. Did you mean description?",
        f"{file}:8:14: tools[1].timeout is wrong: 'soon' is not a duration. {DURATIONS}",
    ]
    assert found.problems[1].line == 9


async def test_load_raises_the_first_problem_with_all_others(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text(YAML)
    with pytest.raises(ConfigError) as caught:
        await FileLoader("tools.yaml", tmp_path).load()
    assert [mistake.line for mistake in caught.value.all()] == [7, 8, 9]


def test_yaml_json_jsonc_and_toml_say_the_same(tmp_path: Path) -> None:
    text = json.dumps({"tools": [GOOD]}, indent=2)
    (tmp_path / "a.json").write_text(text)
    (tmp_path / "a.jsonc").write_text("// mine\n" + text.replace("]\n}", "], // last\n}"))
    (tmp_path / "a.yaml").write_text(
        "tools:\n- name: city\n  kind: http\n  description: Look a city up.\n"
        "  input_schema: {type: object, properties: {name: {type: string}}}\n"
        '  config: {method: GET, url: "https://api.example.com/cities/{name}"}\n'
        "  effects: [read]\n  tags: [maps]\n  timeout: 5s\n"
    )
    (tmp_path / "a.toml").write_text(
        '[[tools]]\nname = "city"\nkind = "http"\ndescription = "Look a city up."\n'
        'effects = ["read"]\ntags = ["maps"]\ntimeout = "5s"\n'
        '[tools.input_schema]\ntype = "object"\nproperties = {name = {type = "string"}}\n'
        '[tools.config]\nmethod = "GET"\nurl = "https://api.example.com/cities/{name}"\n'
    )
    digests = set()
    for ending, line in (("json", 3), ("jsonc", 4), ("yaml", 2), ("toml", 2)):
        [fate] = report(tmp_path, f"a.{ending}").entries
        assert fate.problem is None, fate.problem
        assert fate.spec is not None
        assert fate.spec.timeout == 5.0
        assert fate.source == f"a.{ending}:{line}"
        digests.add(fate.spec.digest)
    assert len(digests) == 1


def test_folders_and_patterns(tmp_path: Path) -> None:
    inner = tmp_path / "tools" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "tools" / "b.yaml").write_text("name: b\nkind: http\nconfig: {}\n")
    (tmp_path / "tools" / "a.json").write_text(json.dumps({"tools": [named("a")]}))
    (tmp_path / "tools" / "notes.txt").write_text("not tools")
    (inner / "c.yaml").write_text("name: c\nkind: http\nconfig: {}\n")
    assert [f.name for f in report(tmp_path, "tools").entries] == ["a", "b"]
    assert [f.name for f in report(tmp_path, "tools/*.yaml").entries] == ["b"]
    assert [f.name for f in report(tmp_path, "tools/**/*.yaml").entries] == ["b", "c"]
    assert report(tmp_path, "tools/**/*.yaml").entries[1].source == "tools/inner/c.yaml:1"
    assert report(tmp_path, "tools/**/*.yaml").items[1]["base"] == str(inner)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none.yaml", "none.yaml does not exist"),
        ("none/*.yaml", "none/*.yaml matches no file"),
        ("empty", "the folder empty holds no file of tools"),
        ("text.txt", "text.txt is not a file of tools"),
        ("nothing.yaml", "the file holds no tools"),
        ("bytes.yaml", "bytes.yaml is not UTF-8 text: byte 0xff"),
        ("a\0b", "a path cannot hold a NUL character"),
        ("rules.yaml", "a file of tools has no setting 'profiles'"),
        ("number.yaml", "tools must be a list, not 7"),
        ("list.json", "the file must be an object, not a list"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("x")
    (tmp_path / "nothing.yaml").write_text("# nothing yet\n")
    (tmp_path / "bytes.yaml").write_bytes(b"tools:\n- \xff\n")
    (tmp_path / "rules.yaml").write_text("tools: []\nprofiles: {}\n")
    (tmp_path / "number.yaml").write_text("tools: 7\n")
    (tmp_path / "list.json").write_text("[1]")
    [problem] = report(tmp_path, path).problems
    assert problem.message.startswith(message)


def test_what_is_loaded_loads_nothing_further(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("tools:\n- load: b.yaml\n- {name: a, kind: http}\n")
    found = report(tmp_path, "a.yaml")
    assert [spec.name for spec in found.specs] == ["a"]
    assert found.problems[0].message == "tools[0]: what is loaded loads nothing further"


def test_a_bad_file_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("tools: [\n")
    (tmp_path / "b.yaml").write_text("name: b\nkind: http\nconfig: {}\n")
    found = report(tmp_path, "*.yaml")
    assert [f.name for f in found.entries if f.problem is None] == ["b"]
    assert [f.name for f in found.entries if f.problem is not None] == ["a.yaml"]


def test_the_second_of_two_with_one_name_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"tools": [named("x"), named("y")]}, indent=1))
    (tmp_path / "b.json").write_text(
        json.dumps({"tools": [named("x"), named("y", version="2")]}, indent=1)
    )
    found = report(tmp_path, "*.json")
    assert [f.name for f in found.entries if f.problem is None] == ["x", "y", "y"]
    [problem] = found.problems
    assert problem.message == "x stands here and at a.json:3"
    assert (problem.file, problem.line) == ("b.json", 3)


DEEP = "[" * 70 + "]" * 70
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)
)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.yaml", "#" * 10_000_000, "x.yaml is larger than 8 MiB"),
        ("x.json", " " * 10_000_000, "x.json is larger than 8 MiB"),
        ("x.json", '{"tools": [{"name": "a", "name": "b"}]}', "the key 'name' stands here"),
        ("x.yaml", "tools: [{name: a, name: b}]", "the key 'name' stands here"),
        ("x.json", '{"tools": [{"name": NaN}]}', "this is not JSON: NaN is not a number"),
        ("x.yaml", "tools: [{name: .nan}]", "this value holds a number that is infinite or none"),
        ("x.json", '{"tools": [{"kind": 1e999}]}', "this value holds a number that is infinite"),
        ("x.json", f'{{"tools": [{{"kind": {DEEP}}}]}}', "this is nested over 64 deep"),
        (
            "x.json",
            f'{{"tools": [{{"name": "a", "kind": "http", "config": {{"a": {DEEP}}}}}]}}',
            "this is nested over 64 deep",
        ),
        ("x.json", '{"tools": ' + "[" * 100_000, "this is not JSON"),
        ("x.yaml", f"tools: {DEEP}", "this is nested over 64 deep"),
        ("x.yaml", BOMB, "the file holds over 1000000 values"),
        ("x.yaml", "tools: *me\n", "the alias *me has no anchor above it"),
        ("x.yaml", "tools: !!python/object:os.system x\n", "the tag !!python/object:os.system"),
        ("x.json", '{"tools": [{"name": "\\ud800"}]}', "this value holds half of a character"),
    ],
    ids=range(15),
)
def test_hostile_text_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    [problem] = report(tmp_path, name).problems
    assert problem.message.startswith(message)


def test_variables_are_replaced_and_secret(tmp_path: Path) -> None:
    entry = named("a", config={"url": "https://a.example", "auth": {"bearer": "${TOKEN}"}})
    wrong = named("b", version="${TOKEN}", timeout="${TOKEN}")
    unset = named("c", description="${NOT_SET}")
    (tmp_path / "a.json").write_text(json.dumps({"tools": [entry, wrong, unset, named("d")]}))
    found = report(tmp_path, "a.json", env={"TOKEN": "s3cret-value"})
    assert found.secrets == {"s3cret-value"}
    assert found.items[0]["config"]["auth"] == {"bearer": "s3cret-value"}
    assert [f.name for f in found.entries if f.problem is None] == ["a", "d"]
    assert all("s3cret" not in str(m) for p in found.problems for m in p.all())
    assert "needs the environment variable NOT_SET" in found.problems[1].message


def test_a_problem_in_json_has_its_line(tmp_path: Path) -> None:
    text = json.dumps({"tools": [named("a"), named("b", tag=["x"]), named("c")]}, indent=1)
    (tmp_path / "a.json").write_text(text)
    found = report(tmp_path, "a.json")
    line = next(n for n, words in enumerate(text.splitlines(), 1) if '"tag"' in words)
    assert [problem.line for problem in found.problems] == [line]
    assert [f.name for f in found.entries] == ["a", "b", "c"]


def test_lines_of_an_entry_are_found_when_asked_for(tmp_path: Path) -> None:
    text = json.dumps({"tools": [named("a"), named("b")]}, indent=1)
    (tmp_path / "a.json").write_text(text)
    lines: Mapping[str, int] = report(tmp_path, "a.json").items[1]["lines"]
    written = text.splitlines()
    assert '"url"' in written[lines["config.url"] - 1]
    assert lines["config.url"] > len(written) // 2
    assert "nothing" not in lines


def test_switched_off_entries_have_no_spec(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"tools": [named("a", enabled=False)]}))
    [fate] = report(tmp_path, "a.json").entries
    assert (fate.spec, fate.problem) == (None, None)
    assert fate.item is not None
    assert fate.item["enabled"] is False


SEEDS = """\
tools:
  - name: my_database_query
    description: Query the application database
    module: json
    function: dumps
    parameters: {type: object, properties: {sql: {type: string}}, required: [sql]}
  - name: dangerous_delete
    description: Delete files
    tool_type: shell
    input_schema: {type: object, properties: {path: {type: string}}}
    implementation_config: {command: "rm {path}"}
    metadata: {is_dangerous: true, requires_approval: true, category: files}
"""


def test_earlier_spellings(tmp_path: Path) -> None:
    (tmp_path / "seeds.yaml").write_text(SEEDS)
    query, delete = report(tmp_path, "seeds.yaml").check().specs
    assert (query.kind, query.config) == ("python", {"module": "json", "function": "dumps"})
    assert query.input_schema["required"] == ["sql"]
    assert (delete.kind, delete.config) == ("shell", {"command": "rm {path}"})
    assert (delete.requires_approval, delete.category) == (True, "files")


MODULE = '''\
from toolcrib import tool

@tool(effects=["read"])
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}

@tool
def shout(text: str) -> dict[str, str]:
    """Say it louder."""
    return {"text": text.upper()}

def helper() -> None: ...
'''


async def test_python_entries_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text(MODULE)
    (tmp_path / "a.yaml").write_text("tools:\n- python: calc.py\n")
    loader = FileLoader("a.yaml", tmp_path)
    [fate] = (await loader.load_all()).entries
    assert (fate.name, fate.spec) == ("calc.py", None)
    assert [spec.name for spec in await loader.load()] == ["add", "shout"]


async def test_modules(tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text(MODULE)
    loader = ModuleLoader("calc.py", tmp_path)
    found = await loader.load_all()
    assert [f.name for f in found.entries] == ["add", "shout"]
    assert found.items == (loader.item,)
    assert loader.item["python"] == "calc.py"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "broken.py has no @tool"),
        ("def f(:\n", "broken.py:1 cannot be imported: SyntaxError"),
        ("1 / 0\n", "broken.py cannot be imported: ZeroDivisionError"),
    ],
    ids=["none", "syntax", "failing"],
)
async def test_modules_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "broken.py").write_text(text)
    [problem] = (await ModuleLoader("broken.py", tmp_path).load_all()).problems
    assert problem.message.startswith(message)


@pytest.mark.parametrize("code", ["raise SystemError('no')", "def f(:", "import not_there_at_all"])
async def test_dotted_modules_that_fail(tmp_path: Path, code: str) -> None:
    (tmp_path / "loader_broken_module.py").write_text(code)
    [problem] = (await ModuleLoader("loader_broken_module", tmp_path).load_all()).problems
    assert problem.message.startswith("the module loader_broken_module cannot be imported")
    assert (problem.file, problem.line) == ("loader_broken_module", 1)


class _InFolder(LoaderContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path


class TestFileLoaderContract(_InFolder):
    def make(self) -> FileLoader:
        (self.path / "a.json").write_text(json.dumps({"tools": [named("a"), named("b")]}))
        return FileLoader("a.json", self.path)

    def make_broken(self) -> FileLoader:
        (self.path / "b.yaml").write_text("tools:\n- nam: x\n")
        return FileLoader("b.yaml", self.path)


class TestModuleLoaderContract(_InFolder):
    def make(self) -> ModuleLoader:
        (self.path / "calc.py").write_text(MODULE)
        return ModuleLoader("calc.py", self.path)

    def make_broken(self) -> ModuleLoader:
        (self.path / "broken.py").write_text("x = 1\n")
        return ModuleLoader("broken.py", self.path)
