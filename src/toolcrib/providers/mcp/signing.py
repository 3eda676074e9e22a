"""Who we are to a server that is reached by HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Credentials(Protocol):
    """Credentials that change: tokens that are fetched and renewed."""

    async def headers(self) -> dict[str, str]: ...

    async def challenged(
        self, status: int, headers: Mapping[str, str], sent: Mapping[str, str] | None = None
    ) -> bool: ...

    async def aclose(self) -> None: ...


class Signer:
    """The headers of the configuration, and credentials if there are any."""

    def __init__(self, fixed: Mapping[str, str], credentials: Credentials | None) -> None:
        self._fixed = dict(fixed)
        self._credentials = credentials

    @property
    def fixed(self) -> Mapping[str, str] | None:
        """What every request carries, if it is always the same."""
        return self._fixed if self._credentials is None else None

    async def headers(self) -> dict[str, str]:
        """What every request carries."""
        if self._credentials is None:
            return self._fixed
        return {**self._fixed, **await self._credentials.headers()}

    async def challenged(
        self, status: int, headers: Mapping[str, str], sent: Mapping[str, str]
    ) -> bool:
        """The server refused them: whether there are better ones now."""
        if self._credentials is None:
            return False
        return await self._credentials.challenged(status, headers, sent)

    async def aclose(self) -> None:
        """Let go of what was held for them."""
        if self._credentials is not None:
            await self._credentials.aclose()
