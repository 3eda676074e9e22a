"""A UTCP manual: tools with a call template each; http is read, and cli from local files."""

from __future__ import annotations

import re
from collections.abc import Iterable

from toolcrib.host.config.node import Entry, Node
from toolcrib.host.loaders.formats.shape import Foreign, mapping, named, only, put, text, texts
from toolcrib.host.loaders.gathering import Gathering
from toolcrib.net.exchange import effects_of

_TOOL = ("name", "description", "inputs", "outputs", "tags", "average_response_size",
         "tool_call_template")  # fmt: skip
_TEMPLATE = ("name", "call_template_type", "auth", "allowed_communication_protocols")
_HTTP = (*_TEMPLATE, "http_method", "url", "content_type", "auth_tools", "headers", "body_field",
         "header_fields")  # fmt: skip
_CLI = (*_TEMPLATE, "commands", "env_vars", "working_dir")
_PATH = re.compile(r"\{([^{}]+)\}")
_ARGUMENT = re.compile(r"UTCP_ARG_(.+?)_UTCP_END")


def read(root: Node, gathering: Gathering) -> None:
    """Read all tools of a manual."""
    tools = root.get("tools")
    if tools is None or tools.items is None:
        message = "a UTCP manual has a list of tools"
        gathering.wrong("tools", tools or root, "tools", message, 'Write "tools": […]')
        return
    for index, node in enumerate(tools.items):
        key = f"tools[{index}]"
        name = node.get("name")
        called = name.value if name is not None and isinstance(name.value, str) else key
        try:
            entry = _tool(node, local=not gathering.remote)
        except Foreign as error:
            message = f"{key}: {error.message}"
            gathering.wrong(called, error.node or node, key, message, error.cure)
        else:
            gathering.tool(entry, key)


def _tool(node: Node, *, local: bool) -> Node:
    entries = mapping(node, "a tool")
    if "tool_provider" in entries and "tool_call_template" not in entries:
        cure = "Ask for a manual of version 1"
        raise Foreign("this is a tool of UTCP 0, without tool_call_template", cure)
    only(entries, _TOOL, "a tool of a UTCP manual")
    template = node.get("tool_call_template")
    if template is None:
        raise Foreign("tool_call_template is missing", "Say how the tool is called")
    mapping(template, "tool_call_template")
    kind = text(template.get("call_template_type"), "call_template_type")
    inputs = node.get("inputs")
    properties = inputs.get("properties") if inputs is not None else None
    names = list((properties.entries or {}) if properties is not None else {})
    if kind == "http":
        method = text(template.get("http_method"), "http_method", "GET").upper()
        can = effects_of(method) if local or not names else effects_of(method) | {"egress"}
        effects = node.holding(tuple(node.holding(word) for word in sorted(can)))
        config = _http(template, method, names)
    elif kind == "cli":
        if not local:
            message = "remote specs may not carry commands"
            raise Foreign(message, "Describe the tool in a local file", template)
        effects, config = None, _cli(template)
    else:
        cure = "Tools over http are supported, and over cli from local files"
        raise Foreign(f"UTCP tools over {kind} are not supported", cure, template)
    outputs = node.get("outputs")
    return put(
        node,
        name=node.get("name"),
        description=node.get("description"),
        kind=template.holding("http" if kind == "http" else "shell"),
        input_schema=None if inputs is None else _schema(inputs),
        output_schema=outputs if outputs is not None and outputs.entries else None,
        tags=node.get("tags"),
        effects=effects,
        config=config,
    )


def _schema(inputs: Node) -> Node:
    entries = mapping(inputs, "inputs")
    if "type" in entries:
        return inputs
    values = {name: entry.node for name, entry in entries.items()}
    return named(inputs, {"type": inputs.holding("object"), **values})


def _http(template: Node, method: str, names: list[str]) -> Node:
    entries = mapping(template, "tool_call_template")
    only(entries, _HTTP, "an http template")
    url = template.get("url")
    in_path = set(_PATH.findall(text(url, "url")))
    fields = texts(template.get("header_fields"), "header_fields")
    headers = {n: e.node for n, e in _pairs(template.get("headers"), "headers")}
    headers |= {str(field.value): field.holding(f"{{{field.value}}}") for field in fields}
    body_field = template.get("body_field")
    body_name = text(body_field, "body_field", "body")
    body = None
    if body_name in names and method != "GET":
        sent = text(template.get("content_type"), "content_type", "application/json")
        if sent.partition(";")[0].strip().lower() != "application/json":
            cure = "Bodies are JSON; describe the tool as kind http for others"
            raise Foreign(f"a body of type {sent} is not supported", cure, template)
        place = body_field or template
        body = put(place, json=place.holding(f"{{{body_name}}}"))
    taken: set[str] = in_path | {str(field.value) for field in fields}
    if body is not None:
        taken.add(body_name)
    query = {name: template.holding(f"{{{name}}}") for name in names if name not in taken}
    return put(
        template,
        method=template.holding(method),
        url=url,
        query=named(template, query) if query else None,
        headers=named(template, headers) if headers else None,
        body=body,
        auth=_auth(template.get("auth")),
    )


def _auth(auth: Node | None) -> Node | None:
    if auth is None or auth.value is None:
        return None
    mapping(auth, "auth")
    kind = text(auth.get("auth_type"), "auth_type")
    if kind == "basic":
        user, password = _secret(auth, "username"), _secret(auth, "password")
        return put(auth, basic=put(auth, user=user, password=password))
    if kind == "oauth2":
        scope = auth.get("scope")
        words = text(scope, "scope", "").split()
        return put(
            auth,
            oauth=put(
                auth,
                token_url=_secret(auth, "token_url"),
                client_id=_secret(auth, "client_id"),
                client_secret=_secret(auth, "client_secret"),
                scopes=auth.holding(tuple(auth.holding(w) for w in words)) if words else None,
            ),
        )
    if kind == "api_key":
        value, name = _secret(auth, "api_key"), text(auth.get("var_name"), "var_name", "X-Api-Key")
        place = text(auth.get("location"), "location", "header")
        given = str(value.value)
        if place == "header" and name.lower() == "authorization" and given.startswith("Bearer "):
            return put(auth, bearer=value.holding(given.removeprefix("Bearer ")))
        if place in ("header", "query"):
            return put(auth, **{place: put(auth, name=auth.holding(name), value=value)})
        raise Foreign(f"an api_key in a {place} is not supported", "Send it in a header", auth)
    raise Foreign(f"auth of type {kind} is not supported", "Use api_key, basic or oauth2", auth)


def _secret(auth: Node, name: str) -> Node:
    node = auth.get(name)
    value = text(node, name)
    if value.startswith("$") and not value.startswith("${"):
        cure = f"Write ${{{value.removeprefix('$')}}}"
        raise Foreign(f"{name} names a variable without braces: {value}", cure, node)
    return node or auth


def _cli(template: Node) -> Node:
    entries = mapping(template, "tool_call_template")
    only(entries, _CLI, "a cli template")
    steps = template.get("commands")
    if steps is None or not steps.items:
        raise Foreign("commands must be a list", 'Write "commands": [{"command": "…"}]', template)
    step, *more = steps.items
    if more:
        cure = "Put the steps into a script and call that"
        raise Foreign("several commands in a row need a shell", cure, steps)
    only(mapping(step, "a command"), ("command", "append_to_final_output"), "a command")
    command = step.get("command")
    written = _ARGUMENT.sub(r"{\1}", text(command, "command"))
    for _, entry in _pairs(template.get("env_vars"), "env_vars"):
        text(entry.node, "a variable")
    return put(
        template,
        command=(command or step).holding(written),
        env=template.get("env_vars"),
        cwd=template.get("working_dir"),
    )


def _pairs(node: Node | None, what: str) -> Iterable[tuple[str, Entry]]:
    return () if node is None or node.value is None else mapping(node, what).items()
