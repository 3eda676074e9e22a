"""URLs have one reading or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from toolcrib.errors import ConfigError, Denial
from toolcrib.net.addresses import private_from
from toolcrib.net.guard import Guard, host_rule, host_rules
from toolcrib.net.url import join_url, parse_url

GOOD = {
    "https://example.com": ("https", "example.com", 443, "/"),
    "HTTP://EXAMPLE.com:8080/a?b=c#d": ("http", "example.com", 8080, "/a?b=c"),
    "https://example.com.": ("https", "example.com", 443, "/"),
    "https://example.com?x=1": ("https", "example.com", 443, "/?x=1"),
    "https://a_b.example.com/%2F%zz": ("https", "a_b.example.com", 443, "/%2F%zz"),
    "https://bücher.example/ü": ("https", "xn--bcher-kva.example", 443, "/%C3%BC"),
    "https://[2001:DB8::0:1]:99/": ("https", "2001:db8::1", 99, "/"),
    "http://192.0.2.7/": ("http", "192.0.2.7", 80, "/"),
    "http://example.com/a b".replace(" ", "%20"): ("http", "example.com", 80, "/a%20b"),
    'http://example.com/"<>': ("http", "example.com", 80, "/%22%3C%3E"),
}


@pytest.mark.parametrize("text", GOOD)
def test_a_url_in_parts(text: str) -> None:
    assert tuple(parse_url(text)) == GOOD[text]


REFUSED = {
    "no-scheme": "example.com/a",
    "relative": "//example.com/a",
    "file": "file:///etc/passwd",
    "ftp": "ftp://example.com/",
    "gopher": "gopher://127.0.0.1:6379/_INFO",
    "data": "data:text/plain,hello",
    "javascript": "javascript://example.com/%0aalert(1)",
    "user": "https://user@example.com/",
    "password": "https://user:secret@example.com/",
    "at-trick": "https://example.com@169.254.169.254/",
    "backslash": "https://example.com\\@169.254.169.254/",
    "backslash-path": "https://example.com/a\\..\\b",
    "space": "https://example.com/a b",
    "leading-space": " https://example.com/",
    "newline": "https://example.com/a\r\nHost: evil",
    "nul": "https://example.com\0.evil.com/",
    "tab-in-scheme": "ht\ttps://example.com/",
    "surrogate": "https://example.com/\ud800",
    "no-host": "https:///path",
    "only-port": "https://:80/",
    "port-zero": "https://example.com:0/",
    "port-high": "https://example.com:65536/",
    "port-empty": "https://example.com:/",
    "port-words": "https://example.com:http/",
    "port-unicode": "https://example.com:８０/",
    "percent-host": "https://exa%6dple.com/",
    "percent-dot": "https://127%2e0%2e0%2e1/",
    "zone": "https://[fe80::1%25eth0]/",
    "bad-six": "https://[::1/",
    "six-garbage": "https://[::1]evil.com/",
    "vfuture": "https://[v1.x]/",
    "empty-label": "https://example..com/",
    "hyphen-label": "https://-example.com/",
    "long-label": f"https://{'a' * 64}.com/",
    "long-name": f"https://{'a.' * 127}com/",
    "comma": "https://a,b.com/",
    "too-long": "https://example.com/" + "a" * 9000,
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_url_that_is_refused(name: str) -> None:
    with pytest.raises(Denial) as raised:
        parse_url(REFUSED[name])
    assert raised.value.reason == "url_not_allowed"
    assert "secret" not in str(raised.value)


# Each leads to this machine, or to the place where a cloud machine gets its credentials.
SPELLINGS = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0127.0.0.1",
    "127.0.0.01",
    "127.000.000.001",
    "0",
    "0.0.0.0",
    "00",
    "0x0",
    "127.0.0.1..",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::127.0.0.1]",
    "[2002:7f00:1::]",
    "127。0。0。1",
    "１２７.0.0.1",
    "①②⑦.⓪.⓪.①",
    "127.1.2.3",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[fd00:ec2::254]",
    "[fe80::a9fe:a9fe]",
    "100.100.100.200",
    "192.0.0.192",
    "4294967296",
    "256.256.256.256",
    "1.2.3",
    "0x",
    "08.8.8.8",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_a_private_address_passes(spelling: str) -> None:
    for scheme in ("http", "https"):
        with pytest.raises(Denial) as raised:
            Guard().check(parse_url(f"{scheme}://{spelling}/latest"))
        assert raised.value.reason in ("url_not_allowed", "address_not_public")


def test_a_message_shows_neither_query_nor_password() -> None:
    with pytest.raises(Denial, match="holds a user or password") as raised:
        parse_url("https://me:hunter2@example.com/?token=hunter3")
    assert "hunter" not in str(raised.value)


JOINED = {
    "/b": "https://example.com/b",
    "c?d": "https://example.com/a/c?d",
    "../x": "https://example.com/x",
    "//other.example/": "https://other.example/",
    "http://other.example:81/y": "http://other.example:81/y",
    "?p=2": "https://example.com/a/b?p=2",
}


@pytest.mark.parametrize("reference", JOINED)
def test_where_a_reference_leads(reference: str) -> None:
    base = parse_url("https://example.com/a/b?q=1")
    assert str(join_url(base, reference)) == JOINED[reference]


@pytest.mark.parametrize(
    "reference",
    ["\\\\evil.example/", "/\\evil.example", "file:///etc/passwd", "//user@evil/", "\n//a"],
)
def test_a_reference_is_read_as_strictly(reference: str) -> None:
    with pytest.raises(Denial):
        join_url(parse_url("https://example.com/"), reference)


@given(st.text(alphabet=st.sampled_from("ab.:/@?#[]\\%01x-_ \t。１é"), max_size=25))
def test_the_library_finds_the_same_host(rest: str) -> None:
    try:
        url = parse_url(f"https://{rest}")
    except Denial:
        return
    again = URL(str(url), encoded=True)
    assert (again.scheme, again.raw_host, again.port) == (url.scheme, url.host, url.port)
    assert parse_url(str(url)) == url


RULES = [
    ("api.example.com", "https://api.example.com/", True),
    ("api.example.com", "https://API.example.com.:8443/", True),
    ("api.example.com", "https://api.example.com.evil.com/", False),
    ("api.example.com", "https://xapi.example.com/", False),
    ("api.example.com:8443", "https://api.example.com:8443/", True),
    ("api.example.com:8443", "https://api.example.com/", False),
    ("*.example.com", "https://a.example.com/", True),
    ("*.example.com", "https://a.b.example.com/", True),
    ("*.example.com", "https://example.com/", False),
    ("*.example.com", "https://badexample.com/", False),
    ("*.example.com:444", "https://a.example.com/", False),
    ("*", "https://anything.example/", True),
    ("bücher.example", "https://xn--bcher-kva.example/", True),
    ("93.184.216.34", "https://93.184.216.34/", True),
    ("93.184.216.34", "https://93.184.216.35/", False),
    ("2606:4700::1", "https://[2606:4700:0::1]/", True),
    ("[2606:4700::1]:99", "https://[2606:4700::1]:99/", True),
    ("[2606:4700::1]:99", "https://[2606:4700::1]/", False),
]


@pytest.mark.parametrize(("rule", "url", "allowed"), RULES)
def test_a_host_on_the_list(rule: str, url: str, allowed: bool) -> None:
    guard = Guard(host_rules([rule]))
    if allowed:
        guard.check(parse_url(url))
        with pytest.raises(Denial, match="denied hosts"):
            Guard(None, denied=host_rules([rule])).check(parse_url(url))
        return
    with pytest.raises(Denial) as raised:
        guard.check(parse_url(url))
    assert raised.value.reason == "host_not_allowed"
    Guard(None, denied=host_rules([rule])).check(parse_url(url))


def test_being_listed_makes_no_address_public() -> None:
    guard = Guard(host_rules(["127.0.0.1"]))
    with pytest.raises(Denial) as raised:
        guard.check(parse_url("http://127.0.0.1/"))
    assert raised.value.reason == "address_not_public"
    Guard(host_rules(["127.0.0.1"]), private=private_from(True)).check(
        parse_url("http://127.0.0.1/")
    )


def test_a_guard_can_ask_for_https() -> None:
    with pytest.raises(Denial, match="only https is allowed"):
        Guard(schemes=frozenset({"https"})).check(parse_url("http://example.com/"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://a.com",
        "a.com/b",
        "a b",
        "*.10.0.0.1",
        "a*.com",
        "*a.com",
        "x:99999",
        7,
        "127.1",
    ],
)
def test_a_rule_that_is_no_host(text: object) -> None:
    with pytest.raises(ConfigError, match="Write names such as"):
        host_rule(text)
