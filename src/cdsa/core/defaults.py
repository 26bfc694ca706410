"""Defaults; light enough for the command line to show."""

METHOD = AUTO = "auto"
"""The default network or a baseline, whichever has the smaller error on hidden cells."""

FORECAST = NETWORK = "cdsa"

MINUTES = 5.0
"""Training time on a server of a network that does not choose its own."""

HIDE = "like-data:+0.1"
"""Gaps like those of the table, so that errors are measured where values have to be filled."""

INTERVAL = 0.9

MIN_CELLS = 500
"""Observed cells that a network needs to train on; with fewer, 'auto' does not try it."""

BASELINES = ("linear", "climatology", "idw", "knn", "mice", "kalman")
"""Methods that the default network is compared with, if they are installed and fit the table."""

MAX_SERIES = {"mice": 60}
"""Series above which a baseline takes too long to be tried by default."""

SITE_BASELINE = "idw"
"""Method that the default network is compared with at unmonitored sites."""
