"""The MCP door: both eras of the protocol, on the one service behind every door.

A request goes down this list, and its answer up again.

- Over HTTP: `entrance` (what an address means), `http` (the door), `quick` (plain calls),
  `envelope` (headers against the body), `posts` (one POST and its answer), `held` (answers that
  stay open), `streams` (events, numbered and resumed), `metadata` (where to log in), `old_sse` (the
  transport of 2024-11-05).
- Over a pipe: `stdio`, `pipe`.
- For both: `sessions` (clients since their `initialize`), `line` (what one request can do with its
  client), `asked` (the request itself), `faults` (the error that answers it).
- `dispatcher`: who answers which method.
- Tools: `tools`, `listing` and `searching` (what is listed), `standing` (for whom).
- A call, and what it asks of its client: `running` (from its begin to its end), `run` (its state),
  `link` (its line back), `approvals`, `parking` and `seal` (waiting for the client's next request),
  `hearing` (what it says meanwhile), `home` (the loop that all of it belongs to).
- What else servers behind the host have: `relays`, on `upstreams` (the servers), `offers` (what a
  caller may have of them), `catalogue`, `paging` and `definitions` (their lists), `owners` and
  `templates` (whose a URI is), `completion`, `tasks`, `passing` (requests that are no calls).
- What clients are told by themselves: `changes`, to each `watching` one: lists that a `sight` shows
  to be others, resources (`following`, `updates`), tasks (`tasknews`), log messages (`levels`);
  `listening` is the modern client's way to it.
"""
