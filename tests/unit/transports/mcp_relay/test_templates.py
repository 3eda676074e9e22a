"""Which URIs a template stands for."""

from __future__ import annotations

import pytest

from toolcrib.transports.mcp.templates import fits

CASES = [
    ("test://t/{id}/data", "test://t/5/data", True),
    ("test://t/{id}/data", "test://t/a%20b/data", True),
    ("test://t/{id}/data", "test://t/5/6/data", False),
    ("test://t/{id}/data", "test://t//data", False),
    ("test://t/{id}", "test://t/5?x=1", False),
    ("test://t/{id}", "xtest://t/5", False),
    ("test://t/{id}", "test://t/5\n", True),
    ("test://t.x/{id}", "test://tax/5", False),
    ("file:///{+path}", "file:///a/b/c.txt", True),
    ("file:///{+path}", "file:///", False),
    ("test://a{#part}", "test://a#x", True),
    ("test://a{#part}", "test://a", False),
    ("test://a{/b,c}", "test://a/1/2", True),
    ("test://a{?x,y*}", "test://a?x=1&y=2", True),
    ("test://a{?x}", "test://a", True),
    ("test://a{?x}", "test://ab", False),
    ("test://{a:3}/x", "test://abc/x", True),
    ("test://plain", "test://plain", False),
    ("test://{", "test://{", False),
    ("test://{}", "test://a", False),
    ("test://{a b}", "test://a", False),
    ("test://{a}{b}", "test://ab", False),
    ("test://}{a}", "test://}a", False),
]


@pytest.mark.parametrize(("template", "uri", "fit"), CASES, ids=[f"{t} {u}" for t, u, _ in CASES])
def test_templates(template: str, uri: str, fit: bool) -> None:
    assert fits(template, uri) is fit


def test_a_hostile_template_takes_no_time() -> None:
    nasty = "/".join("{+a}" for _ in range(200))
    assert not fits(nasty, "a/" * 2000)
    long = "x" * 5000 + "{a}"
    assert not fits(long, "x" * 5001)
