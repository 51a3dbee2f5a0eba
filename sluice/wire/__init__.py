"""Bytes to JSON-RPC 2.0 and back. Knows no ACP.

From the outside in: `stdio` and `transport` move bytes; `lines` cuts them; `frames` says what a line is and writes
ours; `outbox` queues and writes; `calls` matches answers to our requests, `incoming` has what we owe
answers to; `peer` puts these together and is the only place where an exception becomes an error on the wire. `errors`
is the tree of those errors, `cleanup` the one policy for work that outlives its cancellation, `log` where the log
goes.
"""
