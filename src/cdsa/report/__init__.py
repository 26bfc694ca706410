"""The report of a fill: one page that opens from disk, without a network."""

from cdsa.report.content import ReportContent, collect
from cdsa.report.page import render, write_report

__all__ = ["ReportContent", "collect", "render", "write_report"]
