"""The approver behind a URL, against a real server."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from toolcrib.approvals.webhook import LIMIT, WebhookApprover
from toolcrib.errors import ConfigError, ToolcribError


class Server(ThreadingHTTPServer):
    """Replies with what the test has put in, and keeps what it got."""

    daemon_threads = True
    reply: tuple[int, dict[str, str], bytes] = (200, {}, b'{"answer": "allow"}')
    hang: threading.Event | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[str, Any, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/ask?team=a"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, self.headers, body))
        if self.server.hang is not None:
            self.server.hang.wait(10)
            return
        status, headers, data = self.server.reply
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST  # noqa: N815 - where a followed redirect would arrive

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def test_the_question_is_signed_and_the_answer_taken(
    server: Server, desk: Any, make_request: Any
) -> None:
    server.reply = (
        200,
        {},
        b'{"answer": "allow", "note": "ok", "reach": "session", "by": "ana"}',
    )
    request = make_request()
    inbox = desk.inbox(WebhookApprover(server.url, "s3cret", clock=desk.clock))
    final = await inbox.ask(request)
    assert (final.state, final.note, final.reach) == ("allowed", "ok", "session")
    assert final.by == "webhook:ana"
    [(path, headers, body)] = server.got
    assert path == "/ask?team=a"
    assert headers["Toolcrib-Timestamp"] == "1000"
    mac = hmac.new(b"s3cret", b"1000." + body, hashlib.sha256).hexdigest()
    assert headers["Toolcrib-Signature"] == f"sha256={mac}"
    sent = json.loads(body)
    assert sent == {
        "type": "approval.requested",
        "request": json.loads(json.dumps(request.to_dict())),
    }


@pytest.mark.parametrize("answer", ["allow", "deny", "escalate"])
async def test_each_answer_is_understood(server: Server, make_request: Any, answer: str) -> None:
    server.reply = (200, {}, json.dumps({"answer": answer}).encode())
    decision = await WebhookApprover(server.url, "s").ask(make_request())
    assert (decision.answer, decision.by, decision.reach) == (answer, "webhook", "once")


@pytest.mark.parametrize(
    ("status", "headers", "data", "words"),
    [
        (500, {}, b'{"answer": "allow"}', "status 500"),
        (201, {}, b'{"answer": "allow"}', "status 201"),
        (204, {}, b"", "status 204"),
        (307, {"Location": "/other"}, b'{"answer": "allow"}', "status 307"),
        (302, {"Location": "/other"}, b"", "status 302"),
        (200, {}, b"", "not the JSON"),
        (200, {}, b"allow", "not the JSON"),
        (200, {}, b'"allow"', "not the JSON"),
        (200, {}, b"true", "not the JSON"),
        (200, {}, b"{}", "not the JSON"),
        (200, {}, b'{"answer": true}', "not the JSON"),
        (200, {}, b'{"answer": "ALLOW"}', "not the JSON"),
        (200, {}, b'{"answer": "allow_once"}', "not the JSON"),
        (200, {}, b'{"answer": ["allow"]}', "not the JSON"),
        (200, {}, b'{"answer": "allow", "note": 3}', "not the JSON"),
        (200, {}, b'{"answer": "allow", "reach": null}', "not the JSON"),
        (200, {}, b'{"answer": "allow", "only": "this"}', "not the JSON"),
        (200, {}, b'{"answer": "deny", "answer": "allow"}', "not the JSON"),
        (200, {}, b'\xff{"answer": "allow"}', "not the JSON"),
        (200, {}, b"[" * 60000, "not the JSON"),
        (200, {}, b'{"answer": "allow"}' + b" " * LIMIT, "longer than 65536 bytes"),
    ],
)
async def test_any_other_reply_is_a_no(
    server: Server,
    desk: Any,
    make_request: Any,
    status: int,
    headers: dict[str, str],
    data: bytes,
    words: str,
) -> None:
    server.reply = (status, headers, data)
    inbox = desk.inbox(WebhookApprover(server.url, "s"))
    final = await inbox.ask(make_request())
    assert final.state == "denied"
    assert words in desk.data("approval.decided")["fault"]
    assert len(server.got) == 1


async def test_a_reach_that_is_not_offered_is_a_no(
    server: Server, desk: Any, make_request: Any
) -> None:
    server.reply = (200, {}, b'{"answer": "allow", "reach": "always"}')
    final = await desk.inbox(WebhookApprover(server.url, "s")).ask(make_request())
    assert final.state == "denied"


async def test_silence_is_a_no(server: Server, desk: Any, make_request: Any) -> None:
    server.hang = threading.Event()
    inbox = desk.inbox(WebhookApprover(server.url, "s", timeout=0.05))
    final = await inbox.ask(make_request())
    server.hang.set()
    assert final.state == "denied"
    assert "did not answer in time" in desk.data("approval.decided")["fault"]


async def test_nobody_there_is_a_no(server: Server, make_request: Any) -> None:
    closed = Server()
    closed.server_close()
    with pytest.raises(ToolcribError, match="cannot be reached: ConnectionRefusedError"):
        await WebhookApprover(closed.url, "s").ask(make_request())


@pytest.mark.parametrize(
    ("url", "secret", "timeout"),
    [
        ("ftp://example.com/x", "s", 1),
        ("file:///etc/passwd", "s", 1),
        ("example.com", "s", 1),
        ("https://", "s", 1),
        ("https://user:pw@example.com/", "s", 1),
        ("https://example.com/", "", 1),
        ("https://example.com/", "s", 0),
    ],
)
def test_a_wrong_setting_is_refused_when_built(url: str, secret: str, timeout: float) -> None:
    with pytest.raises(ConfigError) as caught:
        WebhookApprover(url, secret, timeout)
    assert caught.value.cure
    assert "pw" not in str(caught.value)
