"""Verification as a whole: every profile, every tool, every invariant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib.core.settings import HostConfig
from toolcrib.errors import ConfigError
from toolcrib.host.host import ToolHost
from toolcrib.host.verify.invariants import Invariants, NeverWiden, read_invariants
from toolcrib.host.verify.lint import lint_knobs, lint_rules
from toolcrib.host.verify.never import Breach, concerns_profile, concerns_tool
from toolcrib.host.verify.probe import Prober, code_of, profiles_of, subjects
from toolcrib.host.verify.report import Finding, Report
from toolcrib.host.verify.widen import Widening

Configuration = ToolHost | HostConfig | str | Path | Mapping[str, Any]


def verify(
    configuration: Configuration,
    invariants: Invariants | str | Path | Mapping[str, Any] | None = None,
) -> Report:
    """Look for calls that break the invariants, and for rules and knobs that make no sense.

    What the closed rules of profiles say is proved for every caller and all arguments. Each
    counter-example is put to the real decision. The code of policies is tested, not proved.
    """
    host = opened(configuration)
    if not isinstance(invariants, Invariants):
        invariants = Invariants() if invariants is None else read_invariants(invariants)
    return _Verification(host).run(invariants)


def opened(configuration: Configuration) -> ToolHost:
    """A host with its configuration loaded."""
    if isinstance(configuration, ToolHost):
        configuration.load()
        return configuration
    host = ToolHost(config=configuration)
    host.load()
    return host


class _Verification:
    def __init__(self, host: ToolHost) -> None:
        self.host = host
        self.prober = Prober(host)
        self.subjects = subjects(host)
        self.profiles = profiles_of(host)
        self.findings: list[Finding] = []
        self.tested: set[str] = set()
        self.notes: list[str] = []
        self.asked = 0

    def run(self, invariants: Invariants) -> Report:
        config = self.host.config
        if not config.profiles:
            self.notes.append("there are no profiles, so every call is allowed")
        for never in invariants.never:
            for profile in self.profiles:
                if not concerns_profile(never, profile):
                    continue
                held = [(subject.under(profile), profile) for subject in self.subjects]
                code = code_of(self.host, profile)
                for subject, rules in held if code is None else [*held, code]:
                    if concerns_tool(never, subject):
                        breach = Breach(self.prober, never, rules, subject)
                        self._note(breach.find(), breach.by_code, subject.name)
        for demand in invariants.never_widen:
            self._widened(demand)
        if config.profiles:
            self.findings += lint_rules(config, self.profiles, self.subjects)
        self.findings += lint_knobs(self.profiles, self.subjects)
        return Report(
            findings=tuple(self.findings),
            profiles=len(config.profiles),
            tools=len(self.subjects),
            invariants=len(invariants.never) + len(invariants.never_widen),
            decisions=self.prober.asked + self.asked,
            tested=tuple(sorted(self.tested)),
            notes=tuple(self.notes),
        )

    def _note(self, found: Finding | None, by_code: bool, tool: str) -> None:
        if found is not None:
            self.findings.append(found)
        elif by_code:
            self.tested.add(tool)

    def _before(self, file: Path) -> ToolHost:
        """A host with the other configuration, and the tools that came from no configuration."""
        host = ToolHost(config=file)
        for subject in self.subjects:
            if subject.entry.name not in self.host.configured:
                host.register(subject.entry)
        return opened(host)

    def _widened(self, demand: NeverWiden) -> None:
        try:
            before = self._before(demand.file)
        except ConfigError as error:
            message = f"never_widen: {error}"
            file, _, line = (demand.source or "").rpartition(":")
            place = int(line) if line.isdigit() else None
            raise ConfigError(message, file=file or None, line=place) from None
        old = Prober(before)
        was = {subject.name: subject for subject in subjects(before)}
        profiles = before.config.profiles
        new = [name for name in self.host.config.profiles if name not in profiles]
        if new:
            listed = ", ".join(new[:5]) + (", …" if len(new) > 5 else "")
            text = f"{demand.file.name} has no profile {listed}: not compared"
            self.notes.append(text)
        for profile in self.host.config.profiles.values():
            if profile.name not in profiles:
                continue
            for subject in self.subjects:
                widening = Widening(
                    self.prober,
                    old,
                    demand,
                    profile,
                    profiles[profile.name],
                    subject,
                    was.get(subject.name),
                )
                self._note(widening.find(), widening.by_code, subject.name)
        self.asked += old.asked
