"""A gateway from its opening to its end."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import signal
import ssl
import stat
import sys
import textwrap
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from http_gateway import CONFIG, LOCAL, Wire, gateway, settings, short, tools
from toolcrib import ToolHost
from toolcrib.core.serving import HttpSettings, Listen, StdioSettings, Tls
from toolcrib.errors import ConfigError
from toolcrib.transports.http.server import HttpDoor
from toolcrib.transports.serving import Serving, new_loop, serve
from toolcrib.transports.stdio import StdioDoor


def write_certificate(folder: Path, name: str) -> Tls:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "cert.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return Tls(certificate=str(public), key=str(private))


async def shown_name(port: int) -> str:
    """The name on the certificate that the server shows."""
    from cryptography import x509

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    held: Any = writer.get_extra_info("ssl_object")
    certificate = x509.load_der_x509_certificate(held.getpeercert(binary_form=True))
    writer.close()
    await writer.wait_closed()
    return str(certificate.subject.rfc4514_string())


def mode_of(path: str) -> int | None:
    found = Path(path)
    return stat.S_IMODE(found.stat().st_mode) if found.exists() else None


class TestUnix:
    async def test_its_own_user_is_the_operator(self, tmp_path: Path) -> None:
        path = str(tmp_path / "s.sock")
        async with gateway(unix=path) as served:
            assert served.serving.unix == path
            assert mode_of(path) == 0o600
            async with Wire(*await asyncio.open_unix_connection(path)) as wire:
                given = {"Host": "localhost"}
                await wire.send(served.request("GET", "/v1/info", who=None, headers=given))
                info = (await wire.reply()).json()
                assert (info["principal"], info["door"]) == ("local", "unix")
                assert info["rights"] == ["approve", "audit", "admin"]
                body = {"arguments": {"a": 1, "b": 2}}
                call = "/v1/tools/add/call"
                await wire.send(served.request("POST", call, body, who=None, headers=given))
                assert (await wire.reply()).json()["output"] == 3
                await wire.send(served.request("POST", call, body, who="ci", headers=given))
                reply = await wire.reply()
                events = await served.host.trail(call_id=reply.json()["call_id"])
                assert (events[0].data["principal"], events[0].data["door"]) == ("ci", "unix")
        assert mode_of(path) is None

    async def test_names_are_guarded_there_too(self, tmp_path: Path) -> None:
        path = str(tmp_path / "s.sock")
        async with (
            gateway(unix=path, listen=()) as served,
            Wire(*await asyncio.open_unix_connection(path)) as wire,
        ):
            assert served.serving.urls == ()
            for host, status in (("evil.example", 421), ("localhost", 200), ("toolcrib", 200)):
                await wire.send(b"GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n" % host.encode())
                assert (await wire.reply()).status == status

    async def test_the_system_says_who_is_there(self, tmp_path: Path) -> None:
        path = str(tmp_path / "s.sock")
        async with gateway(unix=path), Wire(*await asyncio.open_unix_connection(path)):
            door = _doors()[0]
            async with asyncio.timeout(5):
                while not door.state.connections:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            (connection,) = door.state.connections
            assert connection.peer == (os.geteuid(), os.getegid(), os.getpid())


def _doors() -> list[HttpDoor]:
    import gc

    return [each for each in gc.get_objects() if type(each) is HttpDoor and not each.closing]


class TestTls:
    async def test_a_certificate_is_read_again(self, tmp_path: Path, caplog) -> None:
        tls = write_certificate(tmp_path, "first.example")
        async with gateway(tls=tls) as served:
            assert served.url.startswith("https://")
            assert await shown_name(served.port) == "CN=first.example"
            write_certificate(tmp_path, "second.example")
            os.kill(os.getpid(), signal.SIGHUP)
            await _until_name(served.port, "CN=second.example")
            write_certificate(tmp_path, "third.example")
            (tmp_path / "key.pem").write_text("no key")
            with caplog.at_level(logging.ERROR, "toolcrib"):
                os.kill(os.getpid(), signal.SIGHUP)
                async with asyncio.timeout(5):
                    while "certificate" not in caplog.text:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
            assert await shown_name(served.port) == "CN=second.example"

    async def test_plain_http_is_not_answered_there(self, tmp_path: Path) -> None:
        tls = write_certificate(tmp_path, "first.example")
        async with gateway(tls=tls) as served, await served.connect() as wire:
            await wire.send(served.request("GET", "/healthz"))
            assert b"200" not in await wire.closed()

    def test_a_key_of_another_certificate_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        one = write_certificate(tmp_path / "a", "a.example")
        other = write_certificate(tmp_path / "b", "b.example")
        mixed = Tls(certificate=one.certificate, key=other.key)
        with pytest.raises(ConfigError, match="cannot be used"):
            HttpDoor(HttpSettings(tls=mixed))


async def _until_name(port: int, name: str) -> None:
    async with asyncio.timeout(5):
        while await shown_name(port) != name:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


class TestOpening:
    async def test_several_addresses(self) -> None:
        more = (LOCAL, Listen(host="127.0.0.2", port=0))
        async with gateway(listen=more) as served:
            assert len(served.serving.urls) == 2
            port = int(served.serving.urls[1].rpartition(":")[2])
            async with Wire(*await asyncio.open_connection("127.0.0.2", port)) as wire:
                given = {"Host": f"127.0.0.1:{port}"}
                await wire.send(served.request("GET", "/healthz", headers=given))
                assert (await wire.reply()).status == 200

    async def test_an_address_in_use_starts_nothing(self) -> None:
        async with gateway() as served:
            host = ToolHost(tools(), config=CONFIG)
            taken = settings(listen=(Listen(host="127.0.0.1", port=served.port),))
            with pytest.raises(ConfigError, match="in use"):
                await serve(host, taken, ready=lambda _: None)
            assert (await served.ask("GET", "/healthz")).status == 200

    async def test_a_door_that_must_not_be_open_stays_shut(self) -> None:
        everywhere = settings(guarded=False, listen=(Listen(host="0.0.0.0", port=0),))
        with pytest.raises(ConfigError):
            await serve(ToolHost(tools(), config=CONFIG), everywhere, ready=lambda _: None)


class TestEnding:
    async def test_running_calls_end_and_new_ones_are_refused(self) -> None:
        config = short(CONFIG, drain="5s")
        async with gateway(config=config) as served:
            wire, idle = await served.connect(), await served.connect()
            for each in (idle, wire):
                await each.send(served.request("GET", "/healthz"))
                assert (await each.reply()).status == 200
            slow = {"arguments": {"seconds": 0.5}}
            await wire.send(served.request("POST", "/v1/tools/slow/call", slow))
            await served.recorder.wait_for("call.started")
            served.stop.set()
            async with asyncio.timeout(5):
                while not served.serving.service.stopping:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            ready = await _asked(idle, served.request("GET", "/readyz", who=None))
            assert (ready.status, ready.json()) == (503, {"status": "stopping"})
            assert ready.headers["connection"] == "close"
            with pytest.raises(ConnectionRefusedError):
                await served.connect()
            reply = await wire.reply()
            assert (reply.status, reply.json()["output"]) == (200, "done")
            await served.task
            for each in (idle, wire):
                assert await each.closed() == b""
                await each.close()

    async def test_a_new_call_while_it_ends_is_told_so(self) -> None:
        async with gateway(config=short(CONFIG, drain="5s")) as served:
            wire, other = await served.connect(), await served.connect()
            await other.send(served.request("GET", "/healthz"))
            await other.reply()
            slow = {"arguments": {"seconds": 0.4}}
            await wire.send(served.request("POST", "/v1/tools/slow/call", slow))
            await served.recorder.wait_for("call.started")
            served.stop.set()
            async with asyncio.timeout(5):
                while not served.serving.service.parts.pipeline.stopping:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            body = {"arguments": {"a": 1, "b": 2}}
            refused = await _asked(other, served.request("POST", "/v1/tools/add/call", body))
            assert (refused.status, refused.reason) == (503, "host_stopping")
            await served.task
            await wire.close()
            await other.close()

    async def test_a_call_that_takes_too_long_ends_with_an_event(self) -> None:
        async with gateway(config=short(CONFIG, drain="100ms")) as served:
            async with await served.connect() as wire:
                slow = {"arguments": {"seconds": 60}}
                await wire.send(served.request("POST", "/v1/tools/slow/call", slow))
                await served.recorder.wait_for("call.started")
                served.stop.set()
                reply = await wire.reply()
                assert reply.status in (499, 503)
            await served.task
            assert len(served.recorder.only("call.finished")) == 1

    async def test_websockets_are_told_why(self) -> None:
        async with (
            gateway(guarded=False) as served,
            aiohttp.ClientSession() as client,
            client.ws_connect(f"{served.url}/v1/ws") as socket,
        ):
            await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": "host.info"})
            assert (await socket.receive_json(timeout=5))["id"] == 1
            served.stop.set()
            last = await socket.receive(timeout=5)
            assert (last.type, last.data) == (aiohttp.WSMsgType.CLOSE, 1012)
            assert last.extra == "host_stopping"


async def _asked(wire: Wire, request: bytes) -> Any:
    await wire.send(request)
    return await wire.reply()


class TestFollowing:
    async def test_a_reload_changes_names_and_waits(self, tmp_path: Path, caplog) -> None:
        file = tmp_path / "toolcrib.yaml"
        text = """\
            version: 1
            profiles: {work: {rules: [{allow: "*"}]}}
            serve: {http: {listen: "127.0.0.1:0", hosts: [MORE], profile: work}}
            """
        file.write_text(textwrap.dedent(text).replace("MORE", "127.0.0.1"))
        host = ToolHost.from_config(file, store="memory")
        opened: asyncio.Future[Serving] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        served = asyncio.ensure_future(
            serve(host, host.config.serving, ready=opened.set_result, stop=stop)
        )
        port = int((await opened).urls[0].rpartition(":")[2])
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost.localdomain\r\n\r\n"
        try:
            async with Wire(*await asyncio.open_connection("127.0.0.1", port)) as wire:
                assert (await _asked(wire, request)).status == 421
                file.write_text("version: [")
                with caplog.at_level(logging.ERROR, "toolcrib"):
                    os.kill(os.getpid(), signal.SIGHUP)
                    async with asyncio.timeout(5):
                        while "not taken" not in caplog.text:  # noqa: ASYNC110
                            await asyncio.sleep(0.01)
                assert (await _asked(wire, request)).status == 421
                new = textwrap.dedent(text).replace("MORE", "localhost.localdomain, '127.0.0.1'")
                file.write_text(new)
                await host.reload()
                async with asyncio.timeout(5):
                    while (await _asked(wire, request)).status != 200:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
        finally:
            stop.set()
            await served


PROGRAM = """
import asyncio, sys
from toolcrib import ToolHost, tool
from toolcrib.core.serving import HttpSettings, Listen, ServeSettings
from toolcrib.transports.serving import new_loop, serve

@tool(effects=["read"])
async def slow(seconds: float) -> str:
    "Take some time."
    print("begun", flush=True)
    await asyncio.sleep(seconds)
    return "done"

async def main():
    config = {"version": 1, "host": {"drain": sys.argv[1]},
              "profiles": {"p": {"rules": [{"allow": "slow"}]}}}
    host = ToolHost([slow], config=config)
    http = HttpSettings(listen=(Listen(host="127.0.0.1", port=0),), profile="p")
    await serve(host, ServeSettings(http=http), ready=lambda s: print(s.urls[0], flush=True))
    print(type(asyncio.get_running_loop()).__module__, "ended", flush=True)

with asyncio.Runner(loop_factory=new_loop()) as runner:
    runner.run(main())
"""


class TestSignals:
    async def start(self, drain: str) -> tuple[asyncio.subprocess.Process, Wire, int]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, drain, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        port = int((await process.stdout.readline()).decode().strip().rpartition(":")[2])
        wire = Wire(*await asyncio.open_connection("127.0.0.1", port))
        return process, wire, port

    @staticmethod
    def request(port: int, seconds: float) -> bytes:
        body = b'{"arguments":{"seconds":%g}}' % seconds
        return (
            b"POST /v1/tools/slow/call HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        ) % (port, len(body), body)

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
    async def test_it_ends_in_order(self, number) -> None:
        process, wire, port = await self.start("5s")
        await wire.send(self.request(port, 0.6))
        assert await process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        assert (await wire.reply()).json()["output"] == "done"
        out, _ = await asyncio.wait_for(process.communicate(), 10)
        await wire.close()
        assert (process.returncode, out.strip()) == (0, b"uvloop ended")

    async def test_asked_twice_it_ends_at_once(self) -> None:
        process, wire, port = await self.start("60s")
        await wire.send(self.request(port, 60))
        assert await process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.3)
        assert process.returncode is None
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.communicate(), 10)
        await wire.close()
        assert process.returncode == -signal.SIGINT


class TestStdio:
    async def test_the_client_goes_and_so_does_the_host(self) -> None:
        to_host, from_host = os.pipe(), os.pipe()
        door = StdioDoor(reading=to_host[0], writing=from_host[1])
        host = ToolHost(tools(), config=CONFIG)
        opened: list[Serving] = []
        given = replace(settings(), stdio=StdioSettings(profile="work"))
        serving = asyncio.ensure_future(
            serve(host, given, doors=("stdio",), ready=opened.append, stdio=door)
        )
        os.write(to_host[1], b'{"jsonrpc": "2.0", "id": 1, "method": "host.info"}\n')
        os.close(to_host[1])
        await asyncio.wait_for(serving, 10)
        assert b'"door":"stdio"' in os.read(from_host[0], 65536)
        os.close(from_host[0])
        assert (opened[0].doors, opened[0].urls) == (("stdio",), ())


async def test_a_missing_library_is_named_with_its_cure(monkeypatch) -> None:
    for name in [n for n in sys.modules if n.startswith(("toolcrib.transports.http", "uvicorn"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ConfigError, match="uvicorn") as caught:
        await serve(ToolHost(tools(), config=CONFIG), settings(), ready=lambda _: None)
    assert caught.value.cure == "pip install 'toolcrib[serve]'"


async def test_handlers_of_signals_are_as_before() -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    async with gateway():
        pass
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_the_quickest_loop_is_found() -> None:
    import uvloop

    assert new_loop() is uvloop.new_event_loop
