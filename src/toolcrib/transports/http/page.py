"""Two pages that need nothing from elsewhere: where things are, and the API's reference."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from toolcrib.transports.http.answers import SAFETY, Headers

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #1c1c1c; background: #fff; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { background: #f4f4f4; padding: 0.75rem; overflow-x: auto; }
h2 { margin-top: 2.5rem; } h3 { margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top;
  padding: 0.25rem 0.75rem 0.25rem 0; border-top: 1px solid #ddd; }
nav a { margin-right: 1rem; } .right { font-size: 0.85em; border: 1px solid; padding: 0 0.4em; }
@media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #161616; }
  pre { background: #242424; } td, th { border-color: #444; } a { color: #8ab4ff; } }
"""
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
PAGE_SAFETY: Headers = [
    *(pair for pair in SAFETY if pair[0] != b"content-security-policy"),
    (
        b"content-security-policy",
        (
            f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'"
        ).encode(),
    ),
]
"""Its own style sheet and nothing else: no script at all."""


def index_page(*, docs: bool) -> str:
    """Where things are."""
    rows = [
        ("/v1", "the HTTP API"),
        ("/v1/openapi.json", "its description"),
        ("/v1/events", "events as they happen"),
        ("/healthz", "whether the host is alive"),
        ("/readyz", "whether it takes calls"),
        ("/metrics", "its numbers"),
    ]
    if docs:
        rows.insert(1, ("/docs", "its reference"))
    items = "".join(
        f'<tr><td><a href="{path}"><code>{path}</code></a></td><td>{text}</td></tr>'
        for path, text in rows
    )
    return _page("toolcrib", f"<h1>toolcrib</h1><table>{items}</table>")


def reference_page(document: Mapping[str, Any]) -> str:
    """The API's reference, from its OpenAPI description."""
    groups: dict[str, list[str]] = {}
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            groups.setdefault(operation["tags"][0], []).append(
                _operation(path, verb, operation, document)
            )
    links = "".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in groups)
    body = "".join(
        f'<h2 id="{escape(name)}">{escape(name)}</h2>{"".join(rows)}'
        for name, rows in groups.items()
    )
    info = document["info"]
    head = f"<h1>{escape(info['title'])}</h1><p>{escape(info['description'])}</p>"
    return _page(info["title"], f"{head}<nav>{links}</nav>{body}{_shapes(document)}")


def _operation(
    path: str, verb: str, operation: Mapping[str, Any], document: Mapping[str, Any]
) -> str:
    right = operation.get("x-toolcrib-right")
    badge = f' <span class="right">needs the right {escape(right)}</span>' if right else ""
    parts = [
        f"<h3><code>{verb.upper()} {escape(path)}</code>{badge}</h3>",
        f"<p>{escape(operation['summary'])}</p>",
    ]
    rows = [
        (f"{each['name']} ({each['in']})", each.get("description", ""), _type(each["schema"]))
        for each in (_resolved(given, document) for given in operation.get("parameters", ()))
    ]
    if rows:
        parts.append(_table(rows))
    body = operation.get("requestBody")
    if body is not None:
        schema = body["content"]["application/json"]["schema"]
        members = schema.get("properties", {}).items()
        required = schema.get("required", ())
        parts.append(
            _table(
                (f"{name} (body{', required' if name in required else ''})", "", _type(member))
                for name, member in members
            )
        )
        example = body["content"]["application/json"].get("example")
        if example is not None:
            parts.append(f"<pre>{escape(_json(example))}</pre>")
    answers = [
        (status, _resolved(answer, document)["description"], _answer(answer, document))
        for status, answer in operation["responses"].items()
    ]
    parts.append(f"<details><summary>Answers</summary>{_table(answers)}</details>")
    return "".join(parts)


def _shapes(document: Mapping[str, Any]) -> str:
    shapes = document["components"]["schemas"].items()
    items = "".join(
        f'<h3 id="schema-{escape(name)}"><code>{escape(name)}</code></h3>'
        f"<pre>{escape(_json(schema))}</pre>"
        for name, schema in shapes
    )
    return f'<h2 id="shapes">shapes</h2>{items}'


def _resolved(given: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    reference: str | None = given.get("$ref")
    if reference is None:
        return given
    _, _, kind, name = reference.split("/")
    return document["components"][kind][name]


def _answer(answer: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    content = _resolved(answer, document).get("content", {})
    return ", ".join(
        _type(each["schema"]) if "schema" in each else kind for kind, each in content.items()
    )


def _type(schema: Mapping[str, Any]) -> str:
    reference: str | None = schema.get("$ref")
    if reference is not None:
        return reference.rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(str(each) for each in schema["enum"])
    kind = schema.get("type", "any")
    return f"{kind} of {_type(schema['items'])}" if "items" in schema else str(kind)


def _table(rows: Iterable[tuple[str, str, str]]) -> str:
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td>"
        f"<td>{escape(text)}</td></tr>"
        for name, text, kind in rows
    )
    return f"<table>{cells}</table>"


def _json(value: Any) -> str:
    import json

    return json.dumps(value, indent=2, ensure_ascii=False)


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>{body}</body></html>"
    )
