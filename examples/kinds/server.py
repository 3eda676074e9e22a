"""A small server for the examples: parts as JSON, orders, and a page for people.

python kinds/server.py [PORT]      8765 unless you say otherwise; 0 takes a free one
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PARTS = {"bolt": {"name": "bolt", "price": 0.15}, "nut": {"name": "nut", "price": 0.08}}
NEWS = "<html><head><title>News</title></head><body><h1>News</h1><p>Bolts are cheap.</p></body>"


class Supplier(BaseHTTPRequestHandler):
    """Answers what the example asks."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """`/parts`, `/parts/NAME` and `/news`."""
        name = self.path.removeprefix("/parts/")
        if self.path == "/news":
            self.answer(200, "text/html; charset=utf-8", NEWS)
        elif self.path == "/parts":
            self.answer_json(200, {"parts": sorted(PARTS)})
        elif name in PARTS:
            self.answer_json(200, {"part": PARTS[name]})
        else:
            self.answer_json(404, {"error": "there is no such part"})

    def do_POST(self) -> None:
        """`/orders`."""
        order = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.answer_json(201, {"ordered": order})

    def answer_json(self, status: int, value: Any) -> None:
        """Send a value."""
        self.answer(status, "application/json", json.dumps(value))

    def answer(self, status: int, kind: str, text: str) -> None:
        """Send a text."""
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay quiet."""


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", int([*sys.argv, "8765"][1])), Supplier) as server:
        server.daemon_threads = True
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
