from __future__ import annotations

import pytest

from toolcrib.catalog.docstring import parse

GOOGLE = """Search the index.

    Looks at titles first.

    Args:
        query (str): What to look for,
            in plain words.
        limit: How many hits: at most 50.
        left, right: Where to look.
        *names: Ignored here.
        **options: More of it.

    Returns:
        The hits.

    Raises:
        query: never a parameter.
    """
NUMPY = """Search the index.

    Looks at titles first.

    Parameters
    ----------
    query : str
        What to look for,
        in plain words.
    limit : int, optional
        How many hits: at most 50.
    left, right
        Where to look.
    **options
        More of it.

    Returns
    -------
    list
        The hits.
    """
REST = """Search the index.

    Looks at titles first.

    :param query: What to look for,
        in plain words.
    :param int limit: How many hits: at most 50.
    :type limit: int
    :param left: Where to look.
    :keyword right: Where to look.
    :param options:
        More of it.
    :returns: The hits.
    :raises ValueError: never.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_the_three_styles_say_the_same(text: str) -> None:
    found = parse(text)
    assert found.description == "Search the index.\n\nLooks at titles first."
    assert found.parameters["query"] == "What to look for, in plain words."
    assert found.parameters["limit"] == "How many hits: at most 50."
    assert found.parameters["left"] == found.parameters["right"] == "Where to look."
    assert found.parameters["options"] == "More of it."
    assert "list" not in found.parameters
    assert "ValueError" not in found.parameters


@pytest.mark.parametrize("text", [None, "", "   "])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert parse(text) == ("", {})


def test_one_line_is_the_description() -> None:
    assert parse(" Add two numbers. ") == ("Add two numbers.", {})


def test_prose_with_colons_stays_prose() -> None:
    text = "Formats: json, yaml.\n\nNote: the order matters.\nArgs are plain: a, b."
    assert parse(text) == (text, {})


def test_prose_after_rest_fields_is_kept() -> None:
    found = parse("Head.\n\n:param a: First.\n\nTail.")
    assert found.parameters == {"a": "First."}
    assert found.description.split() == ["Head.", "Tail."]


def test_a_role_at_the_start_of_a_line_is_prose() -> None:
    assert parse("See\n:func:`other` for more.").description == "See\n:func:`other` for more."


def test_rest_fields_after_a_section_are_read() -> None:
    found = parse("Head.\n\nExample:\n    run()\n\n:param a: First.")
    assert found == ("Head.", {"a": "First."})


def test_google_types_with_brackets_and_colons() -> None:
    found = parse(
        "X.\n\nArgs:\n    a (dict[str, int], optional): The map: by name.\n    b:\n        Later."
    )
    assert found.parameters == {"a": "The map: by name.", "b": "Later."}


def test_a_section_without_indentation_has_no_entries() -> None:
    found = parse("X.\n\nArgs:\nnothing here")
    assert found == ("X.", {})


def test_an_entry_in_no_known_form_is_passed_over() -> None:
    found = parse("X.\n\nArgs:\n    just words\n    a: First.")
    assert found.parameters == {"a": "First."}


def test_of_two_entries_the_first_counts() -> None:
    assert parse("X.\n\n:param a: One.\n:param a: Two.").parameters == {"a": "One."}
