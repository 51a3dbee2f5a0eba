"""The ACP v1 vocabulary: typed messages, the method table, validation. Knows no behaviour."""
