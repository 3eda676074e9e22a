"""HTML as text: what a visitor sees, and nothing takes long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.tools.html_text import readable

BASE = "https://example.com/dir/page"

TEXTS = {
    "plain": ("hello", "hello"),
    "spaces": ("<p> a \n\t b </p>", "a b"),
    "inline": ("a <b>bold</b>, <i>x</i>y", "a bold, xy"),
    "paragraphs": ("<p>a</p><p>b</p>", "a\n\nb"),
    "divs": ("<div>a</div><div>b</div>", "a\nb"),
    "break": ("a<br>b<br/>c", "a\nb\nc"),
    "entities": ("&lt;b&gt; &amp; &eacute; &#x41;", "<b> & é A"),
    "half-entity": ("a &amp b &nix; c", "a & b &nix; c"),
    "list": ("<ul><li>a<li>b</ul>", "- a\n- b"),
    "numbers": ("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"),
    "nested": ("<ul><li>a<ul><li>b</ul></ul>", "- a\n  - b"),
    "table": ("<table><tr><td>1<td>2<tr><td>3<td>4</table>", "1 | 2\n3 | 4"),
    "pre": ("<pre>  a\n    b</pre>", "a\n    b"),
    "script": ("a<script>if (1<2) '</p>'</script>b", "ab"),
    "style": ("<STYLE>p{}</STYLE >x", "x"),
    "comment": ("a<!-- <p> -->b", "ab"),
    "doctype": ("<!DOCTYPE html><?xml?>x", "x"),
    "hidden": ("<p hidden>no<p>x</p></p>yes", "yes"),
    "display-none": ("<div style='color:red;DISPLAY : none'>no<div>no</div></div>yes", "yes"),
    "aria": ('<span aria-hidden="true">no</span>yes', "yes"),
    "template": ("<template><p>no</template>yes<svg><text>no</text></svg>", "yes"),
    "head": ("<head><meta name=a><link>no</head>yes", "yes"),
    "open-head": ("<head><title>t</title><body>yes", "yes"),
    "textarea": ("<textarea><b>x</b></textarea>", "<b>x</b>"),
    "image": ("a<img src=x alt='a cat'>b", "a [image: a cat] b"),
    "image-silent": ("a<img src=x>b", "ab"),
    "less-than": ("1 < 2 and <3", "1 < 2 and <3"),
    "open-tag": ("a<b", "a"),
    "open-quote": ("a<b title='>x", "a"),
    "open-comment": ("a<!-- b", "a"),
    "open-script": ("a<script>b", "a"),
    "quoted-end": ('<a title=">">x</a>', "x"),
    "stray-end": ("</p></ul></pre></a>x", "x"),
    "link": ('<a href="/a?x=1&amp;y=2">l</a>', "l (https://example.com/a?x=1&y=2)"),
    "link-relative": ("<a href=b>l</a>", "l (https://example.com/dir/b)"),
    "link-fragment": ("<a href='#a'>l</a>", "l"),
    "link-script": ("<a href='javascript:alert(1)'>l</a>", "l"),
    "link-bad": ("<a href='http://[x'>l</a>", "l"),
    "link-same": ("<a href='https://a.b/'>https://a.b/</a>", "https://a.b/"),
    "link-empty": ("<a href='/x'></a>l", "l"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_html_as_text(name: str) -> None:
    html, text = TEXTS[name]
    assert readable(html, BASE).text == text


MARKDOWN = {
    "heading": ("<h2>a <i>b</i></h2>c", "## a b\n\nc"),
    "link": ("see <a href=/x>this</a>.", "see [this](https://example.com/x)."),
    "pre": ("<pre>\na\n b</pre>c", "```\na\n b\n```\n\nc"),
    "pre-line": ("<pre>a\n</pre>c", "```\na\n```\n\nc"),
    "quote": ("<blockquote>a</blockquote>", "> a"),
}


@pytest.mark.parametrize("name", MARKDOWN)
def test_html_as_markdown(name: str) -> None:
    html, text = MARKDOWN[name]
    assert readable(html, BASE, markdown=True).text == text


def test_the_title_is_kept_apart() -> None:
    page = readable("<title> A &amp;\n B </title><body>x<svg><title>no</title></svg>", BASE)
    assert page == ("A & B", "x")


HOSTILE = {
    "open": ("", "<"),
    "tags": ("", "<a "),
    "quotes": ("", '<a "'),
    "comments": ("", "<!--"),
    "closings": ("", "</"),
    "cdata": ("", "<![CDATA["),
    "scripts": ("", "<script>"),
    "nested": ("", "<div>"),
    "hidden": ("", "<div hidden>"),
    "lists": ("", "<ul><li>"),
    "links": ("", "<a href=x>y"),
    "entities": ("", "&#"),
    "spaces": ("<pre>x", " "),
    "attributes": ("<p ", "a "),
    "equals": ("<p a", "= "),
}


# Work that grows with the square of the length would take an hour, not a second.
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", HOSTILE)
def test_no_page_takes_long(name: str) -> None:
    before, piece = HOSTILE[name]
    html = before + piece * (400_000 // len(piece)) + "x"
    assert isinstance(readable(html, BASE).text, str)


@given(st.text(alphabet=st.sampled_from("<>/!-\"'= abipreulscrt&;#\n"), max_size=120))
def test_any_text_becomes_text(html: str) -> None:
    page = readable(html, BASE)
    assert page.text == page.text.strip()
    assert readable(html, BASE, markdown=True).title == page.title
