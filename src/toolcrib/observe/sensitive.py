"""How secrets are recognised: names of keys, spellings of a value, looks of credentials."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable

from toolcrib.errors import ConfigError

MIN_SECRET = 6
"""Shorter values are not looked for in text: `test`, `8080` or `admin` would blot out innocent
words everywhere. A short secret is still hidden by the name of its key."""

_words = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+").findall


def _each(*words: str) -> frozenset[str]:
    return frozenset(" ".join(words).split())


_SENSITIVE = _each(
    "password passwords passwd pwd passphrase passcode secret secrets token apikey apikeys",
    "authorization cookie cookies credential credentials creds bearer jwt otp totp",
)
_SENSITIVE_ENDS = ("password", "passwd", "passphrase", "secret", "token")
_WHOLE_ENDS = ("apikey", "privatekey", "accesskey", "secretkey")
_KEYS_OF = _each("api private access secret signing encryption master account ssh")
_TOKENS_OF = _each("access api auth bearer id refresh session")
# `token_count`, `password_policy`, `authorization_url` speak about a secret without being one.
_ABOUT = _each(
    "age bucket budget consent count counts endpoint endpoints estimate expired expires",
    "expiration expiry field fields format found ids index kind len length lifetime limit limits",
    "mode name names policy policies position present rate required rotation scheme server size",
    "sizes status strength ttl type types uri url usage used valid version",
)
# `next_page_token` marks a place, `stop_token` belongs to a model, `requires_secrets` lists names.
_EXCUSES = _each(
    "next page nextpage continuation cancellation max min num total per stop start end bos eos",
    "pad unk mask sep cls special requires required missing",
)


def _ends_phrase(word: str, before: str) -> bool:
    """Whether a phrase that names a secret ends with this word."""
    if word in ("key", "keys"):
        return before in _KEYS_OF
    if word == "tokens":
        return before in _TOKENS_OF
    if word == "string":
        return before == "connection"
    if word.endswith(_WHOLE_ENDS):
        return True
    if word.endswith(("nexttoken", "pagetoken")) or before in _EXCUSES:
        return False
    return word in _SENSITIVE or word.endswith(_SENSITIVE_ENDS)


def names_secret(name: str) -> bool:
    """Whether a key of this name holds a secret, whatever its spelling: `api_key`, `X-Api-Key`."""
    words = [word.lower() for word in _words(name)]
    return any(
        _ends_phrase(word, before) and after not in _ABOUT
        for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False)
    )


def maybe_named() -> str:
    """A pattern that is found in JSON text wherever `names_secret` is true of a key, and elsewhere:
    what ends a phrase (`tokens` has `token` in it), with what has to stand before it."""
    between = r"(?:[^A-Za-z]|\\[a-z])*"
    names = [
        *sorted({*_SENSITIVE, *_SENSITIVE_ENDS, *_WHOLE_ENDS}),
        f"(?:{'|'.join(sorted(_KEYS_OF))}){between}key",
        f"connection{between}string",
    ]
    return f"(?i:{'|'.join(names)})"


def own_pattern(pattern: str) -> Callable[[str], bool]:
    """A pattern of the user: a glob over the whole key, or words that follow each other in it."""
    if not pattern.strip():
        raise ConfigError(
            "a redaction pattern is empty",
            cure="Write a key such as `employee_number`, or a glob such as `*_pin`",
        )
    if any(c in pattern for c in "*?["):
        import fnmatch

        match = re.compile(fnmatch.translate(pattern.casefold())).match
        return lambda name: match(name.casefold()) is not None
    phrase = _spaced(pattern)

    def found(name: str) -> bool:
        if name.casefold() == pattern.casefold():
            return True
        return bool(phrase.strip()) and phrase in _spaced(name)

    return found


def _spaced(name: str) -> str:
    return f" {' '.join(_words(name))} ".lower()


def _base64_cores(data: bytes) -> Iterable[str]:
    """The characters that `data` always leaves in base64, wherever in the text it begins."""
    import base64

    for shift, cut in ((0, 0), (1, 2), (2, 3)):
        whole = (shift + len(data)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(b"\0" * shift + data).decode()[cut:whole]


def _in_json(text: str, *, ascii: bool = True) -> str:
    """What stands between the quotes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    import json

    return json.dumps(text, ensure_ascii=ascii)[1:-1]


_IN_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_IN_QUOTES = str.maketrans({'"': "&quot;", "'": "&#x27;"})


def forms_of(secret: str) -> set[str]:
    """The spellings in which a secret travels: raw, escaped, URL-encoded, hex, base64."""
    # Imported here: a host without secrets needs none of it.
    import urllib.parse

    data = secret.encode("utf-8", "surrogatepass")
    quoted = {
        urllib.parse.quote(data, safe=""),
        urllib.parse.quote(data),
        urllib.parse.quote_plus(data),
        "".join(f"%{byte:02X}" for byte in data),
    }
    escaped = _in_json(secret)
    forms = {
        secret,
        secret.strip(),
        escaped,
        escaped.replace("/", "\\/"),
        _in_json(escaped),
        _in_json(secret, ascii=False),
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        secret.translate(_IN_HTML | _IN_QUOTES),
        secret.translate(_IN_HTML),
        data.hex(),
        data.hex().upper(),
        *quoted,
        *(re.sub(r"%..", lambda m: m[0].lower(), text) for text in quoted),
        *_base64_cores(data),
    }
    # A key file may be printed line by line.
    forms.update(s for s in secret.splitlines() if len(s) >= 16 and not s.startswith("-----"))
    return {form for form in forms if len(form) >= MIN_SECRET}


Shape = tuple[int, tuple[str, ...], Callable[[], re.Pattern[str]]]


def _shape(size: int, pattern: str, *hints: str) -> Shape:
    # Compiled when a hint is met for the first time.
    return size, hints, functools.cache(lambda: re.compile(pattern, re.DOTALL))


SHAPES = (
    _shape(11, r"(?<![\w+.-])[A-Za-z][\w+.-]{1,20}://[^\s/:@]{0,200}:([^\s/@]{1,500})@", "://"),
    _shape(15, r"(?<![\w-])xox[abeprs]-[\w-]{10,}", "xox"),
    _shape(
        15,
        r"(?i:\bbearer)\s{1,4}((?=[^\s\d]{0,500}\d)[\w.~+/=-]{8,}|[\w.~+/=-]{20,})",
        *("earer ", "EARER "),
    ),
    _shape(18, r"(?<!\w)(?:sk|rk|pk)_(?:live|test)_\w{10,}", "k_live_", "k_test_"),
    _shape(20, r"(?<!\w)(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)", "AKIA", "ASIA"),
    _shape(21, r"(?<![\w-])eyJ[\w-]{8,}(?:\.[\w-]{8,})(?:\.[\w-]*){1,3}", "eyJ"),
    _shape(23, r"(?<![\w-])sk-(?=[A-Za-z_-]{0,500}\d)[\w-]{20,}", "sk-"),
    _shape(
        25,
        r"""(?i:\bauthorization["']?\s{0,4}[:=]\s{0,4}["']?basic)\s{1,4}([\w+/=-]{6,})""",
        *("uthorization", "UTHORIZATION"),
    ),
    _shape(26, r"(?<![\w-])glpat-[\w-]{20,}", "glpat-"),
    _shape(
        27,
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
        r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
        "PRIVATE KEY",
    ),
    _shape(33, r"(?<!\w)github_pat_\w{22,}", "github_pat_"),
    _shape(34, r"(?<!\w)gh[pousr]_\w{30,}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _shape(39, r"(?<![\w-])AIza[\w-]{35}", "AIza"),
    _shape(40, r"(?<!\w)npm_\w{36,}", "npm_"),
)
"""The looks of well-known credentials, shortest first: the least size of a text that holds one,
texts one of which is in it, and what gives the pattern.

The last group is what is hidden, the whole match where there is none. Each begins at the edge of
its own alphabet, so that hostile text cannot make the search quadratic."""

SHORTEST_SHAPE = 11
"""No text with fewer characters holds one of these."""

ASSIGNED = r"""(?:[?&]([\w.-]{1,64})|(?<!\w)([A-Z][A-Z0-9_]{2,63}))=([^\s&#"'<>]{4,})"""
"""`?key=value` of a URL and `KEY=value` of an environment: name, name, value."""
