"""Tools that are Python functions. `restock` is a generator: what it yields is its progress."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

from toolcrib import ToolFailure, tool

SHOP = Path(__file__).resolve().parent.parent / "data" / "shop.db"
PARTS = {"bolt": (0.2, 40), "nut": (0.1, 75), "washer": (0.05, 300)}


@tool(effects=["read"])
async def price(part: str) -> float:
    """The price of a part."""
    if part not in PARTS:
        raise ToolFailure(f"there is no part {part!r}; there are {', '.join(PARTS)}")
    return PARTS[part][0]


@tool(effects=["write"], idempotent=True)
def restock() -> Generator[tuple[float, str], None, int]:
    """Fill the shop's database with parts."""
    with closing(sqlite3.connect(SHOP)) as shop, shop:
        shop.execute("create table if not exists parts (part primary key, price, stock)")
        for number, (name, (cost, stock)) in enumerate(PARTS.items(), 1):
            shop.execute("insert or replace into parts values (?, ?, ?)", (name, cost, stock))
            yield number / len(PARTS), f"{name}: {stock}"
    return len(PARTS)
