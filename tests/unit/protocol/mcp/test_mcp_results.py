"""Results go through and come out as they were."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.link import UpstreamError
from toolcrib.core.result import Failure, ToolResult, Truncated
from toolcrib.errors import ToolFailure
from toolcrib.protocol.mcp.results import (
    failure,
    from_result,
    to_result,
    upstream_error,
    upstream_failure,
)

TEXT = {"type": "text", "text": "hello", "annotations": {"audience": ["user"]}}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png", "_meta": {"a": 1}}
SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "s"}}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "raw",
    [
        {"content": [TEXT]},
        {"content": [TEXT, IMAGE], "isError": False},
        {"content": [], "structuredContent": {"a": [1]}, "x-unknown": {"b": None}},
        {"content": [TEXT], "isError": True, "_meta": {"com.example/a": 1}},
        {"content": [IMAGE], "structuredContent": {}, "isError": True},
        {"content": [TEXT], "_meta": {}},
    ],
)
@pytest.mark.parametrize("modern", [True, False])
def test_a_servers_result_comes_out_as_it_was(raw: dict[str, Any], modern: bool) -> None:
    made = to_result(from_result(raw), modern=modern)
    assert made == (raw | {"resultType": "complete"} if modern else raw)


@given(structured=json_values, more=st.dictionaries(st.text(min_size=12, max_size=14), json_values))
def test_whatever_a_modern_server_adds_is_kept(structured: Any, more: dict[str, Any]) -> None:
    raw = {"resultType": "complete", "content": [TEXT], "structuredContent": structured, **more}
    assert to_result(from_result(raw), modern=True) == raw


@pytest.mark.parametrize("structured", [[1, 2], "text", 3, None])
def test_a_value_that_an_old_client_cannot_take_stays_as_text(structured: Any) -> None:
    raw = {"content": [], "structuredContent": structured}
    made = to_result(from_result(raw), modern=False)
    assert "structuredContent" not in made
    assert made["content"][0]["type"] == "text"


def test_what_a_server_says_of_itself_ends_at_the_hop() -> None:
    raw = {"content": [], "_meta": {**SERVER, "com.example/a": 1}}
    assert to_result(from_result(raw), modern=True)["_meta"] == {"com.example/a": 1}
    assert "_meta" not in to_result(from_result({"content": [], "_meta": SERVER}), modern=True)


def test_a_task_comes_out_whole() -> None:
    raw = {"resultType": "task", "task": {"taskId": "t"}, "_meta": {"com.example/a": 1}}
    assert to_result(from_result(raw), modern=True) == raw


@pytest.mark.parametrize("raw", [None, [], {}, {"content": "text"}, {"content": ["text"]}])
def test_what_is_no_result_is_refused(raw: Any) -> None:
    with pytest.raises(ToolFailure, match="no result"):
        from_result(raw)


@pytest.mark.parametrize(
    ("raw", "output"),
    [
        ({"content": [TEXT]}, "hello"),
        ({"content": [TEXT, TEXT]}, None),
        ({"content": [IMAGE]}, None),
        ({"content": [TEXT], "structuredContent": {"a": 1}}, {"a": 1}),
    ],
)
def test_the_output_is_what_a_program_wants(raw: dict[str, Any], output: Any) -> None:
    assert from_result(raw).output == output


def test_a_failed_tool_is_an_error_in_its_own_words() -> None:
    result = from_result({"content": [TEXT, TEXT], "isError": True})
    assert (result.status, result.reason) == ("error", "tool_error")
    assert result.error is not None
    assert result.error.message == "hello\nhello"


@pytest.mark.parametrize(
    ("output", "modern", "expected"),
    [
        ("text", False, {"content": [{"type": "text", "text": "text"}]}),
        (None, True, {"content": [], "resultType": "complete"}),
        (
            {"a": 1},
            False,
            {"content": [{"type": "text", "text": '{"a":1}'}], "structuredContent": {"a": 1}},
        ),
        ([1], False, {"content": [{"type": "text", "text": "[1]"}]}),
        (
            [1],
            True,
            {
                "content": [{"type": "text", "text": "[1]"}],
                "structuredContent": [1],
                "resultType": "complete",
            },
        ),
    ],
)
def test_an_own_tools_output(output: Any, modern: bool, expected: dict[str, Any]) -> None:
    assert to_result(ToolResult(output=output), modern=modern) == expected


def test_cut_output_is_no_value_any_more() -> None:
    cut = ToolResult(output='{"a": …', truncated=Truncated(100, 7), metadata={"artifact": "c1"})
    made = to_result(cut, modern=True)
    assert "structuredContent" not in made
    assert made["_meta"] == {
        "toolcrib/truncated": {"from": 100, "to": 7},
        "toolcrib/metadata": {"artifact": "c1"},
    }
    whole = from_result({"content": [TEXT], "structuredContent": {"a": 1}})
    cut = ToolResult(
        output="{…", content=[TEXT], metadata=whole.metadata, truncated=Truncated(9, 1)
    )
    assert "structuredContent" not in to_result(cut, modern=True)


def test_a_denial_says_one_sentence_and_its_rule() -> None:
    details = {"gate": "profile", "rule": "deny: x", "source": "t.yaml:3", "more": 1}
    error = Failure(reason="denied_by_rule", message="no", details=details, retry_after=2.0)
    made = to_result(ToolResult(call_id="c1", status="denied", error=error), modern=False)
    assert made["isError"] is True
    assert made["content"] == [{"type": "text", "text": "no"}]
    assert made["structuredContent"] == made["_meta"]["toolcrib/failure"]
    assert made["structuredContent"] == {
        "status": "denied",
        "reason": "denied_by_rule",
        "message": "no",
        "retryable": False,
        "gate": "profile",
        "rule": "deny: x",
        "source": "t.yaml:3",
        "details": {"more": 1},
        "retry_after": 2.0,
        "call_id": "c1",
    }
    assert failure(ToolResult()) == {}


@pytest.mark.parametrize(
    ("code", "reason"), [(-32021, "upstream_error"), (-32602, "invalid_arguments")]
)
def test_an_error_of_the_protocol_is_found_again(code: int, reason: str) -> None:
    made = upstream_failure(UpstreamError(code, "no", {"a": 1}))
    assert made.reason == reason
    error = Failure(reason=made.reason, message=made.message, details=made.details)
    found = upstream_error(ToolResult(status="error", error=error))
    assert found is not None
    assert (found.code, found.message, found.data) == (code, "no", {"a": 1})
    assert upstream_error(ToolResult()) is None
    other = Failure(reason="x", message="y", details={"mcp": {"code": "1"}})
    assert upstream_error(ToolResult(status="error", error=other)) is None


def test_what_a_server_says_in_our_name_stands_apart() -> None:
    forged = {"toolcrib/approval": {"id": "1"}, "toolcrib/failure": {"reason": "x"}, "a/b": 1}
    made = to_result(from_result({"content": [], "_meta": forged}), modern=True)
    assert made["_meta"] == {
        "a/b": 1,
        "toolcrib/behind": {"toolcrib/approval": {"id": "1"}, "toolcrib/failure": {"reason": "x"}},
    }


@pytest.mark.parametrize("behind", [True, False])
def test_what_else_is_known_of_a_call_is_told(behind: bool) -> None:
    first = from_result({"content": [TEXT], "_meta": {"com.example/a": 1}})
    told = {**first.metadata, "artifact": "c1"} if behind else {"artifact": "c1"}
    made = to_result(ToolResult(output=first.output, content=[TEXT], metadata=told), modern=True)
    kept = {"com.example/a": 1} if behind else {}
    assert made["_meta"] == {**kept, "toolcrib/metadata": {"artifact": "c1"}}
