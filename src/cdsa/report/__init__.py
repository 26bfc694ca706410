"""The report of a fill: one self-contained HTML page."""

from cdsa.report.content import ReportContent, collect
from cdsa.report.page import render, write_report

__all__ = ["ReportContent", "collect", "render", "write_report"]
