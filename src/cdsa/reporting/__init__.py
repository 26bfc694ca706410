"""The report of a fill: one page that opens from disk, without a network."""

from cdsa.reporting.page import Story, render, story_of, write_report

__all__ = ["Story", "render", "story_of", "write_report"]
