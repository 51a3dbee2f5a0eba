"""The embedded model: a small model that runs on this machine, in a child process that ends with this one."""

from __future__ import annotations

__all__: list[str] = []
