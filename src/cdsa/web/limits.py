"""Limits that keep a server from being used up."""

from dataclasses import dataclass

from cdsa.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Upper bounds on what a server accepts, keeps and runs."""

    megabytes: float = 50.0
    """Size of an uploaded table."""

    columns: int = 5_000
    """Columns of a table."""

    cells: int = 20_000_000
    """Cells of a table's cube, forecast steps and added sites included: time steps x stations x
    measurements."""

    sites: int = 1_000
    """Unmonitored sites that one job may fill."""

    tables: int = 300
    """Tables stored at the same time."""

    total_megabytes: float = 1_000.0
    """Size of all stored tables, as uploaded."""

    upload_minutes: float = 10.0
    """Duration of an upload."""

    upload_seconds: float = 10.0
    """Time that an upload may take in addition to that of its bytes at the slowest rate."""

    upload_rate: float = 10_000.0
    """Bytes a second of an upload, at least."""

    uploads: int = 8
    """Uploads of one client at the same time."""

    queue: int = 20
    """Jobs waiting in the queue."""

    job_minutes: float = 60.0
    """Duration of a job."""

    training_minutes: float = 30.0
    """Training time of a job."""

    results: int = 60
    """Jobs whose results are kept; the oldest are removed first."""

    results_per_table: int = 5
    """Jobs on the same table whose results are kept."""

    result_megabytes: float = 4_000.0
    """Size of all results that are kept; the newest is kept in any case."""

    keep_minutes: float = 120.0
    """Time after which an unused table is removed."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ConfigError(f"{name} must be greater than 0, but found {value:g}")

    @property
    def bytes(self) -> int:
        """Size of an uploaded table."""
        return int(self.megabytes * 1e6)
