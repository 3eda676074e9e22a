"""The provider `mcp`: tools of servers that speak the Model Context Protocol.

- `provider` (what the host sees), `settings`, `listing` (its tools), `calling` (one call), `relay`
  (what it has besides tools).
- `upstream` (the server, across conversations), `connecting` and `greeting` (from settings to a
  conversation, in the server's era), `session` (one conversation), `exchange` (one request),
  `asking` (what the server wants to know from callers), `listening` (what it says of changes).
- Wires: `http`, and `direct` for plain calls over it; `shared` for those with one channel for
  everything, over `stdio` or `old_sse`.
- `signing` and `oauth`: who we are to the server.
"""
