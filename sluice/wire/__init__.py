"""Bytes to JSON-RPC 2.0 and back. Knows no ACP."""
