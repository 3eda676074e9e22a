"""One question at the terminal, from its first line to the key that answers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.approvals.editing import (
    NotArguments,
    as_arguments,
    as_text,
    editor,
    in_editor,
)
from toolcrib.approvals.keyboard import Keyboard, NoAnswer, Stop
from toolcrib.approvals.rendering import (
    KEYS,
    PastCall,
    asks,
    choices,
    keys,
    more,
    remaining,
    visible,
    written,
)
from toolcrib.core.approval import ApprovalDecision, ApprovalRequest

_WORDS = 300
"""Columns of one thing that is wrong with changed arguments."""


@dataclass(kw_only=True, slots=True)
class Prompt:
    """Waits for a key that counts. Whatever else is pressed changes nothing."""

    request: ApprovalRequest
    keyboard: Keyboard
    stop: Stop
    until: float
    """When the question is over, as `time.monotonic` tells it."""
    write: Callable[[str], None]
    clock: Callable[[], float]
    by: str
    problems: Callable[[dict[str, Any]], Sequence[str]]
    past: Callable[[], Sequence[PastCall] | None]
    screen: int | None
    """The descriptor of what the person sees, for an editor; None when there is none."""
    _edited: dict[str, Any] | None = field(default=None, init=False)
    _draft: str | None = field(default=None, init=False)
    """What the person wrote last, whether or not it could be used."""

    def answer(self) -> ApprovalDecision:
        """The person's answer. Raises `NoAnswer` when none will come."""
        request = self.request
        reaches = {KEYS[reach]: reach for reach in request.offered if reach in KEYS}
        self._ask()
        while True:
            key = self.keyboard.key(self.stop, self.until)
            if not key:
                continue
            if key in reaches:
                self.write(f"{key}\n")
                return ApprovalDecision(
                    answer="allow", reach=reaches[key], by=self.by, arguments=self._edited
                )
            if key == "n":
                return self._refusal()
            if key == "m":
                # All of it may be longer than the screen, so what is asked stands behind it again.
                self.write(f"{key}\n\n{more(request, self.past())}\n{asks(request)}\n")
                self._offer()
            elif key == "e" and request.edit:
                self.write(f"{key}\n")
                self._edit()
                self._offer()
            else:
                self.write(f"\n  {visible(key, 12)} does nothing; press {keys(request)}.\n")
            self._ask()

    def _ask(self) -> None:
        left = remaining(self.request.expires - self.clock())
        self.write(f"  Refused by itself in {left}.  > ")

    def _offer(self) -> None:
        if self._edited is not None:
            self.write(f"\n  To be run with\n  {written(self._edited)}\n\n")
        self.write(f"  {choices(self.request)}\n")

    def _refusal(self) -> ApprovalDecision:
        try:
            with self.keyboard.editing():
                self.write("n\n  A note for the model, or Enter for none: ")
                note = self.keyboard.line(self.stop, self.until)
        except (NoAnswer, KeyboardInterrupt):
            note = ""
            self.write("\n")
        return ApprovalDecision(answer="deny", note=note or None, by=self.by)

    def _edit(self) -> None:
        """Have the arguments changed; what cannot be used is told, and changes nothing."""
        try:
            text = self._written_anew()
            if text is None:
                return
            arguments = as_arguments(text)
            wrong = list(self.problems(arguments))
        except NotArguments as error:
            wrong = [str(error)]
            arguments = None
        if wrong or arguments is None:
            self.write("  The arguments cannot be used; e edits them again.\n")
            for words in wrong[:10]:
                self.write(f"    {visible(words, _WORDS)}\n")
            return
        same = arguments == self.request.arguments
        self._edited = None if same else arguments
        if same:
            self.write("  The arguments are as they were.\n")

    def _written_anew(self) -> str | None:
        """What the person made of the arguments; None when they are left as they are."""
        now = self._edited if self._edited is not None else self.request.arguments
        command = editor() if self.keyboard.is_terminal and self.screen is not None else None
        if command is not None and self.screen is not None:
            text = self._draft or as_text(now)
            self._draft = in_editor(
                command, text, self.keyboard, self.stop, self.until, self.screen
            )
            return self._draft
        self.write(f"  {as_text(now, None)}\n")
        with self.keyboard.editing():
            self.write("  The arguments as one line of JSON, or Enter to leave them: ")
            line = self.keyboard.line(self.stop, self.until)
        return line or None
