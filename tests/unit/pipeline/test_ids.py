"""Ids of calls."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from toolcrib.pipeline.ids import count_ids


def test_ids_count() -> None:
    new_id = count_ids("c")
    assert [new_id() for _ in range(901)][::100] == [f"c{n}" for n in range(100, 1100, 100)]


def test_no_two_threads_get_the_same() -> None:
    new_id = count_ids("c")

    def some(_: int) -> list[str]:
        return [new_id() for _ in range(5000)]

    with ThreadPoolExecutor(4) as threads:
        found = [each for group in threads.map(some, range(4)) for each in group]
    assert len(set(found)) == len(found)
