"""Seeing where a command would take a caller's text for code, or for the program to run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

Test = Callable[[str], object]
Then = Literal["data", "code", "codes", "program"]
"""What follows the harmless operands: data · one operand of code · nothing but code · a program."""

CODE_VARIABLE = re.compile(
    r"PATH|IFS|ENV|HOME|CDPATH|CLASSPATH|LOCPATH|NLSPATH|TMPDIR|CC|CXX|CPP|AR|AS|NM|TERMCAP"
    r"|TERMINFO.*|HOSTALIASES|RES_OPTIONS|KUBECONFIG|HGRCPATH|ZDOTDIR|PGSERVICEFILE|PGSYSCONFDIR"
    r"|PGPASSFILE|WGETRC|INPUTRC|SHELL|EDITOR|VISUAL|PAGER|BROWSER|VIMINIT|VIMRUNTIME|EXINIT"
    r"|GO(PATH|ROOT|PROXY|ENV|BIN|TOOLCHAIN)|MAKEFILES|RUSTC.*|KRB5.*|.*FLAGS"
    r"|.*_(PRELOAD|HOME|INIT|CONF|CONFIG|CONFIG_(FILE|PATH|DIR)|WRAPPER|PROXY|OPTIONS|OPTS"
    r"|COMMAND|CMD|SHELL|EDITOR|PAGER|PROGRAM|PLUGINS?|HOOKS?)"
    r"|(XDG|LUA|OPENSSL|CURL|PIP|UV|NPM|YARN|CARGO|DOCKER|CONTAINER|ANSIBLE|COMPOSER)_.*"
    r"|(LD|DYLD|GIT|BASH|PYTHON|PERL|PERL5|RUBY|NODE|JAVA|JDK|_JAVA|GCONV|PROMPT|SSH|LESS|MAN"
    r"|PS[0-9])(_.*|[A-Z0-9]*)"
).fullmatch
"""Variables, in capitals, that decide what programs load, run or talk to."""


def _option(pattern: str) -> Test:
    return re.compile(pattern).fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """How one program reads its command line, as far as code is concerned."""

    code: Test | None = None
    """Options whose value is code."""
    late: Test | None = None
    """Those of them that count behind operands too."""
    values: frozenset[str] = frozenset()
    """Options whose value is neither code nor an operand."""
    operands: int = 0
    """Operands that come first and are harmless."""
    then: Then = "data"
    interpreter: bool = False
    """Whether it runs its standard input when it is given nothing else."""
    named: bool = False
    """Whether the values of those options are `name=value`, and harmless once the name is fixed."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _anywhere(pattern: str, then: Then = "data", operands: int = 0, values: str = "") -> _Rule:
    test = _option(pattern)
    return _Rule(code=test, late=test, then=then, operands=operands, values=_words(values))


def _wrapper(values: str = "", operands: int = 0) -> _Rule:
    return _Rule(values=_words(values), operands=operands, then="program")


_START = _wrapper()
_READS_INPUT = re.compile(r"-[a-z]*s[a-z]*").fullmatch
_SHELL_VALUES = _words("-o +o -O +O --rcfile --init-file")
_SHELL = _Rule(
    code=_option(r"-[A-Za-z]*c[A-Za-z]*|--command"), values=_SHELL_VALUES, interpreter=True
)
_PYTHON = _Rule(code=_option(r"-[A-Za-z]*[cm]"), values=_words("-W -X"), interpreter=True)
_SCRIPT = _Rule(
    code=_option(r"-[A-Za-z]*[eEprMm]|--eval|--print|--run|--require|--import"),
    values=_words("-I"),
    interpreter=True,
)
_INTERPRETERS = (
    (re.compile(r"(ba|da|z|k|mk|c|tc|fi|a)?sh|busybox").fullmatch, _SHELL),
    (re.compile(r"(python|pypy)[0-9.]*").fullmatch, _PYTHON),
    (
        re.compile(
            r"(perl|ruby|php|lua|luajit|node|nodejs|bun|deno|Rscript|osascript|groovy)[0-9.]*"
        ).fullmatch,
        _SCRIPT,
    ),
)
_AWK = _anywhere(
    r"-[efEil]|--source|--file|--exec|--include|--load",
    "code",
    values="-F -v --field-separator --assign",
)
_SED = _anywhere(r"-[nErsuzi]*[ef]|--expression|--file", "code", values="-l --line-length")
_FIND_RUNS = _words("-exec -execdir -ok -okdir")
_VI = _anywhere(r"-c|-S|--cmd|-s|-u")
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    **dict.fromkeys(("sed", "gsed"), _SED),
    **dict.fromkeys(("vi", "vim", "nvim", "ex"), _VI),
    "find": _Rule(),
    "busybox": _wrapper(),
    "env": _Rule(
        code=_option(r"-[A-Za-z0]*S|--split-string"),
        values=_words("-u -C --unset --chdir"),
        then="program",
    ),
    "timeout": _wrapper("-k -s --kill-after --signal", 1),
    "xargs": _wrapper("-n -P -I -L -s -d -E -a --max-args --max-procs --max-lines --arg-file"),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c -n --class --classdata"),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "time": _wrapper("-f -o --format --output"),
    "sudo": _wrapper("-u -g -h -p -C -r -t -T -U -D -R --user --group --chdir"),
    "doas": _wrapper("-u -C"),
    "strace": _wrapper("-e -o -s -p"),
    **dict.fromkeys(("nohup", "setsid", "unshare", "setpriv", "exec", "command"), _wrapper()),
    **dict.fromkeys(("taskset", "chrt", "chroot"), _wrapper("", 1)),
    "flock": _anywhere(r"-[A-Za-z]*c|--command", "program", 1, "-w -E --timeout"),
    "su": _anywhere(r"-[A-Za-z]*c|--command|--session-command"),
    "runuser": _anywhere(r"-[A-Za-z]*c|--command|--session-command", "program", 0, "-u -g -G"),
    "script": _anywhere(r"-[A-Za-z]*c|--command"),
    **dict.fromkeys(("watch", "parallel", "eval"), _Rule(values=_words("-n -j"), then="codes")),
    "ssh": replace(
        _anywhere(r"-o|-F", "codes", 1, "-p -l -i -J -L -R -D -W -b -c -e -m -E -S"), named=True
    ),
    "scp": replace(_anywhere(r"-o|-F|-S"), named=True),
    "rsync": _anywhere(r"-[A-Za-z]*e|--rsh|--rsync-path"),
    "tar": _anywhere(
        r"--checkpoint-action|--to-command|-I|--use-compress-program|-F|--info-script"
        r"|--new-volume-script|--rsh-command|--rmt-command"
    ),
    "git": _Rule(
        code=_option(r"-c|--exec-path|--config-env|--upload-pack|--receive-pack|--exec"),
        late=_option(r"--upload-pack|--receive-pack|--exec|--extcmd"),
        values=_words("-C --git-dir --work-tree --namespace"),
        named=True,
    ),
    "gdb": _anywhere(r"-ex|-x|-iex|--eval-command|--command"),
    "sort": _anywhere(r"--compress-program"),
    "man": _anywhere(r"-P|-H|--pager|--html"),
}


def _rule(program: str) -> _Rule:
    name = program.rsplit("/", 1)[-1]
    return _RULES.get(name) or _interpreter(name) or _Rule()


def _interpreter(name: str) -> _Rule | None:
    name = name.rsplit("/", 1)[-1]
    return next((rule for matches, rule in _INTERPRETERS if matches(name)), None)


@dataclass(slots=True)
class CodeWatch:
    """Goes along a command, element by element, from its program on."""

    runs_input: bool = False
    """Whether the command, as far as it was seen, runs its standard input as code."""
    _rule: _Rule = _START
    _left: int = 0
    """Harmless operands that are still to come."""
    _behind: bool = False
    """Whether the operands that matter have been passed."""
    _next: Literal["code", "module", "value", ""] = ""
    """What the next element is, by the option before it."""
    _finds: bool = False
    """Whether `find` started what is in charge, and goes on behind it."""

    def fixed(self, text: str) -> None:
        """An element without placeholders."""
        expected, self._next = self._next, ""
        if expected:
            self._passes(expected)
        elif self._finds and text in (";", "+"):
            self._begin(_RULES["find"])
        elif self._rule is _RULES["find"]:
            if text in _FIND_RUNS:
                self._begin(_START)
        elif text.startswith(("-", "+")) and text != "-" and self._rule is not _START:
            self._option_word(text)
        elif self._is_assignment(text):
            return
        else:
            self._operand(text)

    def filled(self, head: str, *, free: bool, many: bool) -> bool:
        """An element with placeholders: whether the caller's text in it is code, or the program.
        `head` is what it begins with; `free` says that any text may come, not only numbers or
        some of a list, and `many` that it is any number of elements."""
        expected, self._next = self._next, ""
        if expected in ("code", "module"):
            self._passes(expected)
            if self._rule.named and "=" in head:
                return False
            return free or (self._rule.interpreter and expected == "code")
        if head.startswith("-"):
            return self._takes_code(head) and (free or self._rule.interpreter)
        if expected == "value" and not many:
            return False
        if "=" in head and self._is_assignment(head):
            return bool(CODE_VARIABLE(head.partition("=")[0].upper()))
        if self._left and not many:
            self._left -= 1
            return False
        if self._behind or self._rule.then == "data":
            self.runs_input = self.runs_input and self._behind
            return False
        self._behind = self._rule.then == "code"
        return free

    def _operand(self, text: str) -> None:
        if not self._behind and self._left:
            self._left -= 1
        elif not self._behind and self._rule.then == "program":
            self._begin(_rule(text))
        elif not self._behind and self._rule.then == "codes":
            return
        else:
            inner = _interpreter(text)
            if inner is not None:  # an interpreter that another program is told to run
                self.runs_input = False
                self._rule, self._behind = inner, False
                return
            self.runs_input = self.runs_input and (self._behind or text == "-")
            self._behind = True

    def _option_word(self, text: str) -> None:
        test = self._rule.late if self._behind else self._rule.code
        if test is not None and test(text):
            self._next = "module" if self._rule is _PYTHON and text.endswith("m") else "code"
        elif self._takes_code(text):
            self._passes("code")
        elif text in self._rule.values and not self._behind:
            self._next = "value"
        elif self._rule is _SHELL and _READS_INPUT(text):
            self._behind = True  # operands are the script's, which comes as input

    def _takes_code(self, head: str) -> bool:
        """Whether an option with a placeholder glued to it has code for its value."""
        test = self._rule.late if self._behind else self._rule.code
        if test is None:
            return False
        name = head.partition("=")[0]
        if head.startswith("--"):
            return bool(test(name))
        return any(test(name[:end]) for end in range(2, len(name) + 1))

    def _passes(self, expected: str) -> None:
        """The value of an option. Behind code there is data, unless more such options follow."""
        if expected != "value" and self._rule.then in ("data", "code"):
            self.runs_input = False
            self._behind = self._behind or self._rule is not _SCRIPT

    def _is_assignment(self, text: str) -> bool:
        return self._rule is _RULES["env"] and "=" in text

    def _begin(self, rule: _Rule) -> None:
        self._finds = self._finds or rule is _RULES["find"]
        self._rule, self._left, self._behind = rule, rule.operands, False
        self.runs_input = rule.interpreter
