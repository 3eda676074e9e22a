"""Running git itself, with nothing of the host's and nothing of the repository's around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolcrib.core.context import ToolContext
from toolcrib.core.protocols import Sandbox
from toolcrib.core.sandbox import Completed, SandboxLimits
from toolcrib.core.units import duration
from toolcrib.errors import ToolFailure
from toolcrib.tools.git.config import Settings, read
from toolcrib.tools.git.policy import GitPolicy
from toolcrib.tools.git.repository import Repository

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
_NOWHERE = "/dev/null"
_SMALL = 1 << 20
_ENVIRONMENT: Mapping[str, str] = {
    "PATH": SEARCH_PATH,
    "HOME": _NOWHERE,
    "XDG_CONFIG_HOME": _NOWHERE,
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": _NOWHERE,
    "GIT_CONFIG_GLOBAL": _NOWHERE,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PROTOCOL_FROM_USER": "0",
    # Nothing may be fetched or pushed: no protocol has this name. A push names its own.
    "GIT_ALLOW_PROTOCOL": "-",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_ADVICE": "0",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Git:
    """Git on one repository, for one call."""

    ctx: ToolContext
    policy: GitPolicy
    sandbox: Sandbox
    repository: Repository
    own: tuple[Path, ...] = ()
    """The host's own files, which git must leave alone; without links."""
    guarded: tuple[Path, ...] = ()
    """What rules and tools come from, which git must not change."""
    settings: Settings = field(default_factory=lambda: Settings(values=(), filters=frozenset()))

    async def prepared(self) -> Git:
        """The same with the repository's configuration read, and made harmless from here on."""
        listed = await self._run(["config", "--list", "-z"], limit=_SMALL)
        if listed.stopped or listed.exit_code != 0:
            raise self.failure("config", listed)
        return self.on(self.repository, read(listed.stdout))

    def on(self, repository: Repository, settings: Settings | None = None) -> Git:
        """The same on another worktree."""
        return Git(
            ctx=self.ctx,
            policy=self.policy,
            sandbox=self.sandbox,
            repository=repository,
            own=self.own,
            guarded=self.guarded,
            settings=settings or self.settings,
        )

    async def text(self, action: str, *arguments: str) -> str:
        """What a git command says that says little; `ToolFailure` when it does not end well."""
        ended = await self._run(arguments, limit=_SMALL)
        if ended.stopped or ended.exit_code != 0:
            raise self.failure(action, ended)
        return ended.stdout.decode("utf-8", "replace")

    async def done(
        self,
        action: str,
        *arguments: str,
        stdin: str | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Completed:
        """A git command that has to end well."""
        data = None if stdin is None else stdin.encode()
        ended = await self._run(arguments, limit=_SMALL, stdin=data, more=more, writing=True)
        if ended.stopped or ended.exit_code != 0:
            raise self.failure(action, ended)
        return ended

    async def asked(self, *arguments: str) -> str | None:
        """The answer to a question that git may answer with no."""
        ended = await self._run(arguments, limit=_SMALL)
        return None if ended.exit_code else ended.stdout.decode("utf-8", "replace").strip()

    async def shown(self, action: str, *arguments: str) -> tuple[str, bool]:
        """As much of what a git command says as may be shown; whether that is not all. Git is
        stopped as soon as there is more."""
        most = self.policy.max_output_chars
        ended = await self._run(arguments, limit=most * 4)
        cut = ended.stopped == "output"
        if not cut and (ended.stopped or ended.exit_code != 0):
            raise self.failure(action, ended)
        text = ended.stdout.decode("utf-8", "replace")
        return text[:most], cut or len(text) > most

    async def _run(
        self,
        arguments: Sequence[str],
        *,
        limit: int,
        stdin: bytes | None = None,
        more: Mapping[str, str] | None = None,
        writing: bool = False,
    ) -> Completed:
        places, root = self.repository, str(self.repository.root)
        env = {
            **_ENVIRONMENT,
            "GIT_DIR": str(places.git_dir),
            "GIT_COMMON_DIR": str(places.common_dir),
            "GIT_WORK_TREE": str(places.folder),
            "GIT_AUTHOR_NAME": self.policy.author_name,
            "GIT_AUTHOR_EMAIL": self.policy.author_email,
            "GIT_COMMITTER_NAME": self.policy.author_name,
            "GIT_COMMITTER_EMAIL": self.policy.author_email,
            **_as_variables(self.settings.overrides()),
            **(more or {}),
        }
        time = duration(self.policy.timeout)
        remaining = self.ctx.remaining
        limits = SandboxLimits(
            time=time if remaining is None else min(time, remaining), output=limit
        )
        try:
            return await self.sandbox.run(
                ["git", "--no-pager", *arguments],
                cwd=str(places.folder),
                env=env,
                limits=limits,
                stdin=stdin,
                read=() if writing else (root,),
                write=(root,) if writing else (),
            )
        except FileNotFoundError:
            raise ToolFailure(
                "git is not installed where this tool looks for it", reason="tool_unavailable"
            ) from None

    def failure(self, action: str, ended: Completed) -> ToolFailure:
        """Why a git command did not end well, in git's own words without places of the host."""
        if ended.stopped == "time":
            return ToolFailure(f"git {action} took too long and was stopped", reason="timeout")
        said = ended.stderr.decode("utf-8", "replace").replace(str(self.repository.root), ".")
        plain = "".join(c if c.isprintable() else " " for c in said).strip()
        text = plain[:500] or (f"stopped by its {ended.stopped} limit" if ended.stopped else "")
        return ToolFailure(
            f"git {action} failed: {text or f'exit code {ended.exit_code}'}",
            reason=f"git_{action}_failed",
        )


def _as_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings for git as variables: unlike `-c`, they can carry every name."""
    env = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        env[f"GIT_CONFIG_KEY_{number}"] = key
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    return env
