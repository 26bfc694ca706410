"""The report of a fill: one self-contained HTML page."""
