"""What became of each entry of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolcrib.core.settings import HostConfig
from toolcrib.errors import ConfigError
from toolcrib.host.reports.fates import Fate, of_entry, of_spec
from toolcrib.host.reports.project import Project, run
from toolcrib.host.reports.quiet import no_compiled_files, stdout_is_talk
from toolcrib.host.reports.words import many

if TYPE_CHECKING:
    from toolcrib.host.host import ToolHost
    from toolcrib.host.loaders import LoadReport
    from toolcrib.host.provider_settings import ProviderStatus

_HIDDEN = "the source cannot be used; a variable names it, so it is not shown"


def check_tools(project: Project) -> list[Fate]:
    """Every entry of the configuration, each on its own, then all of them together."""
    check = _Check(project)
    with stdout_is_talk(), no_compiled_files():
        check.tools()
        check.whole()
        check.providers()
    return check.fates


class _Check:
    def __init__(self, project: Project) -> None:
        self.fates: list[Fate] = []
        self._project = project
        self._bench, boxes = _bench(project.config)
        settings = replace(project.config.settings, profile=None)
        self._alone = HostConfig(
            settings=settings,
            sandboxes=boxes,
            plugins=project.config.plugins,
            secrets=project.config.secrets,
        )
        """What every entry may use, and nothing that could be wrong."""
        self._usable: list[dict[str, Any]] = []
        """The items of which nothing is wrong."""
        self._provided: dict[str, Any] = dict(project.config.providers)

    def tools(self) -> None:
        """The items of `tools:` one by one, and what they load."""
        for item in self._project.config.tools:
            before = len(self.fates)
            place = str(item.get("source") or self._project.path)
            if item.get("enabled") is False:
                self.fates.append(Fate(place, item.get("name"), "ok", "switched off"))
            elif "load" in item:
                self._load(item, place)
            else:
                self._build(item, place)
            if all(fate.fate != "fail" for fate in self.fates[before:]):
                self._usable.append(item)

    def _build(self, item: Mapping[str, Any], place: str, secret: bool = False) -> None:
        from toolcrib.host.expanding import placed
        from toolcrib.host.items import entries_of

        try:
            self.fates += [of_entry(place, entry) for entry in entries_of(self._bench, item)]
        except ConfigError as error:
            name = item.get("name") or item.get("template")
            self._failed(place, name, placed(error, item), secret)

    def _load(self, item: Mapping[str, Any], place: str) -> None:
        """Every entry of what an item loads, also of an address or a database."""
        from toolcrib.host.loaders import loader_for

        source = str(item["load"])
        # A source that a variable names is a secret, and so is every place in it.
        secret = any(each in source for each in self._alone.secrets)
        try:
            report = run(loader_for(item, str(item.get("base") or ".")).load_all())
        except ConfigError as error:
            self._failed(place, None if secret else source, error, secret)
            return
        self._alone = replace(self._alone, secrets=self._alone.secrets | report.secrets)
        self._report(report, place, secret)

    def _report(self, report: LoadReport, place: str, secret: bool) -> None:
        for fate in report.entries:
            where = place if secret else fate.source
            if fate.problem is not None:
                self._failed(where, None if secret else fate.name, fate.problem, secret)
            elif fate.provider is not None:
                self._provided.setdefault(fate.name, fate.provider)
            elif fate.item is not None and (fate.spec is None or "python" not in fate.item):
                self._build(fate.item, where, secret)
            elif fate.spec is not None:
                self.fates.append(of_spec(where, fate.spec))
            else:
                self.fates.append(Fate(where, fate.name, "ok", "switched off"))

    def _failed(
        self, place: str, name: str | None, error: ConfigError, secret: bool = False
    ) -> None:
        from toolcrib.host.config.reading import conceal

        for mistake in error.all():
            conceal(mistake, self._alone.secrets)
            whole = secret and (mistake.line or 1) == 1
            if secret:
                mistake.file = mistake.line = mistake.column = None
            self.fates.append(Fate(place, name, "fail", _HIDDEN if whole else str(mistake)))

    def whole(self) -> None:
        """All that is right by itself, together, and the rest of the configuration."""
        config = self._project.config
        failed = len(self._usable) < len(config.tools)
        # Where a tool is missing, rules that name it are not to blame.
        blameless = {f"profiles.{name}" for name in config.profiles if failed}
        try:
            _loaded(replace(config, tools=tuple(self._usable)))
        except ConfigError as error:
            self.fates += [
                Fate(mistake.where or str(self._project.path), None, "fail", str(mistake))
                for mistake in error.all()
                if mistake.key not in blameless
            ]

    def providers(self) -> None:
        """Every provider after an attempt to start it, unless it cannot be built."""
        project, given = self._project, self._provided
        if not given:
            return
        if any(fate.fate == "fail" for fate in self.fates):
            good = {name: each for name, each in given.items() if self._buildable(name)}
            project = replace(project, config=replace(self._alone, providers=good))
        for status in project.look(lambda host: host.sources.status(warnings=True)):
            if status.name in given:
                place: Mapping[str, Any] = given[status.name].get("place") or {}
                where = str(place.get("source") or self._project.path)
                self.fates.append(_provider(where, status))

    def _buildable(self, name: str) -> bool:
        try:
            _loaded(replace(self._alone, providers={name: self._provided[name]}))
        except ConfigError:
            return False  # loading the whole has said why
        return True


def _bench(config: HostConfig) -> tuple[ToolHost, dict[str, Any]]:
    """A host to build tools in one by one, with plug-ins and sandboxes, and the sandboxes as
    configured. One that is wrong is not there; loading the whole says why."""
    from toolcrib.host.host import ToolHost
    from toolcrib.host.plugins import load_plugins
    from toolcrib.host.workshop import Workshop, build_sandboxes

    host = ToolHost()
    host.registrar, _ = host.registrar.renew(config.plugins)
    load_plugins(host.registrar)
    host.entries.executors.update(host.registrar.executors)
    own = host.own_files
    own.note_config(config)
    boxes, _ = build_sandboxes(config.sandboxes, host.registrar.sandboxes, own)
    host.entries.workshop = lambda folder: Workshop(boxes, folder, own)
    return host, {name: box for name, box in config.sandboxes.items() if name in boxes.named}


def _loaded(config: HostConfig) -> None:
    """Load a configuration. Raises `ConfigError` with every mistake."""
    from toolcrib.host.host import ToolHost

    ToolHost(config=config).load()


def _provider(place: str, status: ProviderStatus) -> Fate:
    if status.state not in ("up", "open"):
        why = f": {status.error}" if status.error else ""
        return Fate(place, None, "fail", f"provider {status.name} is {status.state}{why}")
    text = f"provider {status.name}: {many(status.tools, 'tool')}"
    if not status.problems:
        odd = "".join(f"; {warning}" for warning in status.warnings)
        return Fate(place, None, "warn" if odd else "ok", text + odd)
    problems = "; ".join((*status.problems, *status.warnings))
    if status.quarantined:
        held = f"{len(status.quarantined)} quarantined"
        return Fate(place, None, "warn", f"{text}; {held}: {problems}")
    return Fate(place, None, "warn", f"{text}; {len(status.problems)} cannot be used: {problems}")
