"""The HTTP door: REST under `/v1`, event streams, WebSockets, health, metrics and the docs page."""
