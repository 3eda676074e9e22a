"""Running calls, by kind."""
