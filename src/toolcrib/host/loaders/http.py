"""Tools described at an address: asked for again at intervals, believed only when verified."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, Denial, ToolFailure
from toolcrib.host.config.node import Origin
from toolcrib.host.loaders.reader import MAX_BYTES, Format, read_document
from toolcrib.host.loaders.report import Fate, LoadReport, failed, without_doubles
from toolcrib.host.loaders.signature import HEADER, PublicKey, has_hash, hash_from
from toolcrib.net.addresses import private_from
from toolcrib.net.client import Client
from toolcrib.net.exchange import Limits, Request, Response
from toolcrib.net.guard import guard_for
from toolcrib.net.url import Url, parse_url

_LIMITS = Limits(max_bytes=MAX_BYTES, total=30.0)
_SIGNATURE_LIMITS = Limits(max_bytes=4096, total=30.0)


class _Good(NamedTuple):
    """The last body that was believed."""

    body: bytes
    report: LoadReport


class HttpLoader:
    """Reads tools from a JSON document at an address, under the rules for remote specs.

    What cannot be fetched, verified or parsed leaves the last good tools in place, and is told
    beside them in the report.
    """

    def __init__(
        self,
        url: str,
        *,
        etag: bool = True,
        interval: float | None = None,
        sha256: str | None = None,
        public_key: str | None = None,
        private: Any = False,
        headers: Mapping[str, str] | None = None,
        format: Format | None = None,
        client: Client | None = None,
    ) -> None:
        try:
            self._url = parse_url(url)
        except Denial as error:
            raise ConfigError(str(error), key="load", cure="Write https://host/path") from None
        self.interval = interval
        """Seconds after which the host asks again; None for once."""
        self.format: Format | None = format
        self._ask_by_etag = etag
        self._hash = None if sha256 is None else hash_from(sha256)
        self._key = None if public_key is None else PublicKey(public_key)
        if self._hash is not None and self._key is not None:
            raise ConfigError("sha256 and public_key are given", cure="Keep one", key="sha256")
        self._private = private_from(private)
        self._headers = dict(headers or {})
        if self._url.scheme == "http" and not (self._hash or self._key or private):
            raise ConfigError(
                "anybody on the way can change what comes over http",
                key="load",
                cure="Use https, or pin it with sha256 or public_key",
            )
        self._client = client
        self._good: _Good | None = None
        self._etag: str | None = None
        self._problem: Fate | None = None
        self._lock = asyncio.Lock()

    @property
    def name(self) -> str:
        """The address as it may be shown: a query can hold credentials."""
        return self._url.without_query

    @property
    def report(self) -> LoadReport:
        """The last good entries, and what was wrong the last time."""
        good = self._good.report if self._good is not None else LoadReport()
        if self._problem is None:
            return good
        return LoadReport(entries=(*good.entries, self._problem), secrets=good.secrets)

    async def load(self) -> Sequence[ToolSpec]:
        """All specs. Raises `ConfigError`."""
        return (await self.load_all()).check().specs

    async def load_all(self) -> LoadReport:
        """What became of every entry, asked for now."""
        await self.refresh()
        return self.report

    async def refresh(self) -> bool:
        """Ask again; whether the tools changed. Never raises for what the other side did."""
        async with self._lock:
            before = self._good
            try:
                if self._client is not None:
                    await self._fetch(self._client)
                else:
                    async with Client() as client:
                        await self._fetch(client)
                self._problem = None
            except (ToolFailure, Denial) as error:
                self._problem = self._failed(str(error), "Correct the address, or try again")
            except ConfigError as error:
                self._problem = self._failed(error.message, error.cure)
            after = self._good
            return after is not None and (before is None or before.body != after.body)

    async def _fetch(self, client: Client) -> None:
        headers = {"accept": "application/json", **self._headers}
        if self._etag is not None and self._good is not None:
            headers["if-none-match"] = self._etag
        response = await self._ask(client, self._url, headers, _LIMITS)
        if response.status == 304 and self._good is not None:
            return
        if response.status != 200:
            raise ConfigError(f"the server answered with status {response.status}")
        await self._verify(client, response)
        body = response.body
        if self._good is None or self._good.body != body:
            self._good = _Good(body, await asyncio.to_thread(self._read, body))
        self._etag = response.headers.get("etag") if self._ask_by_etag else None

    async def _ask(
        self, client: Client, url: Url, headers: dict[str, str], limits: Limits
    ) -> Response:
        request = Request(method="GET", url=url, headers=headers, repeatable=True)
        return await client.send(request, guard_for(self._url, self._private), limits)

    async def _verify(self, client: Client, response: Response) -> None:
        if self._hash is not None and not has_hash(response.body, self._hash):
            raise ConfigError(
                "the body is not the one that sha256 pins",
                cure="Read what changed, and pin the new hash if it is meant",
            )
        if self._key is None:
            return
        signature = response.headers.get(HEADER)
        if signature is None:
            path, mark, query = self._url.target.partition("?")
            beside = self._url._replace(target=f"{path}.sig{mark}{query}")
            answer = await self._ask(client, beside, self._headers, _SIGNATURE_LIMITS)
            if answer.status != 200:
                raise ConfigError(
                    f"the body has no signature: neither a header {HEADER} nor a file beside it",
                    cure="Have it signed with the key of public_key",
                )
            signature = answer.body.decode("ascii", "replace")
        if not self._key.signed(response.body, signature):
            raise ConfigError(
                "the signature is not that of public_key over this body",
                cure="Find out who changed the body or the key",
            )

    def _read(self, body: bytes) -> LoadReport:
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise ConfigError("the body is not UTF-8 text") from None
        origin = Origin(self.name, self.name, Path())
        found = read_document(text, origin, format=self.format, ending="json", remote=True)
        whole = found.fates[0].problem if len(found.fates) == 1 else None
        if whole is not None and found.fates[0].name == origin.label:
            raise whole
        if not found.fates:
            raise ConfigError("the body holds no tools")
        return LoadReport(entries=tuple(without_doubles(found.fates)))

    def _failed(self, message: str, cure: str | None) -> Fate:
        return failed(self.name, f"{self.name}:1", message, cure=cure)
