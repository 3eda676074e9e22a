"""Who we are to an MCP server: OAuth 2.1, from finding its authorization server to refreshing."""
