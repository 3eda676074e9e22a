"""A wrong configuration of an HTTP tool is refused when it is registered."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from toolcrib.core.spec import ToolSpec
from toolcrib.errors import SpecError
from toolcrib.executors.http import HttpExecutor

SCHEMA = {
    "type": "object",
    "properties": {"id": {}, "term": {}, "n": {"default": 1}},
    "required": ["id"],
    "additionalProperties": False,
}
URL = "https://api.example.com/{id}"

WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no-url": ({}, "config.url", "is missing"),
    "url-number": ({"url": 1}, "config.url", "must be text"),
    "unknown": ({"url": URL, "metod": "GET"}, "config.metod", "Did you mean method?"),
    "method": ({"url": URL, "method": "FETCH"}, "config.method", "Use one of: DELETE, GET"),
    "scheme": ({"url": "ftp://api.example.com/"}, "config.url", "neither https nor http"),
    "user": ({"url": "https://u:p@api.example.com/"}, "config.url", "user or password"),
    "host-slot": ({"url": "https://{id}.example.com/"}, "config.url", "where the host stands"),
    "scheme-slot": ({"url": "{id}://example.com/"}, "config.url", "where the host stands"),
    "port-slot": ({"url": "https://example.com:{id}/"}, "config.url", "where the host stands"),
    "whole-slot": ({"url": "{id}"}, "config.url", "where the host stands"),
    "fragment": ({"url": "https://a.example/#x"}, "config.url", "fragment"),
    "number-host": ({"url": "http://2130706433/"}, "config.url", "understand differently"),
    "loopback": ({"url": "http://127.0.0.1/"}, "config.url", "Write private: true"),
    "metadata": (
        {"url": "http://169.254.169.254/", "private": True},
        "config.url",
        "list the networks",
    ),
    "unknown-slot": ({"url": "https://a.example/{ids}"}, "config.url", "Did you mean {id}?"),
    "lone-brace": ({"url": "https://a.example/{id"}, "config.url", "lone '{'"),
    "optional-path": ({"url": "https://a.example/{term}"}, "config.url", "input_schema.required"),
    "query-slot": ({"url": URL, "query": {"q": "{trem}"}}, "config.query.q", "Did you mean {term}"),
    "query-list": ({"url": URL, "query": ["a"]}, "config.query", "must be a mapping"),
    "header-host": ({"url": URL, "headers": {"Host": "x"}}, "config.headers.Host", "sets itself"),
    "header-length": (
        {"url": URL, "headers": {"content-length": "3"}},
        "config.headers.content-length",
        "sets itself",
    ),
    "header-encoding": (
        {"url": URL, "headers": {"Accept-Encoding": "br"}},
        "config.headers.Accept-Encoding",
        "sets itself",
    ),
    "header-name": ({"url": URL, "headers": {"A: b": "x"}}, "config.headers.A: b", "no name"),
    "header-value": ({"url": URL, "headers": {"A": "x\ny"}}, "config.headers.A", "cannot be sent"),
    "get-body": ({"url": URL, "body": {"json": {}}}, "config.body", "does not go with GET"),
    "two-bodies": (
        {"url": URL, "method": "POST", "body": {"json": 1, "text": "x"}},
        "config.body",
        "exactly one",
    ),
    "body-word": ({"url": URL, "method": "POST", "body": {"jsn": 1}}, "config.body.jsn", "json"),
    "body-text": ({"url": URL, "method": "POST", "body": {"text": 1}}, "config.body.text", "text"),
    "form-text": ({"url": URL, "method": "POST", "body": {"form": "a"}}, "config.body.form", "map"),
    "left-out": (
        {"url": URL, "method": "POST", "body": {"json": {"a": "{term}"}}},
        "config.body",
        "leaves out the argument n",
    ),
    "two-auths": (
        {"url": URL, "auth": {"bearer": "x", "query": {}}},
        "config.auth",
        "exactly one way",
    ),
    "no-auth": ({"url": URL, "auth": {}}, "config.auth", "exactly one way"),
    "auth-word": ({"url": URL, "auth": {"barer": "x"}}, "config.auth.barer", "Did you mean bearer"),
    "auth-empty": ({"url": URL, "auth": {"bearer": ""}}, "config.auth.bearer", "must be text"),
    "auth-line": ({"url": URL, "auth": {"bearer": "a\nb"}}, "config.auth.bearer", "header cannot"),
    "auth-header": (
        {"url": URL, "auth": {"header": {"name": "Host", "value": "x"}}},
        "config.auth.header.name",
        "sets itself",
    ),
    "auth-basic": ({"url": URL, "auth": {"basic": {}}}, "config.auth.basic.user", "is missing"),
    "oauth-url": (
        {"url": URL, "auth": {"oauth": {"token_url": "x"}}},
        "config.auth.oauth.token_url",
        "cannot be used",
    ),
    "oauth-secret": (
        {"url": URL, "auth": {"oauth": {"token_url": "https://a.example", "client_id": "x"}}},
        "config.auth.oauth.client_secret",
        "is missing",
    ),
    "hosts-left-out": (
        {"url": URL, "hosts": ["other.example"]},
        "config.url",
        "Add it to config.hosts",
    ),
    "hosts-word": ({"url": URL, "hosts": ["https://x"]}, "config.hosts", "is not a host"),
    "hosts-number": ({"url": URL, "hosts": [1]}, "config.hosts", "list of texts"),
    "private": ({"url": URL, "private": "yes"}, "config.private", "Write true"),
    "size": ({"url": URL, "max_bytes": "10"}, "config.max_bytes", 'did you mean "10B"'),
    "timeout": ({"url": URL, "timeout": "soon"}, "config.timeout", "not a duration"),
    "pointer": ({"url": URL, "response": {"pointer": "a"}}, "config.response.pointer", "/data"),
    "form": ({"url": URL, "response": {"output": "jsn"}}, "config.response.output", "json?"),
    "pointer-text": (
        {"url": URL, "response": {"pointer": "/a", "output": "text"}},
        "config.response.pointer",
        "does not go with",
    ),
    "next": ({"url": URL, "pagination": {"items": "/a"}}, "config.pagination.next", "Write link"),
    "next-word": (
        {"url": URL, "pagination": {"next": {"curser": "/a"}}},
        "config.pagination.next.curser",
        "cursor",
    ),
    "next-query": (
        {"url": URL, "pagination": {"next": {"cursor": "/a"}}},
        "config.pagination.next.query",
        "is missing",
    ),
    "pages": (
        {"url": URL, "pagination": {"next": "link", "limit": 1000}},
        "config.pagination.limit",
        "from 1 to 100",
    ),
    "page-start": (
        {"url": URL, "pagination": {"next": {"page": "p", "start": 7}}},
        "config.pagination.next.start",
        "0 or 1",
    ),
    "pages-pointer": (
        {"url": URL, "pagination": {"next": "link"}, "response": {"pointer": "/a"}},
        "config.response.pointer",
        "pagination.items",
    ),
}


def bind(config: Mapping[str, Any]) -> object:
    spec = ToolSpec(name="users", kind="http", input_schema=SCHEMA, config=config)
    return HttpExecutor().bind(spec, None)


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_named_with_its_key_and_cure(name: str) -> None:
    config, key, words = WRONG[name]
    with pytest.raises(SpecError, match="tool users: ") as raised:
        bind(config)
    assert raised.value.key == key
    assert words in str(raised.value)


def test_a_secret_is_not_in_the_message_about_it() -> None:
    with pytest.raises(SpecError) as raised:
        bind({"url": URL, "auth": {"bearer": "s3cret\n"}})
    assert "s3cret" not in str(raised.value)


def test_a_full_configuration_is_taken() -> None:
    assert callable(
        bind(
            {
                "method": "POST",
                "url": "https://api.example.com/v1/{id}?fixed=1",
                "query": {"q": "{term}"},
                "headers": {"X-A": "{n}"},
                "body": {"json": {"id": "{id}"}},
                "auth": {
                    "oauth": {
                        "token_url": "https://login.example.com/token",
                        "client_id": "me",
                        "client_secret": "s",
                        "scopes": ["a", "b"],
                        "audience": "api",
                        "send": "body",
                    }
                },
                "response": {"pointer": "/data", "output": "json"},
                "hosts": ["*.example.com"],
                "private": ["10.0.0.0/8"],
                "max_bytes": "1MB",
                "timeout": "10s",
            }
        )
    )


def test_without_the_library_a_tool_is_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(SpecError, match=r"pip install 'toolcrib\[http\]'"):
        bind({"url": URL})
