"""Defaults; light enough for the command line to show."""

METHOD = AUTO = "auto"
"""The default network and baselines, combined with weights from their errors on hidden cells."""

FORECAST = NETWORK = "cdsa"

FORECASTERS = (FORECAST, "last", "seasonal-naive", "climatology", "kalman")
"""Methods that are worth comparing for a forecast."""

MINUTES = 5.0
"""Training time on a server of a network that does not choose its own."""

HIDE = "like-data:+0.1"
"""Gaps like those of the table, so that errors are measured where values have to be filled."""

INTERVAL = 0.9

MIN_CELLS = 500
"""Observed cells that a network needs to train on; with fewer, 'auto' does not try it."""

BASELINES = ("linear", "climatology", "idw", "knn", "mice", "kalman")
"""Methods that the default network is combined with, if they are installed and fit the table."""

SITE_BASELINE = "idw"
"""Method that the default network is compared with at unmonitored sites."""
