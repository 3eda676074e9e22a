"""Tools from an address: asked for again, verified, and kept when the other side fails."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from loopback import Seen, Server, reply, serve
from toolcrib.errors import ConfigError
from toolcrib.host.loaders import HttpLoader, LoadReport
from toolcrib.testing.contracts.loader import LoaderContract


def document(*names: str, **more: Any) -> bytes:
    tools = [
        {
            "name": name,
            "kind": "http",
            "config": {"method": "GET", "url": "https://api.example.com/x"},
            **more,
        }
        for name in names
    ]
    return json.dumps({"tools": tools}, indent=1).encode()


class Source:
    """What the server has to say; tests change it between requests."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.status = 200
        self.headers: dict[str, str] = {}
        self.signature: bytes | None = None
        self.answer: Callable[[Seen], bytes] | None = None

    def __call__(self, seen: Seen) -> bytes:
        if self.answer is not None:
            return self.answer(seen)
        if seen.path.endswith(".sig"):
            return reply(status=404) if self.signature is None else reply(self.signature)
        tag = f'"{hashlib.sha256(self.body).hexdigest()[:8]}"'
        if self.status == 200 and seen.headers.get("if-none-match") == tag:
            return reply(status=304, headers={"ETag": tag})
        return reply(self.body, self.status, {"ETag": tag, **self.headers})


def names(report: LoadReport) -> list[str]:
    return [fate.name for fate in report.entries if fate.problem is None]


def loader(server: Server, path: str = "/tools", **settings: Any) -> HttpLoader:
    return HttpLoader(server.url + path, **{"private": True, **settings})


async def test_tools_are_loaded_and_asked_for_again() -> None:
    source = Source(document("a", "b"))
    async with serve(source) as server:
        tools = loader(server)
        report = await tools.load_all()
        assert names(report) == ["a", "b"]
        assert report.entries[0].source == f"{server.url}/tools:3"
        assert not await tools.refresh()
        assert server.seen[1].headers["if-none-match"] == server_tag(source.body)
        source.body = document("a", "c")
        assert await tools.refresh()
        assert names(tools.report) == ["a", "c"]
        assert not await tools.refresh()


def server_tag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:8]}"'


async def test_without_etag_nothing_is_said_of_it() -> None:
    source = Source(document("a"))
    async with serve(source) as server:
        tools = loader(server, etag=False)
        await tools.load()
        assert not await tools.refresh()
        assert all("if-none-match" not in seen.headers for seen in server.seen)


async def test_headers_are_sent() -> None:
    async with serve(Source(document("a"))) as server:
        await loader(server, headers={"authorization": "Bearer t"}).load()
        assert server.seen[0].headers["authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": 500}, "the server answered with status 500"),
        ({"status": 404}, "the server answered with status 404"),
        ({"body": b"{"}, "this is not JSON"),
        ({"body": b"[]"}, "the file must be an object, not a list"),
        ({"body": b'{"tools": []}'}, "the body holds no tools"),
        ({"body": b"\xff"}, "the body is not UTF-8 text"),
        ({"body": b'{"tools": [{"name": "x", "name": "y"}]}'}, "the key 'name' stands here"),
        ({"body": b'{"tools": ' + b"[" * 5000}, "this is not JSON"),
        ({"body": b" " * (8 * 1024 * 1024 + 1)}, "more than 8388608 bytes"),
        (
            {"body": gzip.compress(b" " * 50_000_000), "headers": {"Content-Encoding": "gzip"}},
            "more than 8388608 bytes",
        ),
    ],
    ids=["500", "404", "json", "list", "none", "utf8", "twice", "deep", "large", "bomb"],
)
async def test_what_cannot_be_used_leaves_the_last_good_tools(
    change: dict[str, Any], message: str
) -> None:
    source = Source(document("a", "b"))
    async with serve(source) as server:
        tools = loader(server)
        await tools.load()
        for name, value in change.items():
            setattr(source, name, value)
        assert not await tools.refresh()
        report = tools.report
        assert names(report) == ["a", "b"]
        [problem] = report.problems
        assert message in problem.message
        source.body, source.status, source.headers = document("c"), 200, {}
        assert await tools.refresh()
        assert (names(tools.report), tools.report.problems) == (["c"], ())


async def test_a_source_that_is_not_there() -> None:
    async with serve(Source(b"")) as server:
        tools = loader(server)
    with pytest.raises(ConfigError) as caught:
        await tools.load()
    assert caught.value.file == f"{server.url}/tools"


async def test_one_bad_entry_hides_no_other() -> None:
    tools = json.loads(document("a", "b", "c"))
    tools["tools"][1] |= {"kind": "shell", "config": {"argv": ["id"]}}
    async with serve(Source(json.dumps(tools).encode())) as server:
        report = await loader(server).load_all()
    assert names(report) == ["a", "c"]
    assert report.problems[0].message.startswith("remote specs may not carry tools of kind shell")


async def test_variables_of_this_machine_stay_here() -> None:
    with mock.patch.dict(os.environ, {"LOADER_SECRET": "s3cret"}):
        async with serve(Source(document("a", description="${LOADER_SECRET}"))) as server:
            report = await loader(server).load_all()
    assert report.items == ()
    assert "remote specs may not carry ${…}" in report.problems[0].message
    assert "s3cret" not in str(report)


async def test_a_pinned_hash_decides() -> None:
    source = Source(document("a"))
    digest = hashlib.sha256(source.body).hexdigest()
    async with serve(source) as server:
        tools = loader(server, sha256=digest.upper())
        assert names(await tools.load_all()) == ["a"]
        source.body = document("a", "evil")
        assert not await tools.refresh()
        assert names(tools.report) == ["a"]
        assert tools.report.problems[0].message == "the body is not the one that sha256 pins"
        other = loader(server, sha256=digest)
        assert (await other.load_all()).items == ()


KEY = Ed25519PrivateKey.generate()
PUBLIC = base64.b64encode(KEY.public_key().public_bytes_raw()).decode()


def signed(body: bytes, key: Ed25519PrivateKey = KEY) -> str:
    return base64.b64encode(key.sign(body)).decode()


@pytest.mark.parametrize("beside", [False, True], ids=["header", "file"])
async def test_a_signature_decides(beside: bool) -> None:
    source = Source(document("a"))

    def sign(signature: str | None) -> None:
        source.headers = {} if beside or signature is None else {"X-Signature-Ed25519": signature}
        source.signature = signature.encode() if beside and signature is not None else None

    async with serve(source) as server:
        tools = loader(server, path="/tools?v=1", public_key=PUBLIC)
        sign(signed(source.body))
        assert names(await tools.load_all()) == ["a"]
        if beside:
            assert server.seen[1].target == "/tools.sig?v=1"
        first = signed(source.body)
        source.body = document("a", "evil")
        for signature in (
            first,
            signed(source.body, Ed25519PrivateKey.generate()),
            "not base64!",
            "",
            None,
        ):
            sign(signature)
            assert not await tools.refresh()
            assert names(tools.report) == ["a"]
            [problem] = tools.report.problems
            absent = "the body has no signature" in problem.message
            assert absent == (signature is None)
            assert "signature" in problem.message
        sign(signed(source.body))
        assert await tools.refresh()
        assert names(tools.report) == ["a", "evil"]


def test_signatures_without_their_package() -> None:
    with (
        mock.patch.dict("sys.modules", {"cryptography.hazmat.primitives.asymmetric.ed25519": None}),
        pytest.raises(ConfigError) as caught,
    ):
        HttpLoader("https://x.example/t", public_key=PUBLIC)
    assert "pip install 'toolcrib[signatures]'" in str(caught.value)


async def test_private_addresses_have_to_be_declared() -> None:
    async with serve(Source(document("a"))) as server:
        tools = loader(server, private=False, sha256="0" * 64)
        report = await tools.load_all()
        assert report.items == ()
        assert "not public" in report.problems[0].message
        assert server.seen == []


async def test_redirects_stay_with_the_source() -> None:
    async with serve(Source(document("evil"))) as other:

        def away(seen: Seen) -> bytes:
            return reply(status=302, headers={"Location": f"{other.url}/tools"})

        def near(seen: Seen) -> bytes:
            if seen.path == "/tools":
                return reply(status=302, headers={"Location": "/moved"})
            return reply(document("a"))

        source = Source(b"")
        async with serve(source) as server:
            source.answer = near
            tools = loader(server)
            assert names(await tools.load_all()) == ["a"]
            source.answer = away
            assert not await tools.refresh()
            assert names(tools.report) == ["a"]
            assert "not on the list of allowed hosts" in tools.report.problems[0].message
            assert other.seen == []


def open_files() -> list[str]:
    return sorted(str(file) for file in Path("/proc/self/fd").iterdir())


async def test_nothing_stays_open() -> None:
    source = Source(document("a"))
    async with serve(source) as server:
        await loader(server).load()  # the libraries open what they keep
    before = len(open_files())
    async with serve(source) as server:
        tools = loader(server)
        for body in (document("a"), b"{", document("b")):
            source.body = body
            await tools.refresh()
    assert len(open_files()) == before


class TestHttpLoaderContract(LoaderContract):
    @pytest.fixture(autouse=True)
    async def running(self) -> Any:
        async with serve(Source(document("a", "b"))) as good, serve(Source(b"{")) as bad:
            self.good, self.bad = good, bad
            yield

    def make(self) -> HttpLoader:
        return loader(self.good)

    def make_broken(self) -> HttpLoader:
        return loader(self.bad)
