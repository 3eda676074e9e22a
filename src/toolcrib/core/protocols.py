"""Every seam of Toolcrib in one file: what can be plugged in, and who is to blame when it fails.

Guards (`Gate`, `ToolPolicy`, `Approver`, a `Store` that keeps the trail) fail closed: what they
raise refuses the call. Observers (`Exporter`) cannot change an outcome: what they raise is counted
and logged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from toolcrib.core.approval import ApprovalDecision, ApprovalRequest, Grant, RequestState
from toolcrib.core.chain import Block
from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Decision
from toolcrib.core.events import Event
from toolcrib.core.principal import Principal
from toolcrib.core.profile import Profile
from toolcrib.core.result import ToolResult
from toolcrib.core.sandbox import Child, Completed, Isolation, SandboxLimits, SelfTest
from toolcrib.core.spec import ToolSpec

if TYPE_CHECKING:
    from toolcrib.core.entry import Execute
    from toolcrib.core.ledger import LedgerCall, SessionRow

JsonValue = Any
NO_LIMITS = SandboxLimits()


class Gate(Protocol):
    """Answers allow, ask, deny or abstain. Synchronous, pure and quick.

    `check` runs for every call and for every `explain`. An exception, None, an awaitable or
    anything but a `Decision` is `guard_failed`: the call is refused.
    """

    name: str

    def visible(self, spec: ToolSpec, principal: Principal, profile: Profile | None) -> bool:
        """Whether the tool is listed at all; what is not listed cannot be called."""
        ...

    def check(self, ctx: ToolContext) -> Decision: ...


class Extension:
    """Wraps executions. Override `before_execute` and `after_execute`, or `__call__`.

    Raising before the tool ran refuses the call (`guard_failed`). Raising afterwards is logged
    and never hides that the tool ran.
    """

    priority: int = 50
    """Smaller runs further outside."""

    async def before_execute(self, ctx: ToolContext) -> None:
        """Before each attempt."""

    async def after_execute(self, ctx: ToolContext, result: ToolResult) -> ToolResult:
        """After each attempt; what it returns takes the result's place."""
        return result


class Workshop(Protocol):
    """What the host lends to whoever builds a tool: executors, providers and templates."""

    @property
    def folder(self) -> Path:
        """Where relative paths begin: the folder of the configuration, or the process's own."""
        ...

    @property
    def hidden(self) -> tuple[Path, ...]:
        """Files and folders of the host's own that nothing in a sandbox may see."""
        ...

    @property
    def guarded(self) -> tuple[Path, ...]:
        """Files and folders that rules and tools come from: they may be read and never changed."""
        ...

    def sandbox(self, name: str | None = None, *, folder: bool = True) -> Sandbox:
        """The sandbox of that name in the configuration; without a name, the strict built-in one,
        which shows the configuration's folder unless `folder` is false.

        Raises `ConfigError` for a name that does not exist. What it gives can be used at any time
        later: a sandbox that did not pass its self-test answers `sandbox_unavailable`.
        """
        ...

    def file(self, path: str) -> Path:
        """A path of the configuration, made absolute."""
        ...

    def root(self, path: str | Path) -> Path:
        """Where a path that a policy names leads, without links: ask when the tool is built, and
        again for every call. It is what it was the first time; `Denial` with `path_outside_root`
        once somebody put a link on the way."""
        ...

    def keep_secret(self, text: str) -> None:
        """Hide a text wherever it appears from now on: a token that was fetched, for instance."""
        ...


@runtime_checkable
class Executor(Protocol):
    """Runs calls of one kind.

    Returns JSON values or a `ToolResult`. `Denial` and `ToolFailure` are the tool's own words;
    any other exception is `unexpected_failure`, its text goes to the log only. Cancelling
    `execute` must stop the work, or set `ctx.still_running`.

    An executor may have `bind(spec, workshop)`, which reads a spec's `config` once, when the tool
    is registered: it raises `SpecError` (with `key` inside `config`, and the cure) for a wrong one
    and returns what runs the calls in place of `execute`. That may have `check(ctx)`, pure and
    quick, which raises `Denial` for arguments it would refuse: it is asked before people are, and
    by `explain`. An executor that holds something open has `async aclose()`.
    """

    kind: str

    async def execute(self, ctx: ToolContext) -> JsonValue | ToolResult: ...


@runtime_checkable
class Binder(Protocol):
    """An executor that reads a spec's `config` once."""

    kind: str

    def bind(self, spec: ToolSpec, workshop: Workshop) -> Execute: ...


class Provider(Protocol):
    """A live source of tools that also runs them. One that fails never delays the others.

    Entering it connects; leaving it lets go. Every exception from entering, listing or `health`
    means that it is down: its tools stay listed as unavailable and it is tried again later.
    A provider may have `async health()`, which raises when it is down; `follow(changed)`, which
    has it call `changed()` when its tools are not what they were, or when it noticed that it is
    down; `problems`, sentences about tools that it could not list; `known_tools()`, which says
    without connecting what it will list; and `async forget(session_id)`, which drops what it
    keeps for a session that ended.
    """

    name: str
    kind: str

    async def __aenter__(self) -> Provider: ...
    async def __aexit__(self, *exc: object) -> None: ...
    async def list_tools(self) -> Sequence[ToolSpec]: ...
    async def execute(self, ctx: ToolContext) -> JsonValue | ToolResult: ...


class Loader(Protocol):
    """Reads specs from somewhere once. Raises `ConfigError` with file and line."""

    async def load(self) -> Sequence[ToolSpec]: ...


class Approver(Protocol):
    """Answers for a person. Raising, nonsense or silence is a no."""

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision: ...


class Sandbox(Protocol):
    """Where commands run. `isolates` says honestly what it keeps apart.

    `run` never raises for something the command did. It raises `ToolFailure` with the reason
    `sandbox_unavailable` when the sandbox cannot be had, and `OSError` when the command cannot be
    started. Cancelling it kills the command and everything that command started.
    """

    name: str
    type: str
    """The backend: `subprocess`, `bubblewrap`, `landlock`, `container`, or a plug-in's."""
    isolates: frozenset[Isolation]

    async def probe(self) -> SelfTest:
        """Try it: whether it can be used here, and what it really isolates."""
        ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        limits: SandboxLimits = NO_LIMITS,
        stdin: bytes | None = None,
        read: Sequence[str] = (),
        write: Sequence[str] = (),
        on_output: Callable[[bytes], None] | None = None,
    ) -> Completed:
        """Run a command to its end. `read` and `write` are further paths for this command;
        `on_output` is told of standard output as it comes."""
        ...

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        limits: SandboxLimits = NO_LIMITS,
        read: Sequence[str] = (),
        write: Sequence[str] = (),
    ) -> Child:
        """Start a command that is talked to over its streams."""
        ...


class Exporter(Protocol):
    """Carries events elsewhere. `inline` ones are called at once, `queued` ones in batches;
    a full queue drops the oldest and counts them."""

    mode: Literal["inline", "queued"]

    async def export(self, batch: Sequence[Event]) -> None: ...


class Transport(Protocol):
    """A door: decodes requests, hands them to the host, encodes results."""

    name: str

    async def serve(self, host: Any, *, ready: Callable[[], None]) -> None: ...


class TrailSource(Protocol):
    """Where a store gets the records that a transaction has to carry.

    `take` gives the waiting records as one block, or None. Called from the store's own thread
    with a transaction open, in which the block's `steps` are made in the ledger too; then exactly
    one of `done` and `failed` follows.
    """

    def take(self) -> Block | None: ...
    def done(self, block: Block) -> None: ...
    def failed(self, block: Block, error: BaseException) -> None: ...


class Store(Protocol):
    """Where things are kept. Every method may be awaited from any loop or thread.

    Every transaction first carries the trail's waiting records, so a state change and the record
    of it reach the disk together. Raises `StoreError`; a caller that needs the store then refuses.
    """

    name: str
    durable: bool
    """Whether what was committed survives the process."""

    @property
    def path(self) -> Path | None:
        """The file it keeps things in, if it is one; the trail's key lies beside it."""
        ...

    def attach(self, trail: TrailSource) -> None:
        """Take records from `trail` with every transaction."""
        ...

    def poke(self, *, now: bool) -> None:
        """Have a transaction carry the waiting records: at once, or within 50 ms. Never blocks."""
        ...

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    async def flush(self) -> None:
        """Have the waiting records written, and wait for it."""
        ...

    async def blocks(
        self, *, after: int = 0, limit: int = 100, run: str | None = None
    ) -> list[tuple[int, Block]]:
        """Blocks in writing order with their positions, beginning behind position `after`."""
        ...

    async def runs(self) -> list[str]:
        """The writers' runs, oldest first."""
        ...

    async def put_request(self, request: ApprovalRequest) -> ApprovalRequest:
        """Keep a new request; when an unanswered or unused one has the same key, give that one."""
        ...

    async def get_request(self, id: str) -> ApprovalRequest | None: ...

    async def requests(
        self, *, state: RequestState | None = None, limit: int = 1000
    ) -> list[ApprovalRequest]:
        """Requests, those that expire first in front."""
        ...

    async def answer_request(self, request: ApprovalRequest, *, grant: Grant | None = None) -> bool:
        """Replace a pending, unexpired request by its answered form, and keep the grant with it.
        False when it was answered or has expired already."""
        ...

    async def redeem_request(self, id: str, *, key: str, call_id: str, now: float) -> bool:
        """Use an allowed request for one call: true for exactly one caller, ever."""
        ...

    async def expire_request(self, id: str, now: float) -> bool:
        """Mark a pending request as expired."""
        ...

    async def put_grant(self, grant: Grant) -> None: ...
    async def grants(self, *, live: bool = True) -> list[Grant]: ...
    async def revoke_grant(self, id: str, now: float) -> bool: ...

    async def put_session(self, session: SessionRow) -> None: ...
    async def end_session(self, id: str, now: float) -> bool: ...
    async def sessions(self, *, open_only: bool = True) -> list[SessionRow]: ...

    async def put_call(self, call: LedgerCall) -> bool:
        """Enter a durable call; False when the idempotency key or id is known already."""
        ...

    async def get_call(self, id: str) -> LedgerCall | None: ...
    async def calls(self, *, state: str | None = None, limit: int = 100) -> list[LedgerCall]: ...

    async def claim_call(self, id: str, *, lease_until: float, now: float) -> int | None:
        """Take a ready call to run it; the fence to finish it with, or None when it is taken."""
        ...

    async def renew_call(self, id: str, *, fence: int, lease_until: float) -> bool: ...

    async def finish_call(
        self, id: str, *, fence: int, state: str, result: bytes | None, now: float
    ) -> bool:
        """End a call; False when the fence is not the newest."""
        ...

    async def move_call(self, id: str, *, old: str, new: str, now: float) -> bool:
        """Change the state of a call that is in `old`."""
        ...

    async def sweep_calls(self, now: float) -> list[LedgerCall]:
        """Put calls whose lease ran out where their delivery says: ready or outcome_unknown."""
        ...

    async def wait(self, *, timeout: float) -> bool:
        """Sleep until another writer may have changed something; True when something did."""
        ...
