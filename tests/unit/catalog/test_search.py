"""Tools found by words."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from toolcrib.catalog.search import LONGEST_QUERY, search
from toolcrib.core.spec import ToolSpec

EMPTY = {"type": "object", "properties": {}}


class Kept(NamedTuple):
    spec: ToolSpec


def kept(name: str, description: str = "", *tags: str, title: str | None = None) -> Kept:
    return Kept(
        ToolSpec(
            name=name,
            description=description,
            title=title,
            tags=frozenset(tags),
            input_schema=EMPTY,
        )
    )


TOOLS = [
    kept("send_mail", "Write a letter to somebody.", "post"),
    kept("readMail", "Show what came."),
    kept("weather", "Tell the weather, also by mail.", title="Forecast"),
    kept("files-read", "Read a file.", "mail"),
]


def names(query: str, limit: int = 10) -> list[str]:
    return [tool.spec.name for _, tool in search(TOOLS, query, limit)]


def test_names_weigh_more_than_tags_and_tags_more_than_descriptions() -> None:
    assert names("mail") == ["readMail", "send_mail", "files-read", "weather"]
    assert names("mail", 2) == ["readMail", "send_mail"]


def test_more_of_the_words_is_better() -> None:
    assert names("read mail")[0] == "readMail"
    assert names("send letter") == ["send_mail"]


def test_titles_and_beginnings_count() -> None:
    assert names("forecast") == ["weather"]
    assert names("fore") == ["weather"]
    assert names("zebra") == []


@pytest.mark.parametrize("query", ["", "  ", "!?", "x" * (LONGEST_QUERY + 1)])
def test_what_cannot_be_looked_for(query: str) -> None:
    with pytest.raises(ValueError, match="query"):
        search(TOOLS, query, 10)
