"""Trust in tools that come from somebody else: pinned, compared, quarantined, reviewed."""
