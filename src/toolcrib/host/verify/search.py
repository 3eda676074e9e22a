"""Trying calls along the ways that rules leave open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from toolcrib.core.decision import Explanation
from toolcrib.core.principal import Principal
from toolcrib.host.verify.probe import Subject, by_code, proposals
from toolcrib.host.verify.reachable import Way, cells
from toolcrib.host.verify.report import Finding


class Question(Protocol):
    """What is looked for, and how one sees it."""

    @property
    def subject(self) -> Subject:
        """The tool it is about."""
        ...

    def attempt(self, arguments: dict[str, Any], who: Principal) -> Finding | Explanation:
        """Try one call: what was found, or what was said instead."""
        ...

    def vary(self, base: dict[str, Any], who: Principal) -> Finding | None:
        """Try calls like one that somebody's code refused."""
        ...

    def is_unexpected(self, said: Explanation) -> bool:
        """Whether an answer is none that a call on this way should get."""
        ...

    def doubt(self, arguments: dict[str, Any] | None, who: Principal) -> Finding:
        """What is told when no call shows it and none can be ruled out."""
        ...


def look(
    question: Question,
    callers: Iterable[Principal],
    ways: Callable[[Principal], Iterator[Way]],
) -> tuple[Finding | None, Finding | None]:
    """The first finding; and, when there is none, the first doubt."""
    doubt: Finding | None = None
    for who in callers:
        for way in ways(who):
            found, unsure = _along(question, way, who, doubt is None)
            if found is not None:
                return found, None
            doubt = doubt or unsure
    return None, doubt


def _along(
    question: Question, way: Way, who: Principal, wants_doubt: bool
) -> tuple[Finding | None, Finding | None]:
    subject = question.subject
    doubt: Finding | None = None
    for cell in cells(way, subject.solver):
        refused: dict[str, Any] | None = None
        unfit = not cell.certain
        for arguments in proposals(subject, cell):
            said = question.attempt(arguments, who)
            if isinstance(said, Finding):
                return said, None
            if by_code(said):
                refused = refused or arguments
            elif question.is_unexpected(said):
                unfit = True
        if refused is not None:
            found = question.vary(refused, who)
            if found is not None:
                return found, None
        elif unfit and wants_doubt and doubt is None:
            first = subject.solver.build(cell.first()) if cell.certain else None
            doubt = question.doubt(first, who)
    return None, doubt
