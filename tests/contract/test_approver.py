"""What holds for every approver: it answers with a decision, and leaves the request alone."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from toolcrib.approvals.approvers import AutomaticApprover, CallbackApprover, ChainApprover
from toolcrib.approvals.inbox import Inbox
from toolcrib.approvals.terminal import TerminalApprover
from toolcrib.approvals.webhook import WebhookApprover
from toolcrib.core.approval import ApprovalDecision, ApprovalRequest
from toolcrib.core.protocols import Approver
from toolcrib.stores.memory import MemoryStore

ANSWERS = ("allow", "deny", "escalate")
KINDS = ("automatic", "callback", "async callback", "chain", "terminal", "webhook")


@pytest.fixture
def urls() -> Iterator[dict[str, str]]:
    """A webhook for each answer, named by its path."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            data = json.dumps({"answer": self.path.strip("/")}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    yield {answer: f"http://127.0.0.1:{server.server_address[1]}/{answer}" for answer in ANSWERS}
    server.shutdown()
    thread.join()
    server.server_close()


def build(kind: str, answer: Any, urls: dict[str, str]) -> Approver:
    decision = ApprovalDecision(answer=answer)

    async def in_loop(request: ApprovalRequest) -> ApprovalDecision:
        return decision

    if kind == "automatic":
        return AutomaticApprover("allow", only=(), otherwise=answer)
    if kind == "callback":
        return CallbackApprover(lambda request: decision)
    if kind == "async callback":
        return CallbackApprover(in_loop)
    if kind == "chain":
        passing = CallbackApprover(lambda request: ApprovalDecision(answer="escalate"))
        return ChainApprover([passing, in_loop])
    if kind == "terminal":
        keys = {"allow": "y\n", "deny": "n\n\n", "escalate": ""}[answer]
        return TerminalApprover(input=io.StringIO(keys), output=io.StringIO(), clock=lambda: 0.0)
    return WebhookApprover(urls[answer], "secret")


def request() -> ApprovalRequest:
    return ApprovalRequest(
        id="r1",
        call_id="c1",
        key="k1",
        tool="deploy",
        digest="d1",
        arguments={"env": "staging", "tags": ["a"]},
        effects=("write",),
        principal="ci",
        session=None,
        profile="p",
        door="python",
        revision="v1",
        gate="profile",
        message=None,
        rule=None,
        source=None,
        offered=("once",),
        via=("host", "cli"),
        edit=False,
        created=0.0,
        expires=300.0,
    )


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("kind", KINDS)
async def test_it_answers_and_changes_nothing(kind: str, answer: str, urls: dict[str, str]) -> None:
    asked = request()
    decision = await build(kind, answer, urls).ask(asked)
    assert type(decision) is ApprovalDecision
    assert decision.answer == answer
    assert asked == request()


@pytest.mark.parametrize(("answer", "state"), [("allow", "allowed"), ("deny", "denied")])
@pytest.mark.parametrize("kind", KINDS)
async def test_its_answer_is_the_requests_end(
    kind: str, answer: str, state: str, urls: dict[str, str]
) -> None:
    store = MemoryStore()
    await store.open()
    events: list[dict[str, Any]] = []
    inbox = Inbox(
        store,
        approver=build(kind, answer, urls),
        announce=lambda name, call_id, data: events.append(data),
        clock=lambda: 10.0,
        new_id=lambda: "g1",
    )
    final = await inbox.ask(request())
    assert final.state == state
    assert "fault" not in events[-1]
    assert await inbox.redeem(final, "c1") == (state == "allowed")
    await inbox.close()
    await store.close()
