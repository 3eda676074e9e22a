"""The floor of the stdio door: a loop by hand that parses a line, adds and answers."""

from __future__ import annotations

import sys

import msgspec


def main() -> None:
    for line in sys.stdin.buffer:
        asked = msgspec.json.decode(line)
        numbers = asked["params"]["arguments"]
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": numbers["a"] + numbers["b"]}
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
