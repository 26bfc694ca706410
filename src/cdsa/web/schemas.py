"""Requests and responses of the API, as its documentation shows them."""

import math
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator

from cdsa.core import defaults
from cdsa.errors import ConfigError
from cdsa.io.options import OPTIONS, Option, check_name
from cdsa.io.sidecars import SITES_TABLE, parse_sites
from cdsa.methods.registry import MethodOptions, info_of
from cdsa.web.jobs import Request, State
from cdsa.web.limits import Limits
from cdsa.web.parsing import parse_sidecar
from cdsa.workflows import pipeline

MAX_TEXT = 200_000
MAX_OFFSET = 10**9

Text = Annotated[str, Field(min_length=1, max_length=200)]
LongText = Annotated[str, Field(min_length=1, max_length=20_000)]
Bound = float | None
Lines = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
"""A small table as the text of a CSV file, whose first line names the columns."""


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


Number = Annotated[float | None, AfterValidator(_finite)]
"""A number of a response; NaN becomes null."""

Download = Literal["filled", "detail", "report"]
"""The files of a job that can be downloaded."""

RENAMED = {
    "reading": "options",
    "steps": "horizon",
    "known": "known_covariates",
    "start": "offset",
    "most": "limit",
}
"""Former names of request fields."""


class Schema(BaseModel):
    """A response; the text below a field is its documentation in the API."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class StrictSchema(Schema):
    """A request; an unknown field is an error, and a former name is answered with the new one."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_former_names(cls, content: object) -> object:
        if isinstance(content, dict):
            for old, new in RENAMED.items():
                if old in content and old not in cls.model_fields and new in cls.model_fields:
                    raise ValueError(f"'{old}' is called '{new}' now")
        return content


def _read_field(option: Option) -> tuple[object, object]:
    """The type and the documentation of a reading option."""
    types: dict[str, object] = {
        "flag": bool,
        "table": Lines,
        "names": LongText | tuple[Text, ...],
        "lines": Text | tuple[int, ...],
        "units": LongText | tuple[Text, ...] | dict[Text, Text],
        "bounds": LongText | tuple[Text, ...] | dict[Text, tuple[Bound, Bound]],
        "digits": LongText | tuple[Text, ...] | dict[Text, int],
    }
    kind = Literal[option.choices] if option.choices else types.get(option.kind, Text)
    help = option.help + (" Given as the text of a CSV file." if option.kind == "table" else "")

    def parse(value: object) -> object:
        parsed = option.parse(value)
        if isinstance(parsed, tuple | dict) and len(parsed) > option.max_items:
            raise ValueError(f"at most {option.max_items} items are accepted")
        return parsed

    return Annotated[kind, AfterValidator(parse)] | None, Field(None, description=help)


class ReadOptions(
    create_model(  # type: ignore[misc]  # a base class made at run time
        "ReadOptions",
        __base__=StrictSchema,
        **{name: _read_field(option) for name, option in OPTIONS.items()},
    )
):
    """How to read a table; what is not given is detected. The options of `cdsa info`, which may be
    written as text here too."""

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: object) -> object:
        for name in given if isinstance(given, dict) else ():
            check_name(name)
        return given


class UploadQuery(StrictSchema):
    """The query of an upload."""

    name: Text
    """Name of the file; its suffix decides how it is parsed."""

    options: Annotated[str, Field(max_length=20_000)] | None = None
    """Read options, as JSON."""


class CellsQuery(StrictSchema):
    """The query of a page of filled cells."""

    location: Text | None = None
    measurement: Text | None = None
    offset: int = Field(0, ge=0, le=MAX_OFFSET)
    """Number of cells to skip."""

    limit: int = Field(100, ge=1, le=1000)
    """Maximum number of cells."""


class ExplanationQuery(StrictSchema):
    """The query of an explanation: a cell, and the number of contributions to return."""

    location: Text
    measurement: Text
    time: Text | None = None
    """Timestamp as the table writes it."""

    step: int | None = Field(None, ge=0, le=MAX_OFFSET)
    """Number of the time step in the series, instead of `time`."""

    top: int = Field(10, ge=1, le=100)

    @model_validator(mode="after")
    def _require_a_moment(self) -> "ExplanationQuery":
        if self.time is None and self.step is None:
            raise ValueError("time or step is required")
        return self


class JobRequest(StrictSchema):
    """What all jobs have in common. A job of another kind is a subclass in `JOB_REQUESTS` and a
    case in `tasks.run`; limits of its own are checked in its `to_request`."""

    kind: ClassVar[str]
    workflow: ClassVar[type[Any]]
    """The request of the workflow, whose fields have the same names."""

    minutes: float | None = Field(None, gt=0)
    """Training time, for methods that train a network; by default it is chosen from the table."""

    seed: int = Field(0, ge=0, le=2**31)

    def to_request(self, limits: Limits, **parsed: object) -> Request:
        """The request of the workflow, if it is within the limits; `parsed` replaces fields."""
        max_minutes = limits.training_minutes
        if self.minutes is not None and self.minutes > max_minutes:
            raise ConfigError(
                f"minutes must be greater than 0 and at most {max_minutes:g} here, but found "
                f"{self.minutes:g}"
            )
        names = {field.name for field in fields(self.workflow)}
        given = {name: value for name, value in self if name in names} | parsed
        options = MethodOptions(minutes=self.minutes, seed=self.seed)
        request: Request = self.workflow(options=options, max_minutes=max_minutes, **given)
        return request


class FillRequest(JobRequest):
    """A job that fills the gaps of a table, like `cdsa fill`."""

    kind = "fill"
    workflow = pipeline.FillRequest
    method: Text = defaults.METHOD
    """A method of `GET /api/methods` that fills; auto combines several."""

    interval: float = Field(defaults.INTERVAL, gt=0, lt=1)
    """Nominal coverage of the prediction intervals."""

    check: bool = True
    """Hide a tenth of the measured cells first, to estimate the error."""

    at: Lines | None = None
    """Unmonitored sites to fill as well: the text of a CSV file with columns name, lat, lon."""

    max_gap: Text | None = None
    """Longest gap to fill, such as 6h; longer ones are left open."""

    extend: bool = False
    """Fill before the first and after the last value of a station too, and measurements that it
    never had."""

    def to_request(self, limits: Limits, **parsed: object) -> Request:
        """The request of the workflow, with the sites parsed."""
        if self.at is None:
            return super().to_request(limits, **parsed)
        sites = parse_sites(parse_sidecar(self.at, SITES_TABLE), SITES_TABLE)
        if len(sites.names) > limits.sites:
            raise ConfigError(
                f"a job may fill {limits.sites:,} sites here, but found {len(sites.names):,}. Send "
                "fewer, or use the command line"
            )
        return super().to_request(limits, at=sites, **parsed)


class ForecastRequest(JobRequest):
    """A job that forecasts a table, like `cdsa forecast`."""

    kind = "forecast"
    workflow = pipeline.ForecastRequest
    horizon: int = Field(ge=1, le=10_000)
    """Time steps to forecast."""

    method: Text = defaults.FORECAST
    """A method of `GET /api/methods` that forecasts."""

    interval: float = Field(defaults.INTERVAL, gt=0, lt=1)
    """Nominal coverage of the prediction intervals."""

    known_covariates: tuple[Text, ...] = Field(default_factory=tuple, max_length=1000)
    """Measurements whose future values are in the last rows of the table."""


class ScoreRequest(JobRequest):
    """A job that compares methods on hidden cells, like `cdsa score`; its records are scores."""

    kind = "score"
    workflow = pipeline.CompareRequest
    methods: tuple[Text, ...] = Field(min_length=1, max_length=20)
    """Methods to compare."""

    hide: Text = defaults.HIDE
    """Measured cells to hide, such as bursts:0.2, random:0.5, stations:2, last:12."""

    repeats: int = Field(1, ge=1, le=5)
    """Number of runs, each with other cells hidden."""

    def to_request(self, limits: Limits, **parsed: object) -> Request:
        """The request of the workflow, if all its networks are trained within the limit."""
        request = super().to_request(limits, **parsed)
        networks = sum(info_of(name).trains for name in self.methods)
        minutes = defaults.MINUTES if self.minutes is None else self.minutes
        total = networks * self.repeats * minutes
        if total > limits.training_minutes:
            raise ConfigError(
                f"a job may train for {limits.training_minutes:g} minutes here, but {networks} "
                f"networks x {self.repeats} repeats would take {total:g}. Compare fewer methods, "
                "or reduce minutes"
            )
        return request


JOB_REQUESTS: tuple[type[JobRequest], ...] = (FillRequest, ForecastRequest, ScoreRequest)


class Problem(Schema):
    """An error message, in the words of the command line."""

    detail: str


class Health(Schema):
    """The version and the limits of a server."""

    version: str
    tables: int
    """Tables stored now."""

    megabytes: float
    training_minutes: float
    keep_minutes: float
    suffixes: list[str]


class MethodSummary(Schema):
    """A method, as `cdsa methods` lists it."""

    name: str
    title: str
    task: list[str]
    trains: bool
    needs: str | None
    installed: bool
    paper: str


class Station(Schema):
    """A station, and its share of missing cells."""

    name: str
    lat: Number
    lon: Number
    missing: float


class Measurement(Schema):
    """A measurement, and its gaps."""

    name: str
    units: str
    is_direction: bool
    cells: int
    missing: int
    gaps: int
    longest_gap: int
    """In time steps."""


class Gap(Schema):
    """A gap of a series."""

    location: str
    measurement: str
    first: str
    last: str
    steps: int


class TableSummary(Schema):
    """What a table contains, and how it was read."""

    id: str
    name: str
    size: int
    layout: str
    notes: list[str]
    warnings: list[str]
    columns: list[str]
    options: ReadOptions
    steps: int
    step: str
    first: str
    last: str
    timezone: str
    stations: list[Station]
    measurements: list[Measurement]
    longest_gaps: list[Gap]


class MissingOverTime(Schema):
    """Percentage of missing cells for each station and period."""

    measurement: str | None
    first: list[str]
    """First time of each period."""

    stations: list[str]
    missing: list[list[int]]


class Times(Schema):
    """The time steps in the table's own time zone, in seconds since 1970 there: first, step and
    count or, if they are irregular, all of them."""

    first: int | None = None
    step: int | None = None
    times: list[int] | None = None
    count: int
    zone: str


class Series(Schema):
    """A series, and the values it was filled with."""

    location: str
    measurement: str
    units: str
    is_direction: bool
    times: Times
    values: list[Number]
    source: list[str] | None = None
    """Of a job: observed, filled, unfillable, forecast or missing, for each value."""

    lower: list[Number] | None = None
    upper: list[Number] | None = None


class Site(Schema):
    """An unmonitored site."""

    name: str
    lat: float
    lon: float


class JobStatus(Schema):
    """The progress and the results of a job."""

    id: str
    table: str
    kind: Literal[tuple(request.kind for request in JOB_REQUESTS)]  # type: ignore[valid-type]
    state: State
    queue_position: int
    """Number of jobs before this one."""

    status: str
    """What the job is doing, in words."""

    progress: Number
    """Completed fraction of the training, if it is known."""

    seconds: float
    messages: list[str]
    error: str | None
    records: list[dict[str, str | int | float | bool | None]]
    files: list[str]
    sites: list[Site]
    """Unmonitored sites that were filled as well."""

    explainable: bool
    """Whether filled values can be explained."""


class Cell(Schema):
    """A cell of a table, and its value."""

    time: str
    step: int
    location: str
    measurement: str
    value: Number


class FilledCell(Cell):
    """A filled or forecast cell."""

    lower: Number
    upper: Number


class FilledCells(Schema):
    """A page of filled or forecast cells."""

    total: int
    cells: list[FilledCell]


class Contribution(Cell):
    """A measured cell, and its share in a filled value."""

    share: float


class Explanation(Schema):
    """The measured cells that a filled value comes from."""

    time: str
    location: str
    measurement: str
    value: Number
    groups: dict[str, float]
    """Sum of the shares of the same series, other stations, other measurements, and both."""

    cells: list[Contribution]
    """The largest contributions."""
