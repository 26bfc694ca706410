"""A page to fill tables with, and the REST API underneath: `cdsa serve`."""

from cdsa.serving.api import make_app
from cdsa.serving.limits import Limits

__all__ = ["Limits", "make_app"]
