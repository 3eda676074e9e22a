"""Sessions: a tool with its own state in each session, a tool for one session, nested calls."""

from __future__ import annotations

import asyncio

from toolcrib import ToolContext, ToolHost, tool


@tool(name="basket", effects=["write"])
class Basket:
    """Put something into this session's basket."""

    def __init__(self, ctx: ToolContext) -> None:
        self.owner = ctx.principal.name
        self.things: list[str] = []

    async def __call__(self, thing: str) -> list[str]:
        """Add `thing`; gives what is in the basket."""
        self.things.append(thing)
        return self.things

    async def close(self) -> None:
        """Called when the session ends."""
        print(f"the basket of {self.owner} is put away with {len(self.things)} things")


@tool(effects=["write"])
async def fill(things: list[str], ctx: ToolContext) -> int:
    """Put several things into the basket, by calling the tool `basket`."""
    for number, thing in enumerate(things, 1):
        (await ctx.call("basket", {"thing": thing})).unwrap()
        ctx.progress(number / len(things), thing)
    return len(things)


def greet(ctx: ToolContext) -> str:
    """Greet whoever is here."""
    return f"hello {ctx.principal.name}, it is {ctx.metadata['time']}"


async def main() -> None:
    """Two people, two baskets."""
    async with ToolHost([Basket, fill]) as host:
        ann = host.session(principal="ann", metadata={"time": "noon"})
        ben = host.session(principal="ben")
        async with ann, ben:
            print("ann:", (await ann.call("fill", {"things": ["tea", "milk"]})).unwrap(), "things")
            print("ann:", (await ann.call("basket", {"thing": "cake"})).unwrap())
            print("ben:", (await ben.call("basket", {"thing": "bread"})).unwrap())
            ann.register(greet)
            print("ann:", (await ann.call("greet")).unwrap())
            print("ben:", (await ben.call("greet")).reason)


if __name__ == "__main__":
    asyncio.run(main())
