"""The Model Context Protocol in JSON: what is not known here passes through as it is."""
