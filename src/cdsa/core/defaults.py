"""What is done when nothing is said; light enough for the command line to show."""

METHOD = AUTO = "auto"
"""The default network or a simpler method, whichever is better on cells of the table hidden for it.
"""


HIDE = "like-data:+0.1"
"""Gaps like the table's own: what a method is good for is told where it would have to fill."""


INTERVAL = 0.9


FORECAST = TRAIN = NETWORK = "cdsa"


MIN_CELLS = 500
"""Measured cells from which on a network can learn anything; with fewer, 'auto' does not try."""


BASELINES = ("linear", "climatology", "idw", "knn", "mice")
"""What the default network is compared with, as far as it is installed and fits the table."""


MAX_SERIES = {"mice": 60}
"""With more series these take too long to be tried unasked."""


SITE_BASELINE = "idw"
"""What it is compared with where there is no sensor."""
