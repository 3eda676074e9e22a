"""Whether a configuration can be used."""

from __future__ import annotations

from pathlib import Path

import msgspec

from toolcrib.errors import ConfigError
from toolcrib.host.reports.project import counted, project_of


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One mistake."""

    file: str | None
    line: int | None
    column: int | None
    key: str | None
    message: str
    cure: str | None

    def __str__(self) -> str:
        return str(
            ConfigError(
                self.message, file=self.file, line=self.line, column=self.column, cure=self.cure
            )
        )


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a configuration."""

    path: str
    problems: tuple[Problem, ...] = ()
    counted: str | None = None
    """What is in it, when it can be used."""

    @property
    def ok(self) -> bool:
        """Whether it can be used."""
        return not self.problems


def check_settings(path: Path) -> Checked:
    """Read everything and load every tool."""
    try:
        return Checked(path=str(path), counted=counted(project_of(path).host()))
    except ConfigError as error:
        problems = tuple(
            Problem(
                file=mistake.file,
                line=mistake.line,
                column=mistake.column,
                key=mistake.key,
                message=mistake.message,
                cure=mistake.cure,
            )
            for mistake in error.all()
        )
        return Checked(path=str(path), problems=problems)
