"""Act: one module per page of the ACP specification; each looks up, fires the machine, then does the work."""
