from .IStorage import build_remotely

__all__ = ["build_remotely"]
