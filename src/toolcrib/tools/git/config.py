"""The repository's own configuration, made harmless.

Whoever made a repository wrote its configuration. Settings with fixed names that run programs are
overridden for every run of git. Filters have names of their own, so they are read and overridden
one by one. What cannot be overridden is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from toolcrib.errors import Denial

SAFE: Mapping[str, str] = {
    # what would run programs
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.editor": "false",
    "sequence.editor": "false",
    "core.askPass": "",
    "core.sshCommand": "ssh -oBatchMode=yes",
    "core.alternateRefsCommand": "true",
    "credential.helper": "",
    "diff.external": "",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
    "gpg.ssh.program": "false",
    "gpg.ssh.defaultKeyCommand": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "push.gpgSign": "false",
    "log.showSignature": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.ext.allow": "never",
    # what would go into submodules, which have a configuration of their own
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "status.submoduleSummary": "false",
    "diff.submodule": "short",
    "diff.ignoreSubmodules": "dirty",
    # what would read files from elsewhere into the output
    "mailmap.file": "/dev/null",
    # what would change the form of the output
    "color.ui": "false",
    "core.quotePath": "false",
    "log.mailmap": "false",
    "blame.coloring": "none",
    "blame.showEmail": "false",
    "advice.detachedHead": "false",
}
RECEIVE = (
    "git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.alternateRefsCommand=true "
    "-c receive.denyCurrentBranch=refuse -c receive.autogc=false -c gc.auto=0 receive-pack"
)
"""How the other side of a push to a folder on this machine is run: its hooks do not."""
_HTTP_HARMLESS = ("extraheader", "postbuffer", "version", "lowspeedlimit", "lowspeedtime")
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::").match


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """A repository's configuration, as far as this tool needs to know it."""

    values: tuple[tuple[str, str], ...]
    filters: frozenset[str]

    def has(self, key: str) -> bool:
        """Whether a setting, written in small letters, is there."""
        return any(name == key for name, _ in self.values)

    def overrides(self) -> dict[str, str]:
        """What every run of git is told instead."""
        quiet = dict(SAFE)
        for name in self.filters:
            for part in ("clean", "smudge", "process"):
                quiet[f"filter.{name}.{part}"] = ""
            quiet[f"filter.{name}.required"] = "false"
        return quiet

    def must_store_as_is(self) -> None:
        """Refuse to move contents in or out while filters are set: without them what is stored
        would not be what the repository means."""
        if self.filters:
            words = f"its configuration has the filters {sorted(self.filters)}, which are not run"
            raise Denial("unsafe_repository", f"nothing is changed: {words[:300]}")

    def push_protocol(self, remote: str) -> tuple[str, list[str]]:
        """The one protocol of a remote, and its addresses. Refused when settings would lead a
        push elsewhere or through a program."""
        for key, _ in self.values:
            section, _, name = _parts(key)
            odd = section == "http" and name not in _HTTP_HARMLESS
            if section == "url" or odd or key in (f"remote.{remote}.vcs", f"remote.{remote}.proxy"):
                raise Denial("unsafe_repository", f"nothing is pushed while {key[:80]!r} is set")
        named = [v for k, v in self.values if k == f"remote.{remote}.pushurl"]
        named = named or [v for k, v in self.values if k == f"remote.{remote}.url"]
        protocols = {protocol(url) for url in named}
        if len(protocols) != 1 or None in protocols:
            words = "has no address" if not named else "has an address that is not used here"
            raise Denial("remote_not_allowed", f"the remote {remote} {words}")
        return str(protocols.pop()), named


def read(listed: bytes) -> Settings:
    """The answer of `git config --list -z`; `Denial` for what cannot be overridden."""
    values: list[tuple[str, str]] = []
    filters: set[str] = set()
    for item in listed.decode("utf-8", "surrogateescape").split("\0"):
        key, _, value = item.partition("\n")
        section, middle, name = _parts(key)
        if section == "includeif" or (section == "hook" and name == "command"):
            words = f"its configuration sets {key[:80]!r}, whose effect cannot be ruled out"
            raise Denial("unsafe_repository", f"the repository is not used: {words}")
        if section == "filter":  # the empty name is one too: `[filter ""]`
            filters.add(middle)
        if key:
            values.append((key, value))
    return Settings(values=tuple(values), filters=frozenset(filters))


def _parts(key: str) -> tuple[str, str, str]:
    section, _, rest = key.partition(".")
    middle, _, name = rest.rpartition(".")
    return section.lower(), middle, name.lower()


def protocol(url: str) -> str | None:
    """`https`, `ssh` or `file`; None for an address that is not pushed to."""
    if not url.isprintable() or not url or url.startswith("-") or _HELPER(url):
        return None
    scheme, found, rest = url.partition("://")
    if found:
        host = rest.rpartition("@")[2] if scheme == "ssh" else rest
        if host.startswith("-") or rest.startswith("-"):
            return None
        return scheme if scheme in ("https", "ssh", "file") else None
    before, colon, _ = url.partition(":")
    return "ssh" if colon and "/" not in before else "file"
