"""What every test has: one event-loop backend."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio; a test that wants trio too says so itself."""
    return "asyncio"
