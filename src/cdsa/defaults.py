"""What is done when nothing is said; light enough for the command line to show."""

METHOD = AUTO = "auto"
"""The default network or a simpler method, whichever is better on cells of the table hidden for it.
"""
HIDE = "bursts:+0.1"
INTERVAL = 0.9
FORECAST = TRAIN = NETWORK = "cdsa"
LEAST_CELLS = 500
"""Measured cells from which on a network can learn anything; with fewer, 'auto' does not try."""
SIMPLER = ("linear", "climatology", "knn")
"""What the default network is compared with, as far as it is installed."""
