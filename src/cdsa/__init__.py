"""Fill and forecast sensor networks: a table with holes in, the same table filled out."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdsa.datasets.nyc_weather import open_demo as open_demo
    from cdsa.datasets.registry import open_dataset as open_dataset
    from cdsa.io.source import open_cube as open_cube
    from cdsa.io.source import open_source as open_source
    from cdsa.methods.registry import list_methods as list_methods
    from cdsa.workflows.fill import fill as fill
    from cdsa.workflows.forecast import forecast as forecast
    from cdsa.workflows.score import score as score

_HOME = {
    "open_dataset": "cdsa.datasets.registry",
    "fill": "cdsa.workflows.fill",
    "forecast": "cdsa.workflows.forecast",
    "list_methods": "cdsa.methods.registry",
    "score": "cdsa.workflows.score",
    "open_cube": "cdsa.io.source",
    "open_source": "cdsa.io.source",
    "open_demo": "cdsa.datasets.nyc_weather",
}
_MODULES = {"errors": "cdsa.errors", "masks": "cdsa.core.masks"}
__all__ = [
    "fill",
    "forecast",
    "list_methods",
    "open_cube",
    "open_dataset",
    "open_demo",
    "open_source",
    "score",
]


def __getattr__(name: str) -> object:
    """Public names are imported when they are used, so that importing cdsa costs nothing."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'cdsa' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
