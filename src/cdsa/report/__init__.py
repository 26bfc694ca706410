"""The report of a fill: one page that opens from disk, without a network."""

from cdsa.report.content import Story, story_of
from cdsa.report.page import render, write_report

__all__ = ["Story", "render", "story_of", "write_report"]
