"""What is wrong with the way to a host is told in words, with where and what to do."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

import loopback
from served import CONFIG, Gateway, gateway
from toolcrib.client import CannotConnect, Client, ClientError, NotToolcrib, Refused
from toolcrib.errors import HostStopped, ToolcribError

TOKEN = "t0ken-of-ann-0123456789"
INFO: dict[str, Any] = {
    "name": "toolcrib", "version": "9.9", "wire": "1", "methods": [], "capabilities": {},
    "door": "http", "principal": "ann", "roles": [], "permissions": [], "rights": [],
    "profile": None, "profiles": [], "session": None, "tools": 0,
}  # fmt: skip


def with_token(config: dict[str, Any]) -> dict[str, Any]:
    return {
        **config,
        "principals": {"ann": {"profiles": ["worker"]}},
        "serve": {
            "http": {"listen": "127.0.0.1:0", "profile": "worker"},
            "tokens": {"ann": {"secret": TOKEN, "principal": "ann", "profile": "worker"}},
        },
    }


@pytest.fixture(params=["http", "ws"])
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


async def start(url: str, *arguments: Any, **options: Any) -> ClientError:
    with pytest.raises(ClientError) as wrong:
        async with Client(url, *arguments, **options):
            pass
    assert url.partition("/v1")[0] in str(wrong.value)
    for secret in (TOKEN, *arguments):
        assert not secret or secret not in _all_words(wrong.value)
    return wrong.value


def _all_words(error: BaseException | None) -> str:
    words = ""
    while error is not None:
        words += f"{error!r} {error} {vars(error)}"
        error = error.__cause__ or error.__context__
    return words


async def test_nobody_listens(scheme: str, unused_tcp_port: int) -> None:
    error = await start(f"{scheme}://127.0.0.1:{unused_tcp_port}", TOKEN)
    assert isinstance(error, CannotConnect)
    assert "toolcrib serve" in str(error)


async def test_a_socket_that_is_not_there(tmp_path: Path) -> None:
    error = await start(f"unix:{tmp_path / 'none.sock'}")
    assert isinstance(error, CannotConnect)
    assert "no such file" in str(error)


async def test_a_name_that_is_not_known(scheme: str) -> None:
    assert isinstance(await start(f"{scheme}://nowhere.invalid:1"), CannotConnect)


async def test_a_wrong_token(scheme: str) -> None:
    async with gateway(change=with_token) as served:
        url = served.url.replace("http", scheme, 1)
        for given in ("wrong-token-0123456789", ""):
            error = await start(url, given)
            assert isinstance(error, Refused)
            assert error.reason == "unauthenticated"
            assert "TOOLCRIB_TOKEN" in str(error)
        async with Client(url, TOKEN) as host:
            assert (await host.info()).principal == "ann"
            assert (await host.call("add", {"a": 1})).output == 3


async def test_the_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gateway(change=with_token) as served:
        monkeypatch.setenv("TOOLCRIB_TOKEN", TOKEN)
        async with Client(served.url) as host:
            assert (await host.info()).principal == "ann"


async def test_a_page_instead_of_a_host(scheme: str) -> None:
    page = loopback.reply("<h1>It works</h1>", headers={"Content-Type": "text/html"})
    async with loopback.serve(lambda _: page) as other:
        error = await start(other.url.replace("http", scheme, 1))
    assert isinstance(error, NotToolcrib)
    assert "Check the address" in str(error)


async def test_json_of_something_else() -> None:
    async with loopback.serve(lambda _: loopback.reply_json({"hello": 1})) as other:
        assert "no Toolcrib host" in str(await start(other.url))


async def test_a_host_of_another_version() -> None:
    async with loopback.serve(lambda _: loopback.reply_json({**INFO, "wire": "2"})) as other:
        error = await start(other.url)
    assert isinstance(error, NotToolcrib)
    assert "version 2" in str(error)
    assert "9.9" in str(error)


async def test_no_redirect_is_followed(scheme: str) -> None:
    async with (
        loopback.serve(lambda _: loopback.reply_json(INFO)) as elsewhere,
        loopback.serve(
            lambda _: loopback.reply(status=307, headers={"Location": f"{elsewhere.url}/v1/info"})
        ) as other,
    ):
        error = await start(other.url.replace("http", scheme, 1), TOKEN)
        assert isinstance(error, NotToolcrib)
        assert "redirect" in str(error)
        assert not elsewhere.seen
        assert other.seen[0].headers["authorization"] == f"Bearer {TOKEN}"


async def test_something_that_does_not_speak_http(scheme: str) -> None:
    async with loopback.serve(lambda _: b"SSH-2.0-OpenSSH_9\r\n\r\n") as other:
        url = other.url.replace("http", scheme, 1)
        assert isinstance(await start(url, TOKEN), NotToolcrib)


async def test_tls_where_there_is_none(scheme: str, served: Gateway) -> None:
    error = await start(served.url.replace("http", f"{scheme}s", 1))
    assert isinstance(error, CannotConnect)
    assert "without TLS" in str(error)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("tls")
    made = (str(folder / "cert.pem"), str(folder / "key.pem"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1", "-out", made[0], "-keyout", made[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


async def test_a_certificate_that_is_not_trusted(scheme: str, certificate: tuple[str, str]) -> None:
    tls = dict(zip(("certificate", "key"), certificate, strict=True))
    serve = {**CONFIG["serve"]["http"], "tls": tls}
    async with gateway(change=lambda config: {**config, "serve": {"http": serve}}) as served:
        url = served.url.replace("https", f"{scheme}s", 1)
        error = await start(url, TOKEN)
        assert isinstance(error, CannotConnect)
        assert "tls='ca.pem'" in str(error)
        plain = await start(url.replace(f"{scheme}s", scheme, 1))
        assert "if the host serves with TLS" in str(plain)
        for trust in (certificate[0], ssl.create_default_context(cafile=certificate[0])):
            async with Client(url, tls=trust) as host:
                assert (await host.call("add", {"a": 1})).output == 3


async def test_what_a_host_refuses_is_raised_as_an_embedded_host_would(
    scheme: str, served: Gateway
) -> None:
    async with Client(served.url.replace("http", scheme, 1)) as host:
        from toolcrib import NotFound

        with pytest.raises(NotFound) as missing:
            await host.approvals.get("a-none")
        assert isinstance(missing.value, Refused)
        assert missing.value.reason == "not_found"
        with pytest.raises(ValueError, match="limit"):
            await host.request("tools.list", {"limit": 0})
        with pytest.raises(ToolcribError, match=r"Did you mean tools\.list"):
            await host.request("tools.lst")


async def test_a_stopped_client_says_so(served: Gateway) -> None:
    host = Client(served.url)
    await host.start()
    await host.stop()
    await host.stop()
    with pytest.raises(HostStopped):
        await host.call("add", {"a": 1})


async def test_a_client_may_be_started_again_when_the_host_has_come(
    scheme: str, unused_tcp_port: int
) -> None:
    host = Client(f"{scheme}://127.0.0.1:{unused_tcp_port}")
    with pytest.raises(CannotConnect):
        await host.start()
    async with gateway(port=unused_tcp_port):
        assert (await host.call("add", {"a": 1})).output == 3
        await host.stop()
