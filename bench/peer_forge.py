"""ContextForge in front of another server: on SQLite, its limiter off, with a token.

`peer_forge.py PORT URL` prints one line of JSON when a call through it can be made, and ends when
its standard input does. Runs in an environment of its own.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

WHO = "bench@example.com"


def settings(folder: str, port: str) -> dict[str, str]:
    def secret() -> str:
        return "Aa1!" + secrets.token_urlsafe(40)

    return {
        **os.environ,
        "DATABASE_URL": f"sqlite:///{folder}/forge.db",
        "JWT_SECRET_KEY": secret(),
        "AUTH_ENCRYPTION_SECRET": secret(),
        "BASIC_AUTH_PASSWORD": secret(),
        "PLATFORM_ADMIN_EMAIL": WHO,
        "PLATFORM_ADMIN_PASSWORD": secret(),
        "CACHE_TYPE": "memory",
        "ENVIRONMENT": "development",
        "LOG_LEVEL": "ERROR",
        "DISABLE_ACCESS_LOG": "true",
        "MCG_PORT": port,
        "MCPGATEWAY_UI_ENABLED": "false",
        "OTEL_ENABLE_OBSERVABILITY": "false",
        "RATE_LIMITING_ENABLED": "false",
        "TOOL_RATE_LIMIT": "1000000000",
        "SSRF_ALLOW_LOCALHOST": "true",
        "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
    }


class Forge:
    """Talks to it."""

    def __init__(self, port: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.token = ""

    def ask(self, verb: str, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=verb)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def until(self, path: str, seconds: float) -> Any:
        """What an address answers, once it does."""
        end = time.monotonic() + seconds
        while True:
            try:
                found = self.ask("GET", path)
                if found:
                    return found
            except (OSError, urllib.error.URLError):
                if time.monotonic() > end:
                    raise
            if time.monotonic() > end:
                raise SystemExit(f"{path} stayed empty")
            time.sleep(0.25)


def main(port: str, upstream: str) -> None:
    programs = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        env = settings(folder, port)
        words = [str(programs / "mcpgateway"), "--host", "127.0.0.1", "--port", port]
        with Path(folder, "log").open("wb") as log:
            gateway = subprocess.Popen(words, env=env, cwd=folder, stdout=log, stderr=log)
        try:
            forge = Forge(port)
            forge.until("/health", 120)
            make = [sys.executable, "-m", "mcpgateway.utils.create_jwt_token", "--admin"]
            make += ["--username", WHO, "--exp", "600"]
            said = subprocess.run(make, env=env, cwd=folder, capture_output=True, text=True)
            forge.token = said.stdout.split()[-1]
            behind = {"name": "up", "url": upstream, "transport": "STREAMABLEHTTP"}
            forge.ask("POST", "/gateways", behind)
            tools = forge.until("/tools", 20)
            tools = tools if isinstance(tools, list) else tools.get("tools", tools.get("data"))
            served = {"name": "bench", "associated_tools": [tool["id"] for tool in tools]}
            made = forge.ask("POST", "/servers", {"server": served})
            found = {
                "url": forge.url,
                "path": f"/servers/{made['id']}/mcp",
                "token": forge.token,
                "tool": next(tool["name"] for tool in tools if tool["name"].endswith("add")),
                "pid": gateway.pid,
            }
            print(json.dumps(found), flush=True)
            sys.stdin.read()
        finally:
            gateway.terminate()
            gateway.wait(15)


if __name__ == "__main__":
    main(*sys.argv[1:])
