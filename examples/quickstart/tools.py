"""The tools of the quick start: one reads, one sends, one destroys."""

from __future__ import annotations

from toolcrib import Decision, ToolContext, ToolPolicy, tool

NOTES = {"shopping": "bread, milk", "ideas": "a tool crib for agents"}


class NotePolicy(ToolPolicy):
    """Whom notes may go to; the profile says."""

    recipients: tuple[str, ...] = ()

    def check(self, ctx: ToolContext) -> Decision | None:
        """Refuse other recipients."""
        if ctx.arguments["to"] not in self.recipients:
            known = ", ".join(self.recipients) or "nobody"
            return self.deny("recipient_not_allowed", f"notes go to {known} only")
        return None


@tool(effects=["read"])
def read_note(name: str) -> str:
    """Read a note."""
    return NOTES[name]


@tool(effects=["egress"], policy=NotePolicy)
def send_note(name: str, to: str) -> str:
    """Send a note to somebody."""
    return f"sent {name!r} to {to}"


@tool(effects=["destructive"])
def burn_note(name: str) -> str:
    """Destroy a note."""
    return f"burnt {name!r}: {NOTES.pop(name)}"
