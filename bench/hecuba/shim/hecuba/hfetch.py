def disconnectCassandra() -> None:
    """There is no connection."""
