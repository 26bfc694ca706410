"""What the server is asked and answers, as it stands in its documentation."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cdsa import defaults

Text = Annotated[str, Field(min_length=1, max_length=200)]
Number = float | None


class Strict(BaseModel):
    """What is asked; a misspelt name is answered instead of ignored."""

    model_config = ConfigDict(extra="forbid")


class Reading(Strict):
    """How to read a table; what is not said is recognised. As the options of `cdsa info`."""

    layout: Literal["panel", "long", "wide"] | None = None
    time: Text | None = None
    location: Text | None = None
    measurement: Text | None = None
    value: Text | None = None
    measurements: list[Text] | None = Field(None, max_length=1000)
    lat: Text | None = None
    lon: Text | None = None
    coordinates: bool | None = None
    missing: list[Text] | None = Field(None, max_length=50)
    step: Text | None = None
    duplicates: Literal["mean", "first"] | None = None
    tz: Text | None = None
    time_format: Text | None = None
    angles: list[Text] | None = Field(None, max_length=1000)
    units: dict[Text, Text] | None = None
    bounds: dict[Text, tuple[Number, Number]] | None = None
    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    decimal: Literal[".", ","] | None = None
    encoding: Text | None = None


class AskFill(Strict):
    """As `cdsa fill`."""

    method: Text = defaults.METHOD
    minutes: float | None = Field(None, gt=0)
    seed: int = Field(0, ge=0, le=2**31)
    interval: float = Field(defaults.INTERVAL, gt=0, lt=1)
    check: bool = True


class AskForecast(Strict):
    """As `cdsa forecast`."""

    steps: int = Field(ge=1, le=10_000)
    method: Text = defaults.FORECAST
    minutes: float | None = Field(None, gt=0)
    seed: int = Field(0, ge=0, le=2**31)
    interval: float = Field(defaults.INTERVAL, gt=0, lt=1)
    known: list[Text] = Field(default_factory=list, max_length=1000)


class AskScore(Strict):
    """As `cdsa score`."""

    methods: list[Text] = Field(min_length=1, max_length=20)
    hide: Text = defaults.HIDE
    repeats: int = Field(1, ge=1, le=5)
    minutes: float | None = Field(None, gt=0)
    seed: int = Field(0, ge=0, le=2**31)


class Problem(BaseModel):
    """Why something was not done, in the words of the command line."""

    detail: str


class MethodAnswer(BaseModel):
    """A method, as `cdsa methods` tells of it."""

    name: str
    title: str
    task: list[str]
    trains: bool
    needs: str | None
    installed: bool
    paper: str


class Station(BaseModel):
    """A station, and how much of it is missing."""

    name: str
    lat: Number
    lon: Number
    missing: float


class Measurement(BaseModel):
    """A measurement, and its gaps."""

    name: str
    unit: str
    angle: bool
    cells: int
    missing: int
    gaps: int
    longest: int


class Gap(BaseModel):
    """A gap of a series."""

    location: str
    measurement: str
    first: str
    last: str
    steps: int


class TableAnswer(BaseModel):
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


class Gaps(BaseModel):
    """When each station is missing: shares of a hundred in equal parts of the time."""

    measurement: str | None
    first: list[str]
    """When each part of the time begins."""

    stations: list[str]
    missing: list[list[int]]


class Times(BaseModel):
    """The moments of a table in seconds since 1970: first, step and count, or all of them."""

    first: int | None = None
    step: int | None = None
    times: list[int] | None = None
    count: int
    zone: str


class Series(BaseModel):
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


class JobAnswer(BaseModel):
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
    explains: bool


class ReasonAnswer(BaseModel):
    """A measured cell, and its share in a value."""

    time: str
    step: int
    location: str
    measurement: str
    value: Number
    share: float


class ReasonsAnswer(BaseModel):
    """Where a filled value comes from."""

    time: str
    location: str
    measurement: str
    value: Number
    axes: dict[str, float]
    cells: list[ReasonAnswer]


class CellAnswer(BaseModel):
    """A filled cell."""

    time: str
    step: int
    location: str
    measurement: str
    value: Number
    lower: Number
    upper: Number


class CellsAnswer(BaseModel):
    """Filled cells, some at a time."""

    total: int
    cells: list[CellAnswer]


class Health(BaseModel):
    """Whether a server is up, and what it allows."""

    version: str
    tables: int
    megabytes: float
    training_minutes: float
    keep_minutes: float
    ends: list[str]
