"""Pages of an answer, and tokens by OAuth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from loopback import Seen, reply_json, serve
from toolcrib.core.context import ToolContext
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial, ToolFailure
from toolcrib.executors.http import HttpExecutor
from toolcrib.executors.http_pages import next_link


@pytest.fixture
async def executor() -> AsyncIterator[HttpExecutor]:
    made = HttpExecutor()
    yield made
    await made.aclose()


async def call(executor: HttpExecutor, config: dict[str, Any], **more: Any) -> Any:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    spec = ToolSpec(
        name="t", kind="http", input_schema=schema, config={"private": True, **config}, **more
    )
    return await executor.bind(spec, None)(ToolContext(spec=spec, arguments={"q": "x"}))


def by_cursor(seen: Seen) -> bytes:
    at = int(dict(seen.query).get("cursor", "0"))
    following = at + 2 if at < 6 else None
    return reply_json({"items": [at, at + 1], "meta": {"next": following}})


async def test_a_cursor_is_put_into_the_query(executor: HttpExecutor) -> None:
    paging = {"next": {"cursor": "/meta/next", "query": "cursor"}, "items": "/items"}
    async with serve(by_cursor) as server:
        out = await call(executor, {"url": server.url, "pagination": paging})
        assert out == {"items": list(range(8)), "pages": 4, "more": False}
        assert [dict(s.query) for s in server.seen][:2] == [{"q": "x"}, {"q": "x", "cursor": "2"}]
        out = await call(executor, {"url": server.url, "pagination": {**paging, "limit": 2}})
    assert out == {"items": [0, 1, 2, 3], "pages": 2, "more": True}


async def test_a_page_counts_up_until_one_is_empty(executor: HttpExecutor) -> None:
    def answer(seen: Seen) -> bytes:
        page = int(dict(seen.query)["p"])
        return reply_json([page] if page < 3 else [])

    async with serve(answer) as server:
        config = {"url": server.url, "pagination": {"next": {"page": "p"}}}
        out = await call(executor, config)
        assert out == {"items": [1, 2], "pages": 3, "more": False}
        config = {"url": server.url, "pagination": {"next": {"page": "p", "start": 0}}}
        assert (await call(executor, config))["items"] == [0, 1, 2]


async def test_a_link_header_and_a_link_in_the_body(executor: HttpExecutor) -> None:
    def answer(seen: Seen) -> bytes:
        page = int(seen.path[1:] or "1")
        more = f"/{page + 1}?x=1" if page < 3 else ""
        link = {"Link": f'<{more}>; rel="next", </1>; rel="first"'} if more else {}
        return reply_json({"d": [page], "next": more}, headers=link)

    async with serve(answer) as server:
        for following in ("link", {"pointer": "/next"}):
            paging = {"next": following, "items": "/d"}
            out = await call(executor, {"url": server.url, "pagination": paging})
            assert out == {"items": [1, 2, 3], "pages": 3, "more": False}
    assert server.seen[1].target == "/2?x=1"


LINKS = {
    '<https://a/2>; rel="next"': "https://a/2",
    "<https://a/2>; rel=next": "https://a/2",
    '<https://a/1>; rel="prev", <https://a/3>; rel="next"': "https://a/3",
    '<https://a/2>; title="a, b"; rel="next"': "https://a/2",
    '<https://a/2>; rel="last next"': "https://a/2",
    '<https://a/2>; rel="nextish"': None,
    '<https://a/2>; title="rel=next"': None,
    "https://a/2; rel=next": None,
    "": None,
}


@pytest.mark.parametrize("header", LINKS)
def test_reading_a_link_header(header: str) -> None:
    assert next_link(header) == LINKS[header]


async def test_the_next_page_is_never_at_another_place(executor: HttpExecutor) -> None:
    async with serve(lambda _: reply_json([])) as other:

        def answer(seen: Seen) -> bytes:
            return reply_json([1], headers={"Link": f'<{other.url}/>; rel="next"'})

        async with serve(answer) as server:
            config = {
                "url": server.url,
                "pagination": {"next": "link"},
                "auth": {"bearer": "s3cret"},
                "hosts": ["127.0.0.1"],
            }
            with pytest.raises(Denial) as raised:
                await call(executor, config)
    assert raised.value.reason == "url_not_allowed"
    assert other.seen == []


async def test_pages_in_circles_end(executor: HttpExecutor) -> None:
    async with serve(lambda _: reply_json([1], headers={"Link": "<?a=1>; rel=next"})) as server:
        with pytest.raises(ToolFailure, match="in circles"):
            await call(executor, {"url": server.url, "pagination": {"next": "link"}})
    assert len(server.seen) == 2


async def test_pages_share_one_limit_of_bytes(executor: HttpExecutor) -> None:
    async with serve(lambda s: reply_json(["x" * 400])) as server:
        config = {
            "url": server.url,
            "max_bytes": "1kB",
            "pagination": {"next": {"page": "p"}, "limit": 50},
        }
        with pytest.raises(ToolFailure) as raised:
            await call(executor, config)
    assert raised.value.reason == "output_too_large"
    assert len(server.seen) == 3


async def test_a_page_without_a_list(executor: HttpExecutor) -> None:
    async with serve(lambda _: reply_json({"items": {}})) as server:
        config = {"url": server.url, "pagination": {"next": "link", "items": "/items"}}
        with pytest.raises(ToolFailure, match="without a list at /items"):
            await call(executor, config)


class Login:
    """A server with a token endpoint, and the credentials it has seen."""

    def __init__(self, lasts: Any = 3600) -> None:
        self.lasts = lasts
        self.grants = 0
        self.refuse: set[str] = set()

    def __call__(self, seen: Seen) -> bytes:
        if seen.path == "/token":
            self.grants += 1
            self.form = parse_qs(seen.body.decode())
            self.basic = seen.headers.get("authorization")
            grant = {"access_token": f"t{self.grants}", "token_type": "Bearer"}
            return reply_json({**grant, "expires_in": self.lasts})
        token = seen.headers["authorization"].removeprefix("Bearer ")
        return reply_json({}, 401) if token in self.refuse else reply_json(token)


def oauth(url: str, **more: Any) -> dict[str, Any]:
    settings = {"token_url": f"{url}/token", "client_id": "me", "client_secret": "s3:cret", **more}
    return {"url": f"{url}/x", "auth": {"oauth": settings}}


async def test_a_token_is_fetched_once_and_kept(executor: HttpExecutor) -> None:
    login = Login()
    async with serve(login) as server:
        spec = ToolSpec(name="t", kind="http", config={"private": True, **oauth(server.url)})
        execute = executor.bind(spec, None)
        calls = (execute(ToolContext(spec=spec)) for _ in range(5))
        assert await asyncio.gather(*calls) == ["t1"] * 5
    assert login.grants == 1
    assert login.form == {"grant_type": ["client_credentials"]}
    assert login.basic == "Basic bWU6czMlM0FjcmV0"


async def test_a_token_can_be_asked_for_in_the_body(executor: HttpExecutor) -> None:
    login = Login()
    async with serve(login) as server:
        more = {"send": "body", "scopes": ["a", "b"], "audience": "api"}
        assert await call(executor, oauth(server.url, **more)) == "t1"
    assert login.basic is None
    assert login.form["scope"] == ["a b"]
    assert login.form["audience"] == ["api"]
    assert login.form["client_secret"] == ["s3:cret"]


async def test_a_refused_token_is_replaced_once(executor: HttpExecutor) -> None:
    login = Login()
    login.refuse = {"t1"}
    async with serve(login) as server:
        assert await call(executor, oauth(server.url)) == "t2"
        login.refuse = {f"t{n}" for n in range(9)}
        with pytest.raises(ToolFailure) as raised:
            await call(executor, oauth(server.url))
    assert raised.value.details["status"] == 401
    assert login.grants == 4


async def test_a_token_that_ended_is_not_used(executor: HttpExecutor) -> None:
    login = Login(lasts=0.02)
    async with serve(login) as server:
        spec = ToolSpec(name="t", kind="http", config={"private": True, **oauth(server.url)})
        execute = executor.bind(spec, None)
        assert await execute(ToolContext(spec=spec)) == "t1"
        await asyncio.sleep(0.05)
        assert await execute(ToolContext(spec=spec)) == "t2"


@pytest.mark.parametrize(
    "answer",
    [
        reply_json({"error": "s3:cret"}, 401),
        reply_json({"access_token": ""}),
        reply_json({"access_token": "a\nb"}),
        reply_json({"access_token": "x", "token_type": "mac"}),
        reply_json([]),
        reply_json({}, 302, {"Location": "http://10.0.0.1/"}),
    ],
    ids=["refused", "empty", "line", "mac", "list", "redirect"],
)
async def test_no_token_is_granted(executor: HttpExecutor, answer: bytes) -> None:
    async with serve(lambda _: answer) as server:
        with pytest.raises(ToolFailure, match=r"no token was granted|redirected") as raised:
            await call(executor, oauth(server.url))
    assert raised.value.reason == "upstream_error"
    assert "s3" not in str(raised.value) + str(raised.value.details)
    assert [seen.path for seen in server.seen] == ["/token"]
