"""What can go wrong on the way to a token, in words for the operator."""

from __future__ import annotations

from toolcrib.errors import ToolFailure


class OAuthFailed(ToolFailure):
    """No token could be had: the upstream, its authorization server or the settings are wrong."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message, reason="upstream_error", retryable=retryable)


class LoginNeeded(ToolFailure):
    """A person has to log in before this upstream can be used."""

    def __init__(self, provider: str, why: str) -> None:
        super().__init__(
            f"{provider}: {why}; run: toolcrib auth login {provider}", reason="tool_unavailable"
        )


class Refused(OAuthFailed):
    """The authorization server said no, with one of OAuth's own error codes."""

    def __init__(self, message: str, error: str) -> None:
        super().__init__(message)
        self.error = error
