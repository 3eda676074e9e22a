"""What the service makes of callers that were identified: nothing a request says changes it."""

from __future__ import annotations

from typing import Any

import pytest

from issuer import Issuer
from toolcrib import ToolHost, tool
from toolcrib.core.serving import HttpSettings, ServeSettings, TokenSettings
from toolcrib.host.config.doorkinds import hash_of
from toolcrib.transports.faults import Fault
from toolcrib.transports.identity import Identity
from toolcrib.transports.service import Service

SECRET = b"0123456789abcdef"


@tool(effects=["read"])
def look() -> str:
    """Look."""
    return "seen"


async def test_a_caller_is_held_to_what_its_credentials_say(login: Issuer) -> None:
    token = TokenSettings(name="t", hash=hash_of(SECRET), principal="ci", profile="shut")
    settings = ServeSettings(
        http=HttpSettings(profile="open"),
        tokens=(token,),
        jwt=(login.settings(profiles="profiles", permissions="scope"),),
    )
    config: dict[str, Any] = {
        "profiles": {"open": {"rules": [{"allow": "look"}]}, "shut": {"rules": [{"deny": "*"}]}},
        "principals": {"ci": {}},
    }
    host = ToolHost([look], config=config)
    service, identity = Service(host, settings), Identity(host, settings)
    await service.start()

    async def who(sent: bytes) -> Any:
        return await identity.identify(b"Bearer " + sent, door="http", loopback=False)

    try:
        now = host.clock.time()
        claims: dict[str, Any] = {"iat": now, "exp": now + 60}
        ci = await who(SECRET)
        assert (await service.place(ci, "look", {})).reason == "denied_by_rule"
        assert (await service.place(ci, "look", {}, profile="open")).reason == "not_in_profile"
        alice = await who(login.token(**claims).encode())
        assert (await service.place(alice, "look", {})).output == "seen"
        assert (await service.place(alice, "look", {}, profile="shut")).reason == "not_in_profile"
        both = await who(login.token(**claims, profiles=["shut", "open"]).encode())
        assert (await service.place(both, "look", {})).reason == "denied_by_rule"
        assert (await service.place(both, "look", {}, profile="open")).output == "seen"
        for caller in (ci, alice):
            with pytest.raises(Fault, match=r"toolcrib\.admin"):
                await service.handle(caller, "host.reload")
        seer = await who(login.token(**claims, scope="toolcrib.audit").encode())
        assert (await service.handle(seer, "audit.search")).events
        identity.renew(ServeSettings(http=settings.http, jwt=settings.jwt))
        assert (await service.place(ci, "look", {})).reason == "unauthenticated"
        with pytest.raises(Fault, match="connect again"):
            await service.handle(ci, "host.info")
        assert (await service.place(alice, "look", {})).output == "seen"
    finally:
        await identity.close()
        await service.stop()
