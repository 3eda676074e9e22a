"""Who calls, as whom, and held to which profile."""

from __future__ import annotations

from typing import NamedTuple

from toolcrib.core.context import LOCAL
from toolcrib.core.principal import Principal
from toolcrib.core.profile import Profile
from toolcrib.core.settings import HostConfig
from toolcrib.errors import NotFound
from toolcrib.host.session import Session

_MOST_NAMES = 1000


class Caller(NamedTuple):
    """Who calls, resolved."""

    who: Principal
    profile: str | None
    session: Session | None
    problem: str | None
    """Why nothing can be called so; None when it can."""
    reason: str
    """The reason that goes with the problem."""


class Callers:
    """Resolves what a caller says about itself against the configuration."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self._config = HostConfig()
        self._configured: dict[int, Principal] = {}
        """Every principal that a configuration ever described."""
        self._named: dict[str, Principal] = {}
        """Callers that were given by name only; the same object each time."""

    def renew(self, config: HostConfig) -> None:
        """Take over a changed configuration; open sessions follow it."""
        self._config = config
        self._named = {}
        self._configured |= {id(who): who for who in config.principals.values()}
        for session in self.sessions.values():
            session.principal = self.current(session.principal)

    @property
    def default(self) -> str | None:
        """The profile of calls that name none; None when there are no profiles, or several and
        none of them was chosen."""
        if self._config.settings.profile is not None:
            return self._config.settings.profile
        profiles = self._config.profiles
        return next(iter(profiles)) if len(profiles) == 1 else None

    @property
    def restricted(self) -> bool:
        """Whether some principal may not choose any profile it likes."""
        return bool(self._config.principal_profiles) or self.default is None

    def principal(self, principal: Principal | str | None) -> Principal:
        """The caller; a name stands for the principal of that name in the configuration."""
        if principal is None:
            return self._config.principals.get("local", LOCAL)
        if not isinstance(principal, str):
            return principal
        known = self._config.principals.get(principal) or self._named.get(principal)
        if known is None:
            if len(self._named) >= _MOST_NAMES:
                self._named.clear()
            name = principal.encode("utf-8", "backslashreplace").decode()
            known = self._named[principal] = Principal(name or "nobody")
        return known

    def session(
        self, session: Session | str | None, who: Principal | None = None
    ) -> Session | None:
        """The session, which must be open and, where `who` asks for it, theirs. Raises `NotFound`,
        which says the same of somebody else's as of one that never was."""
        if session is None:
            return None
        found = self.sessions.get(session) if isinstance(session, str) else session
        if found is None or (who is not None and found.principal.name != who.name):
            named = session if isinstance(session, str) else session.id
            raise NotFound(f"the caller has no session {named!r}")
        if found.closed:
            raise NotFound(f"the session {found.id} has ended")
        if found.over:
            raise NotFound(f"the session {found.id} has expired; open another one")
        found.touch()
        return found

    def resolve(
        self, principal: Principal | str | None, profile: str | None, session: Session | str | None
    ) -> Caller:
        """Everything a caller said about itself, held against the configuration. The profile is
        the one named, the session's, or the default."""
        asking = None if principal is None else self.principal(principal)
        try:
            held = self.session(session, asking)
        except NotFound as error:
            who = asking or self.principal(None)
            return Caller(who, profile, None, str(error), "unauthenticated")
        who = held.principal if held is not None else asking or self.principal(None)
        if profile is None and held is not None:
            profile = held.profile
        chosen = self.default if profile is None else profile
        return Caller(who, chosen, held, self.problem(who, chosen), "not_in_profile")

    def profile(self, name: str | None) -> Profile | None:
        """The rules of a profile."""
        return None if name is None else self._config.profiles.get(name)

    def problem(self, who: Principal, profile: str | None) -> str | None:
        """Why this caller cannot be held to this profile; None when it can."""
        profiles = self._config.profiles
        if profile is None:
            if not profiles:
                return None
            return (
                f"there are several profiles ({', '.join(profiles)}) and none was chosen; "
                "name one, or set host.profile"
            )
        if profile not in profiles:
            return f"there is no profile {profile!r}; known: {', '.join(profiles) or 'none'}"
        allowed = self._config.principal_profiles.get(who.name)
        stranger = self._named.get(who.name) is who  # a name that nobody vouches for
        if stranger and self._config.principal_profiles and profile != self.default:
            return f"{who.name} is not among the principals, so it may not choose a profile"
        if allowed is not None and profile not in allowed:
            return f"{who.name} may not use the profile {profile}"
        return None

    def current(self, who: Principal) -> Principal:
        """What the configuration says of this caller today, if it was the configuration that said
        who it is. One that was taken out of it has nothing left but its name."""
        if id(who) not in self._configured:
            return who
        return self._config.principals.get(who.name) or self.principal(who.name)
