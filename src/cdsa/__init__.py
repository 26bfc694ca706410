"""Fill and forecast sensor networks: a table with gaps in, the same table filled out."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdsa.core import masks as masks
    from cdsa.core.cube import make_cube as make_cube
    from cdsa.datasets.nyc_weather import open_demo as open_demo
    from cdsa.datasets.registry import open_dataset as open_dataset
    from cdsa.errors import CdsaError as CdsaError
    from cdsa.io.source import open_cube as open_cube
    from cdsa.io.source import open_source as open_source
    from cdsa.io.source import save_all as save_all
    from cdsa.methods.base import Filler as Filler
    from cdsa.methods.base import Method as Method
    from cdsa.methods.neural.cdsa import Cdsa as Cdsa
    from cdsa.methods.registry import MethodOptions as MethodOptions
    from cdsa.methods.registry import build_method as build_method
    from cdsa.methods.registry import list_methods as list_methods
    from cdsa.workflows.api import compare as compare
    from cdsa.workflows.api import explain as explain
    from cdsa.workflows.api import fill as fill
    from cdsa.workflows.api import forecast as forecast
    from cdsa.workflows.api import load_model as load_model
    from cdsa.workflows.api import save_model as save_model
    from cdsa.workflows.api import score as score
    from cdsa.workflows.api import train as train
    from cdsa.workflows.score import summarise as summarise

_DEFINED_IN = {
    "cdsa.workflows.api": "fill forecast score compare train explain load_model save_model",
    "cdsa.workflows.score": "summarise",
    "cdsa.methods.registry": "list_methods build_method MethodOptions",
    "cdsa.io.source": "open_cube open_source save_all",
    "cdsa.datasets.registry": "open_dataset",
    "cdsa.datasets.nyc_weather": "open_demo",
    "cdsa.core.cube": "make_cube",
    "cdsa.core": "masks",
    "cdsa.methods.neural.cdsa": "Cdsa",
    "cdsa.methods.base": "Method Filler",
    "cdsa.errors": "CdsaError",
}
_MODULES = {name: module for module, names in _DEFINED_IN.items() for name in names.split()}
__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    """Import public names when they are used, so that importing cdsa costs nothing."""
    if name == "__version__":
        from importlib.metadata import version

        return version("cdsa")
    if name == "masks":
        return import_module("cdsa.core.masks")
    if name not in _MODULES:
        raise AttributeError(f"module 'cdsa' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
