"""What a server gives to its visitors at the most."""

from dataclasses import dataclass

from cdsa.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds that keep a server from being used up."""

    megabytes: float = 50.0
    """Of one table."""

    columns: int = 5_000
    """Of one table."""

    cells: int = 20_000_000
    """Of one table when it is a cube, with what it is carried forward by and the places that are
    added to it: time steps x stations x measurements."""

    places: int = 1_000
    """Without a sensor, that one job may fill."""

    tables: int = 300
    """Kept at the same time."""

    total_megabytes: float = 1_000.0
    """Of all tables that are kept, as they were sent."""

    sending_minutes: float = 10.0
    """That sending one table may take."""

    queue: int = 20
    """Jobs that may wait."""

    job_minutes: float = 60.0
    """That one job may take."""

    training_minutes: float = 30.0
    """That it may train for."""

    results: int = 60
    """Jobs of which the results are kept; the oldest are forgotten first."""

    of_a_table: int = 5
    """Such jobs about the same table."""

    result_megabytes: float = 4_000.0
    """Of all results that are kept, but for the last one."""

    keep_minutes: float = 120.0
    """After which a table that nobody asked for is forgotten."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ConfigError(f"{name} must be greater than 0, but found {value:g}")

    @property
    def bytes(self) -> int:
        """Of one table."""
        return int(self.megabytes * 1e6)
