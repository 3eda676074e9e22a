"""An MCP server on standard streams, of either era, that misbehaves when it is asked to.

Run as a script with one JSON object of options. Standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ["echo", "is_error", "error", "hang", "die", "garbage", "wrong_id", "huge", "ask", "env"]
NAMES += ["child", "change", "progress", "late", "task", "meta", "dies_after", "drip", "roots"]
NAMES += ["open"]
VERSION = "io.modelcontextprotocol/protocolVersion"


class Server:
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.era = options.get("era", "both")
        self.names = [*NAMES]
        self.asked: dict[Any, Any] = {}
        self.late: list[dict[str, Any]] = []
        self.listen: Any = None

    def send(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def run(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if log := self.options.get("log"):
                with Path(log).open("a") as file:
                    file.write(line)
            if "method" not in message:
                self.answered(message)
            elif "id" in message:
                self.request(message["id"], message["method"], message.get("params") or {})
            elif message["method"] == "notifications/cancelled" and self.late:
                self.send(self.late.pop())

    def request(self, id: Any, method: str, params: dict[str, Any]) -> None:
        modern = VERSION in (params.get("_meta") or {})
        if (modern and self.era == "handshake") or (not modern and self.era == "modern"):
            if self.options.get("dies_of_discover"):
                os._exit(4)
            if not (modern and self.options.get("silent")):
                self.send({"id": id, "error": {"code": -32601, "message": f"no {method}"}})
            return
        capabilities = {"tools": {"listChanged": True}, **self.options.get("capabilities", {})}
        if method == "server/discover":
            found = {"resultType": "complete", "supportedVersions": ["2026-07-28"]}
            self.send({"id": id, "result": {**found, "capabilities": capabilities}})
        elif method == "initialize":
            found = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
            self.send({"id": id, "result": {**found, "serverInfo": {"name": "s", "version": "1"}}})
        elif method == "tools/list":
            self.send({"id": id, "result": self.page(params.get("cursor"))})
        elif method.startswith("tasks/") or params.get("name") == "as_task":
            self.task(id, method, params)
        elif method == "tools/call":
            self.call(id, params, modern)
        elif method == "ping":
            self.send({"id": id, "result": {}})
        elif method == "subscriptions/listen":
            self.listen = id
            meta = {"io.modelcontextprotocol/subscriptionId": id}
            told = {"_meta": meta, "notifications": params["notifications"]}
            self.send({"method": "notifications/subscriptions/acknowledged", "params": told})
        elif method in ("resources/read", "prompts/get"):
            self.send({"id": id, "result": {"got": params.get("uri") or params.get("name")}})
        else:
            self.send({"id": id, "error": {"code": -32601, "message": f"no {method}"}})

    def page(self, cursor: str | None) -> dict[str, Any]:
        listed = [{"name": name, "inputSchema": {"type": "object"}} for name in self.names]
        kind = self.options.get("pages")
        if kind == "endless":
            number = int(cursor or 0) + 1
            return {"tools": [], "nextCursor": str(number)}
        if kind == "loop":
            return {"tools": [], "nextCursor": "b" if cursor == "a" else "a"}
        if kind == "two":
            half = len(listed) // 2
            first = {"tools": listed[:half], "nextCursor": "second"}
            return first if cursor is None else {"tools": listed[half:]}
        return {"tools": [*listed, *self.options.get("tools", [])]}

    def task(self, id: Any, method: str, params: dict[str, Any]) -> None:
        """A task of 2025-11-25: begun, waited for, and called off."""
        if method == "tools/call":
            if "task" not in params:
                self.send({"id": id, "error": {"code": -32601, "message": "only as a task"}})
                return
            made = {"task": {"taskId": "t7", "status": "working"}}
            self.send({"id": id, "result": made})
        elif method == "tasks/result":
            if self.options.get("slow_task"):
                return
            block = {"type": "text", "text": f"done {params['taskId']}"}
            self.send({"id": id, "result": {"content": [block]}})
        else:
            self.send({"id": id, "result": {"taskId": params["taskId"], "status": "cancelled"}})

    def call(self, id: Any, params: dict[str, Any], modern: bool) -> None:
        name, arguments = params["name"], params.get("arguments") or {}
        text = ""
        if name == "echo":
            text = str(arguments.get("text"))
        elif name == "is_error":
            block = {"type": "text", "text": "it went wrong"}
            self.send({"id": id, "result": {"content": [block], "isError": True}})
            return
        elif name == "error":
            error = {"code": -32021, "message": "no such capability", "data": {"a": 1}}
            self.send({"id": id, "error": error})
            return
        elif name == "hang":
            return
        elif name == "late":
            block = {"type": "text", "text": "too late"}
            self.late.append({"id": id, "result": {"content": [block]}})
            return
        elif name in ("die", "dies_after"):
            if name == "dies_after":
                self.send({"id": id, "result": {"content": [{"type": "text", "text": "last"}]}})
            os._exit(3)
        elif name == "garbage":
            sys.stdout.write("this is no message\n")
            sys.stdout.flush()
            return
        elif name == "wrong_id":
            self.send({"id": 999_999, "result": {"content": []}})
            self.send({"id": "1", "result": {"content": []}})
            text = "right"
        elif name == "huge":
            sys.stdout.write('{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"')
            for _ in range(200):
                sys.stdout.write("x" * 1_000_000)
            return
        elif name == "drip":
            while True:
                sys.stdout.write(" ")
                sys.stdout.flush()
                time.sleep(0.01)
        elif name == "roots":
            self.ask(id, params, modern, "roots/list", {})
            return
        elif name == "open":
            try:
                text = Path(arguments["path"]).read_text()[:100]
            except OSError as error:
                text = type(error).__name__
        elif name == "env":
            text = json.dumps(dict(os.environ))
        elif name == "child":
            code = "import time; time.sleep(600)"
            text = str(subprocess.Popen([sys.executable, "-c", code]).pid)
        elif name == "change":
            self.names.remove("echo")
            meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": self.listen}}
            told = {"params": meta} if modern else {}
            self.send({"method": "notifications/tools/list_changed", **told})
            text = "changed"
        elif name == "progress":
            for step in (1, 2, 4):
                told = {"progressToken": params["_meta"]["progressToken"], "progress": step}
                told |= {"total": 4, "message": f"step {step}"}
                self.send({"method": "notifications/progress", "params": told})
                time.sleep(0.06)
            text = "done"
        elif name == "meta":
            text = json.dumps(params.get("_meta"))
        elif name == "task":
            made = {"resultType": "task", "task": {"taskId": "t1", "status": "working"}}
            self.send({"id": id, "result": made})
            return
        elif name == "ask":
            question = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
            self.ask(id, params, modern, "elicitation/create", question)
            return
        self.send({"id": id, "result": {"content": [{"type": "text", "text": text}]}})

    def ask(
        self, id: Any, params: dict[str, Any], modern: bool, method: str, question: dict[str, Any]
    ) -> None:
        if not modern:
            self.asked["q1"] = id
            self.send({"id": "q1", "method": method, "params": question})
            return
        given = params.get("inputResponses")
        if given is None or self.options.get("asks_for_ever"):
            requests = {"who": {"method": method, "params": question}}
            made = {"resultType": "input_required", "inputRequests": requests}
            self.send({"id": id, "result": {**made, "requestState": "opaque"}})
            return
        text = json.dumps([given, params["requestState"]])
        self.send({"id": id, "result": {"content": [{"type": "text", "text": text}]}})

    def answered(self, message: dict[str, Any]) -> None:
        waiting = self.asked.pop(message["id"])
        text = json.dumps(message.get("result", message.get("error")))
        self.send({"id": waiting, "result": {"content": [{"type": "text", "text": text}]}})


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    if "stderr" in options:
        sys.stderr.write(options["stderr"] + "\n")
        sys.stderr.flush()
    if "banner" in options:
        print(options["banner"], flush=True)
    Server(options).run()
