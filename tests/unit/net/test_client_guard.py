"""The client asks nobody whom its guard does not let through, whatever servers and names do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from loopback import HERE, Seen, failed, get, names, refused, reply, serve
from toolcrib.errors import Denial
from toolcrib.net.addresses import private_from
from toolcrib.net.client import Client
from toolcrib.net.exchange import Request
from toolcrib.net.guard import Guard, host_rules
from toolcrib.net.url import Url, parse_url


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Client() as made:
        yield made


async def test_no_spelling_reaches_a_server_on_this_machine(client: Client) -> None:
    async with serve(lambda _: reply("secret")) as server:
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "127.0.0.2"):
            request = get(f"http://{host}:{server.port}/")
            assert await refused(client, request, Guard()) == "address_not_public"
        for host in ("127.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.0.0.1."):
            with pytest.raises(Denial, match="understand differently"):
                get(f"http://{host}:{server.port}/")
    assert server.connections == 0


async def test_one_bad_address_among_good_ones_is_refused() -> None:
    async with names(mixed=["93.184.216.34", "10.0.0.1"], six=["2606:4700::1", "::1"]) as client:
        assert await refused(client, get("http://mixed.test/"), Guard()) == "address_not_public"
        assert await refused(client, get("http://six.test/"), Guard()) == "address_not_public"


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """The first answer is good and every later one is bad: only the first may be used."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.66"]

    good = Guard(private=private_from(["127.0.0.1/32"]))
    async with serve(lambda _: reply("x")) as server, Client(resolve=resolve) as client:
        request = get(f"http://rebinding.test:{server.port}/")
        assert (await client.send(request, good)).body == b"x"
        assert asked == ["rebinding.test"]
        await client.aclose()
        assert await refused(client, request, good) == "address_not_public"
    assert server.connections == 1


async def test_the_system_is_not_asked_again_behind_the_checked_answer(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real look-up: whatever the loop is asked to resolve is asked once."""
    loop = asyncio.get_running_loop()
    asked: list[Any] = []
    original = loop.getaddrinfo

    async def counting(host: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(host)
        return await original(host, *args, **kwargs)

    monkeypatch.setattr(loop, "getaddrinfo", counting)
    only = Guard(private=private_from(["127.0.0.0/8", "::1/128"]))
    async with serve(lambda _: reply("x")) as server:
        await client.send(get(f"http://localhost:{server.port}/"), only)
    assert asked == ["localhost"]


async def test_a_connection_made_under_a_wider_rule_does_not_serve_a_stricter_one() -> None:
    async with serve(lambda _: reply("x")) as server, names(api=["127.0.0.1"]) as client:
        request = get(f"http://api.test:{server.port}/")
        await client.send(request, HERE)
        assert await refused(client, request, Guard()) == "address_not_public"
    assert len(server.seen) == 1


async def test_a_redirect_to_a_private_address_is_refused(client: Client) -> None:
    only_here = Guard(private=private_from(["127.0.0.1/32"]))
    for place in (
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "//192.168.0.1/",
    ):
        async with serve(lambda _, to=place: reply(status=302, headers={"Location": to})) as server:
            assert await refused(client, get(server.url), only_here) == "address_not_public"


@pytest.mark.parametrize("place", ["file:///etc/passwd", "http://u:p@127.0.0.1/", "http://127.1/"])
async def test_a_redirect_is_read_as_strictly_as_any_url(client: Client, place: str) -> None:
    async with serve(lambda _: reply(status=301, headers={"Location": place})) as server:
        assert await refused(client, get(server.url)) == "url_not_allowed"
    assert len(server.seen) == 1


async def test_a_redirect_to_a_host_that_is_not_listed_is_refused() -> None:
    def answer(seen: Seen) -> bytes:
        return reply(status=307, headers={"Location": f"http://evil.test:{server.port}/"})

    async with serve(answer) as server, names(good=["127.0.0.1"], evil=["127.0.0.1"]) as client:
        guard = Guard(host_rules(["good.test"]), private=private_from(True))
        request = get(f"http://good.test:{server.port}/")
        assert await refused(client, request, guard) == "host_not_allowed"
    assert len(server.seen) == 1


async def test_redirects_are_followed_three_times_and_no_more(client: Client) -> None:
    def answer(seen: Seen) -> bytes:
        left = int(seen.path[1:])
        return reply("end") if not left else reply(status=302, headers={"Location": str(left - 1)})

    async with serve(answer) as server:
        response = await client.send(get(f"{server.url}/3"), HERE)
        assert (response.body, response.url.target) == (b"end", "/0")
        failure = await failed(client, get(f"{server.url}/4"))
    assert failure.reason == "upstream_error"
    assert "more than 3 times" in failure.message


SECRETS = {
    "Authorization": "Bearer s3cret",
    "Cookie": "s3cret",
    "X-Api-Key": "s3cret",
    "Accept": "text/plain",
}


async def test_credentials_are_dropped_across_origins() -> None:
    async with serve(lambda _: reply("arrived")) as other:
        place = {"Location": f"http://other.test:{other.port}/x"}
        first = serve(lambda _: reply(status=302, headers=place))
        async with first as server, names(here=["127.0.0.1"], other=["127.0.0.1"]) as client:
            request = get(f"http://here.test:{server.port}/", headers=SECRETS)
            assert (await client.send(request, HERE)).body == b"arrived"
    assert server.seen[0].headers["authorization"] == "Bearer s3cret"
    assert "s3cret" not in str(other.seen[0].headers)
    assert other.seen[0].headers["accept"] == "text/plain"


async def test_another_port_is_another_origin(client: Client) -> None:
    async with serve(lambda _: reply("arrived")) as other:
        place = {"Location": other.url}
        async with serve(lambda _: reply(status=302, headers=place)) as server:
            await client.send(get(server.url, headers=SECRETS), HERE)
    assert "s3cret" not in str(other.seen[0].headers)


async def test_credentials_are_kept_within_an_origin(client: Client) -> None:
    def answer(seen: Seen) -> bytes:
        moved = reply(status=301, headers={"Location": "/b"})
        return moved if seen.path == "/a" else reply("b")

    async with serve(answer) as server:
        await client.send(get(f"{server.url}/a", headers=SECRETS), HERE)
    assert server.seen[1].headers["authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (307, "POST", "POST"),
        (308, "PUT", "PUT"),
        (301, "DELETE", "DELETE"),
        (302, "HEAD", "HEAD"),
    ],
)
async def test_what_a_redirect_makes_of_a_request(
    client: Client, status: int, method: str, then: str
) -> None:
    def answer(seen: Seen) -> bytes:
        if seen.path == "/a":
            return reply(status=status, headers={"Location": "/b"})
        return reply("" if seen.method == "HEAD" else "b")

    body = None if method == "HEAD" else b"{}"
    async with serve(answer) as server:
        url = parse_url(f"{server.url}/a")
        said = {"Content-Type": "application/json"}
        await client.send(Request(method=method, url=url, headers=said, body=body), HERE)
    arrived = server.seen[1]
    assert arrived.method == then
    assert arrived.body == (body or b"" if then == method else b"")
    assert ("content-type" in arrived.headers) is (then == method)


@pytest.mark.parametrize("status", [307, 308])
async def test_what_was_sent_is_not_told_to_another_origin(client: Client, status: int) -> None:
    async with serve(lambda _: reply("x")) as other:
        place = {"Location": other.url}
        async with serve(lambda _: reply(status=status, headers=place)) as server:
            request = Request(method="POST", url=parse_url(server.url), body=b"private words")
            assert await refused(client, request) == "url_not_allowed"
    assert other.seen == []


async def test_a_url_that_the_library_reads_otherwise_is_not_sent(client: Client) -> None:
    async with serve(lambda _: reply("x")) as server:
        for host in (f"good.test@127.0.0.1:{server.port}/?", "127.0.0.1#.good.test"):
            request = Request(method="GET", url=Url("http", host, server.port, "/"))
            assert await refused(client, request) == "url_not_allowed"
    assert server.connections == 0
