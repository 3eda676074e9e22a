"""Every way a call can end, in one table.

A reason is a stable snake_case code. Its row says what it means for every door: the
result's status, the HTTP status, the command line's exit code and whether trying again can
help. Nothing else in Toolcrib maps endings to numbers.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Status = Literal["ok", "error", "denied"]
"""How a call ended: it ran (`ok`), it failed (`error`), or it was refused (`denied`)."""

Retry = Literal["no", "yes", "if_idempotent", "as_told"]
"""Whether calling again can help; `as_told` leaves it to the tool."""


class Reason(NamedTuple):
    """One row: what an ending means on every door."""

    code: str
    status: Status
    http: int
    exit: int
    retry: Retry
    meaning: str

    def may_retry(self, repeatable: bool) -> bool:
        """Whether calling again can help, for a tool that may or may not be called twice."""
        return self.retry == "yes" or (self.retry == "if_idempotent" and repeatable)


def _table(*rows: tuple[str, Status, int, int, Retry, str]) -> dict[str, Reason]:
    return {row[0]: Reason(*row) for row in rows}


REASONS: dict[str, Reason] = _table(
    ("unknown_tool", "error", 404, 2, "no", "No tool of that name exists."),
    ("tool_disabled", "error", 404, 2, "no", "The tool exists but is switched off."),
    ("tool_unavailable", "error", 503, 1, "yes", "The tool's provider is down or not ready."),
    ("sandbox_unavailable", "error", 503, 5, "yes", "No acceptable sandbox passed its self-test."),
    ("host_stopping", "error", 503, 5, "yes", "The host is shutting down and starts no new call."),
    ("invalid_arguments", "error", 422, 2, "no", "The arguments do not fit the tool's schema."),
    ("unauthenticated", "denied", 401, 3, "no", "The caller could not be identified."),
    ("not_in_profile", "denied", 403, 3, "no", "No rule of the profile allows the tool."),
    ("denied_by_rule", "denied", 403, 3, "no", "A rule of the profile refuses the call."),
    ("role_required", "denied", 403, 3, "no", "The caller lacks a role or permission."),
    ("call_depth_exceeded", "denied", 403, 3, "no", "Tools called tools too deep."),
    ("loop_detected", "denied", 429, 3, "no", "The same call was repeated too often."),
    ("guard_failed", "denied", 403, 3, "no", "A guard failed, so the call was refused."),
    ("rate_limited", "denied", 429, 3, "yes", "Too many calls in the time allowed."),
    ("too_many_calls", "denied", 429, 3, "yes", "Too many calls at the same time."),
    ("quota_exceeded", "denied", 429, 3, "no", "The quota or budget is used up."),
    ("definition_changed", "denied", 409, 3, "no", "The tool is not what was agreed to."),
    ("approval_rejected", "denied", 403, 4, "no", "A person said no."),
    ("approval_expired", "denied", 403, 4, "yes", "Nobody answered in time."),
    ("awaiting_approval", "denied", 403, 4, "yes", "A person has to answer; then call again."),
    ("no_approver", "denied", 403, 4, "no", "Approval is needed and nobody can give it."),
    ("approval_backlog", "denied", 429, 4, "yes", "Too many approvals are waiting already."),
    ("audit_unavailable", "denied", 503, 5, "yes", "The trail cannot be written."),
    ("timeout", "error", 504, 1, "if_idempotent", "The tool did not finish in time."),
    ("cancelled", "error", 499, 1, "no", "The call was cancelled."),
    ("outcome_unknown", "error", 502, 1, "no", "The call started; how it ended is not known."),
    ("upstream_error", "error", 502, 1, "if_idempotent", "The system behind the tool failed."),
    ("invalid_output", "error", 502, 1, "no", "The tool's output breaks its own schema."),
    ("tool_error", "error", 200, 1, "as_told", "The tool ran and reported a failure."),
    ("sandbox_violation", "error", 200, 1, "no", "The command tried what its sandbox forbids."),
    ("unexpected_failure", "error", 500, 1, "no", "Something broke; the log has the details."),
    # What is wrong with a request that is no call, or never became one.
    ("not_json", "error", 400, 2, "no", "What was sent is not acceptable JSON."),
    ("not_a_request", "error", 400, 2, "no", "What was sent is not a request."),
    ("invalid_request", "error", 422, 2, "no", "A part of the request is missing or wrong."),
    ("unknown_method", "error", 404, 2, "no", "There is no such method or address."),
    ("method_not_allowed", "error", 405, 2, "no", "The address does not take this verb."),
    ("not_found", "error", 404, 2, "no", "There is nothing of that id for this caller."),
    ("not_permitted", "denied", 403, 3, "no", "The caller lacks the right to do this."),
    ("host_refused", "denied", 421, 3, "no", "The host is not served under that name."),
    ("origin_refused", "denied", 403, 3, "no", "Web pages of that origin may not call."),
    ("request_too_large", "error", 413, 2, "no", "The request is larger than may be."),
    ("head_too_large", "error", 431, 2, "no", "The request's head is larger than may be."),
    ("too_many_connections", "error", 503, 1, "yes", "Too many connections are open already."),
    ("request_timeout", "error", 408, 2, "yes", "The request did not arrive in time."),
    ("not_acceptable", "error", 406, 2, "no", "The client does not take the type of the answer."),
    ("unsupported_media", "error", 415, 2, "no", "The body is not of a type that is taken."),
    ("too_many_sessions", "denied", 429, 3, "yes", "The caller has too many open sessions."),
    ("too_many_viewers", "denied", 429, 3, "yes", "Too many event streams are open already."),
    ("slow_reader", "error", 503, 1, "yes", "The reader was too slow, so it was dropped."),
    ("key_reused", "error", 409, 2, "no", "The key stands for another call already."),
    ("answer_refused", "error", 409, 4, "no", "The answer does not count, or came too late."),
    (
        "config_rejected",
        "error",
        409,
        2,
        "no",
        "The new configuration is wrong.",
    ),
    ("client_gone", "error", 502, 1, "no", "The client that offers the tool went away."),
    # What policies say. A policy may use its own codes too: they behave like these.
    ("action_not_allowed", "denied", 403, 3, "no", "The policy does not allow this action."),
    ("argument_not_allowed", "denied", 403, 3, "no", "An argument breaks a rule's constraint."),
    ("branch_prefix_required", "denied", 403, 3, "no", "The branch lacks the managed prefix."),
    ("invalid_ref", "denied", 403, 3, "no", "The ref does not match the allowed pattern."),
    ("invalid_since_format", "denied", 403, 3, "no", "The 'since' value is not in a known form."),
    ("too_many_files", "denied", 403, 3, "no", "More files than the policy allows."),
    ("dirty_worktree", "denied", 403, 3, "no", "The worktree has uncommitted changes."),
    ("path_outside_root", "denied", 403, 3, "no", "The path leaves the allowed folder."),
    ("host_not_allowed", "denied", 403, 3, "no", "The network host is not on the list."),
    ("url_not_allowed", "denied", 403, 3, "no", "The address is written in a refused form."),
    ("address_not_public", "denied", 403, 3, "no", "The host leads to a private address."),
    ("output_too_large", "error", 200, 1, "no", "The tool gave more than may be taken in."),
    ("key_not_found", "error", 404, 1, "no", "Nothing is stored under that key."),
    ("version_conflict", "error", 409, 1, "no", "Somebody else wrote first."),
    ("key_invalid", "error", 422, 1, "no", "The key cannot be used as one."),
    ("value_invalid", "error", 422, 1, "no", "The value cannot be stored."),
    ("value_too_large", "error", 413, 1, "no", "The value is larger than the store takes."),
    ("storage_full", "error", 507, 1, "no", "The store holds as much as it may."),
    ("session_required", "error", 422, 1, "no", "The tool needs a session, and there is none."),
    ("content_type_not_allowed", "denied", 403, 3, "no", "What was found is of a refused type."),
    ("program_not_allowed", "denied", 403, 3, "no", "The program is not on the list."),
    ("statement_not_allowed", "denied", 403, 3, "no", "The SQL statement is not on the list."),
    ("table_not_allowed", "denied", 403, 3, "no", "The table is not on the list."),
    ("sandbox_not_allowed", "denied", 403, 3, "no", "The profile accepts no such sandbox."),
)


def reason(code: str, status: Status = "denied") -> Reason:
    """The row of `code`. A code that is not in the table is a policy's own denial or, where a call
    ended with the status `error`, a tool's own failure."""
    row = REASONS.get(code)
    if row is not None:
        return row
    if status == "error":
        return Reason(code, "error", 200, 1, "as_told", "The tool ran and reported a failure.")
    return Reason(code, "denied", 403, 3, "no", "A policy refused the call.")


def is_reason(code: object) -> bool:
    """Whether `code` is written as reasons are: a short snake_case identifier."""
    return isinstance(code, str) and code.isidentifier() and code.islower() and len(code) <= 64
