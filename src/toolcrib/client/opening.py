"""Choosing the way to a host by its address."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence

from toolcrib.client.address import Address
from toolcrib.client.errors import ClientError
from toolcrib.client.link import Link


def open_link(
    address: Address,
    *,
    token: str | None,
    timeout: float,
    headers: Mapping[str, str] | None,
    tls: ssl.SSLContext | str | None,
    command: Sequence[str] | None,
    environment: Mapping[str, str] | None,
    cwd: str | None,
) -> Link:
    """The link for an address; nothing is connected yet. Raises `ClientError`."""
    where = address.shown
    if not timeout > 0:
        raise ClientError(f"timeout must be more than 0 seconds, not {timeout}", where=where)
    local = {"command": command, "environment": environment, "cwd": cwd}
    remote = {"token": token, "headers": headers, "tls": tls}
    stray = [name for name, value in (remote if _is_local(address) else local).items() if value]
    if stray:
        raise ClientError(
            f"{', '.join(stray)} means nothing for this address", where=where, cure="Leave it out"
        )
    from toolcrib.client.rpc import RpcLink

    if _is_local(address):
        from toolcrib.client.stdio import StdioPipe, check_command

        program = check_command(command, where)
        return RpcLink(
            lambda: StdioPipe(program, environment=environment, cwd=cwd, where=where),
            where=where,
            timeout=timeout,
            reconnects=False,
        )
    from toolcrib.client.network import Network

    network = Network(address, token=token, headers=headers, tls=tls, timeout=timeout)
    if address.kind == "http":
        from toolcrib.client.http import HttpLink

        return HttpLink(network)
    from toolcrib.client.websocket import WebSocketPipe

    return RpcLink(
        lambda: WebSocketPipe(network),
        where=where,
        timeout=timeout,
        reconnects=True,
        network=network,
    )


def _is_local(address: Address) -> bool:
    return address.kind == "stdio"
