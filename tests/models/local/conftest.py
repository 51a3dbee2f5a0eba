from tests.models.local.support import library

__all__ = ["library"]
