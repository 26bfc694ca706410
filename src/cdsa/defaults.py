"""What is done when nothing is said; light enough for the command line to show."""

METHOD = "linear"
HIDE = "bursts:+0.1"
INTERVAL = 0.9
FORECAST = "cdsa-paper-forecast"
TRAIN = "cdsa-paper"
