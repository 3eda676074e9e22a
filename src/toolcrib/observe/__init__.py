"""What happened, for whoever wants to know: events carried on, redacted, counted and printed."""
