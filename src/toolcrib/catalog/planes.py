"""Sums for very many tools at the same time: one large integer for each binary digit of all sums.

Bit n of plane k is digit k of the sum of tool n. Adding a number to a hundred thousand sums takes a
few operations on large integers; so does finding the greatest sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Best(NamedTuple):
    """The tools with the greatest sums, as bits."""

    sure: int
    """No more than were wanted."""
    equal: int
    """All others whose sums are the next ones, all the same; with them it is enough."""


class Planes:
    """Sums that begin at 0."""

    def __init__(self) -> None:
        self._planes: list[int] = []

    def add(self, parts: Sequence[tuple[int, int]]) -> None:
        """Add numbers: each part is a number and the tools it is for; no tool is in two."""
        if not parts:
            return
        digits = max(number for number, _ in parts).bit_length()
        planes = self._planes
        carry = 0
        for at in range(digits):
            wanted = 1 << at
            own = 0
            for number, bits in parts:
                if number & wanted:
                    own |= bits
            carry = self._add_digit(at, own, carry)
        at = digits
        while carry:
            carry = self._add_digit(at, 0, carry)
            at += 1
        while planes and not planes[-1]:
            planes.pop()

    def _add_digit(self, at: int, own: int, carry: int) -> int:
        """Add one digit, and what was carried to it; what is carried on."""
        planes = self._planes
        if at == len(planes):
            planes.append(own ^ carry)
            return own & carry
        here = planes[at]
        if not own and not carry:
            return 0
        both = own ^ carry
        planes[at] = here ^ both
        return (own & carry) | (here & both)

    def best(self, among: int, wanted: int) -> Best:
        """The `wanted` greatest sums among some tools, with all that are as great as the last."""
        sure, equal = 0, among
        for plane in reversed(self._planes):
            high = equal & plane
            if not high:
                continue
            count = sure.bit_count() + high.bit_count()
            if count > wanted:
                equal = high
            else:
                sure |= high
                equal ^= high
                if count == wanted:
                    return Best(sure, 0)
        return Best(sure, equal)
