"""The report of a fill: one page that opens from disk, without a network."""

from cdsa.reporting.page import render, write_report
from cdsa.reporting.story import Story, story_of

__all__ = ["Story", "render", "story_of", "write_report"]
