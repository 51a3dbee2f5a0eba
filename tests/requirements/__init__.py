"""Every requirement of Sluice by id, what carries it, and what is deferred; `python -m tests.requirements` prints it.

A test carries requirements with `@pytest.mark.requirement("area.name.id", ...)`. An id without such a test stands in
its area's `deferred` dictionary, with the reason. `test_coverage.py` enforces both directions.
"""
