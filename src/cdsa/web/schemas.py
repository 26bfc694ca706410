"""What the server is asked and answers, as it stands in its documentation."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cdsa.core import defaults

Text = Annotated[str, Field(min_length=1, max_length=200)]


Number = float | None


MOST_TEXT = 200_000


Lines = Annotated[str, Field(min_length=1, max_length=MOST_TEXT)]
"""A small table as the text of a CSV file, whose first line names the columns."""


class Told(BaseModel):
    """Whatever is said; the words below a field stand in the documentation of the API."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Strict(Told):
    """What is asked; a misspelt name is answered instead of ignored."""

    model_config = ConfigDict(extra="forbid")


class Reading(Strict):
    """How to read a table; what is not said is recognised. As the options of `cdsa info`."""

    layout: Literal["panel", "long", "wide"] | None = None
    """A row per time and station, a row per value, or a column per station."""

    time: Text | None = None
    """Column of the time stamps."""

    location: Text | None = None
    """Column of the stations."""

    measurement: Text | None = None
    """Of a long table: column that names the measurement."""

    value: Text | None = None
    """Of a long table: column of the values."""

    measurements: list[Text] | None = Field(None, max_length=1000)
    """Those to take; of a wide table, the name of its only one."""

    lat: Text | None = None
    """Column of the latitudes."""

    lon: Text | None = None
    """Column of the longitudes."""

    locations: Lines | None = None
    """Where the stations are: the text of a CSV file with columns station, lat, lon."""

    coordinates: bool | None = None
    """False leaves coordinates out."""

    missing: list[Text] | None = Field(None, max_length=50)
    """What stands for a missing value, such as -999."""

    step: Text | None = None
    """Time step, such as 1h; stamps move to the nearest one."""

    duplicates: Literal["mean", "first"] | None = None
    """What to take where a cell is given twice."""

    tz: Text | None = None
    """Time zone of the stamps."""

    time_format: Text | None = None
    """How stamps are written, as %d.%m.%Y %H:%M; unix or unix-ms for (milli)seconds since 1970."""

    angles: list[Text] | None = Field(None, max_length=1000)
    """Measurements that are directions in degrees."""

    units: dict[Text, Text] | None = None
    """By measurement."""

    bounds: dict[Text, tuple[Number, Number]] | None = None
    """Lowest and highest value that may be filled in, by measurement."""

    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Between the columns of a CSV file."""

    decimal: Literal[".", ","] | None = None
    """Decimal mark of a CSV file."""

    encoding: Text | None = None
    """Character encoding of a CSV file, such as latin-1."""


class Asked(Strict):
    """What every job is told."""

    minutes: float | None = Field(None, gt=0)
    """Of training, for methods that train a network; chosen by the table if not given."""

    seed: int = Field(0, ge=0, le=2**31)


class AskFill(Asked):
    """As `cdsa fill`."""

    method: Text = defaults.METHOD
    """One of `GET /api/methods` whose task is to fill; auto takes whichever is best."""

    interval: float = Field(defaults.INTERVAL, gt=0, lt=1)
    """The share of true values that intervals are to hold."""

    check: bool = True
    """First hide a tenth of what is there, to know the error to expect."""

    at: Lines | None = None
    """Places without a sensor, to be filled too: the text of a CSV file with columns name, lat,
    lon."""


class AskForecast(Asked):
    """As `cdsa forecast`."""

    steps: int = Field(ge=1, le=10_000)
    """To foresee."""

    method: Text = defaults.FORECAST
    """One of `GET /api/methods` whose task is to forecast."""

    interval: float = Field(defaults.INTERVAL, gt=0, lt=1)
    """The share of true values that intervals are to hold."""

    known: list[Text] = Field(default_factory=list, max_length=1000)
    """Measurements whose values ahead stand in the table's last rows."""


class AskScore(Asked):
    """As `cdsa score`."""

    methods: list[Text] = Field(min_length=1, max_length=20)
    """To be compared."""

    hide: Text = defaults.HIDE
    """What is hidden of what is there, such as bursts:0.2, random:0.5, stations:2, last:12."""

    repeats: int = Field(1, ge=1, le=5)
    """With other cells hidden each time."""


class Problem(Told):
    """Why something was not done, in the words of the command line."""

    detail: str


class MethodAnswer(Told):
    """A method, as `cdsa methods` tells of it."""

    name: str
    title: str
    task: list[str]
    trains: bool
    needs: str | None
    installed: bool
    paper: str


class Station(Told):
    """A station, and how much of it is missing."""

    name: str
    lat: Number
    lon: Number
    missing: float


class Measurement(Told):
    """A measurement, and its gaps."""

    name: str
    unit: str
    angle: bool
    cells: int
    missing: int
    gaps: int
    longest: int


class Gap(Told):
    """A gap of a series."""

    location: str
    measurement: str
    first: str
    last: str
    steps: int


class TableAnswer(Told):
    """What was understood of a table."""

    id: str
    name: str
    size: int
    layout: str
    notes: list[str]
    doubts: list[str]
    columns: list[str]
    reading: Reading
    steps: int
    step: str
    first: str
    last: str
    zone: str
    stations: list[Station]
    measurements: list[Measurement]
    longest: list[Gap]


class Gaps(Told):
    """When each station is missing: shares of a hundred in equal parts of the time."""

    measurement: str | None
    first: list[str]
    """When each part of the time begins."""

    stations: list[str]
    missing: list[list[int]]


class Times(Told):
    """The moments of a table by its own clock, in seconds from midnight of 1970 on that clock:
    first, step and count, or all of them."""

    first: int | None = None
    step: int | None = None
    times: list[int] | None = None
    count: int
    zone: str


class Series(Told):
    """A series of a table, and what it was filled with."""

    location: str
    measurement: str
    unit: str
    turns: bool
    times: Times
    values: list[Number]
    source: list[str] | None = None
    """Of a job: where each value comes from."""

    lower: list[Number] | None = None
    upper: list[Number] | None = None


class Place(Told):
    """A place without a sensor."""

    name: str
    lat: float
    lon: float


class JobAnswer(Told):
    """A job, how far it is, and what came out."""

    id: str
    table: str
    kind: Literal["fill", "forecast", "score"]
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    ahead: int
    """Jobs that come before it."""

    doing: str
    share: Number
    seconds: float
    told: list[str]
    error: str | None
    records: list[dict[str, str | int | float | bool | None]]
    files: list[str]
    places: list[Place]
    """Without a sensor, that were filled too."""

    explains: bool


class ReasonAnswer(Told):
    """A measured cell, and its share in a value."""

    time: str
    step: int
    location: str
    measurement: str
    value: Number
    share: float


class ReasonsAnswer(Told):
    """Where a filled value comes from."""

    time: str
    location: str
    measurement: str
    value: Number
    axes: dict[str, float]
    cells: list[ReasonAnswer]


class CellAnswer(Told):
    """A filled cell."""

    time: str
    step: int
    location: str
    measurement: str
    value: Number
    lower: Number
    upper: Number


class CellsAnswer(Told):
    """Filled cells, some at a time."""

    total: int
    cells: list[CellAnswer]


class Health(Told):
    """Whether a server is up, and what it allows."""

    version: str
    tables: int
    megabytes: float
    training_minutes: float
    keep_minutes: float
    ends: list[str]
