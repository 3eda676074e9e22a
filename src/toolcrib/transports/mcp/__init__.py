"""The MCP door: both eras of the protocol, on the one service behind every door."""
