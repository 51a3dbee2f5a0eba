"""The areas, one module each. A module holds nothing but its `AREA`."""
