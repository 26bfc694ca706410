"""What can be asked of the server: about itself, tables, jobs, and what came out of them."""

from importlib.metadata import version
from importlib.resources import as_file, files
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from cdsa.datasets.nyc_weather import BOUNDS, UNITS
from cdsa.errors import TableError
from cdsa.methods.registry import list_methods
from cdsa.web import schemas, views
from cdsa.web.services import AtDesk
from cdsa.web.store import ENDS, NotThereError
from cdsa.web.tasks import Compare, Fill, Forecast, places_in, source_of

Name = Annotated[str, Query(min_length=1, max_length=200)]


LARGEST = 10**9


REFUSED = {
    400: "This is no JSON, or no request.",
    403: "A page of another origin, or a name that is not this server's.",
    404: "There is no such thing, or not any more.",
    411: "How long it is must be said.",
    413: "It is too large.",
    422: "It cannot be done; the text says why.",
    429: "Too much at the same time.",
}


PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.Problem, "description": words} for code, words in REFUSED.items()
}


KINDS = {"html": "text/html", "csv": "text/csv"}
"""Of files, as browsers call them; others are just bytes."""


BYTES = "application/octet-stream"


EXAMPLE = "nyc_weather.csv.gz"


server = APIRouter(prefix="/api", tags=["server"], responses=PROBLEMS)


tables = APIRouter(prefix="/api/tables", tags=["tables"], responses=PROBLEMS)


jobs = APIRouter(prefix="/api", tags=["jobs"], responses=PROBLEMS)


results = APIRouter(prefix="/api/jobs/{job}", tags=["results"], responses=PROBLEMS)


# ------------------------------------------------------------------ the server


@server.get("/health")
async def health(desk: AtDesk) -> schemas.Health:
    """Whether the server is up, and what it allows."""
    limits = desk.limits
    return schemas.Health(
        version=version("cdsa"),
        tables=desk.shelf.count,
        megabytes=limits.megabytes,
        training_minutes=limits.training_minutes,
        keep_minutes=limits.keep_minutes,
        ends=list(ENDS),
    )


@server.get("/methods")
async def all_methods() -> list[schemas.MethodAnswer]:
    """The methods there are, as `cdsa methods` tells of them."""
    return [
        schemas.MethodAnswer(
            name=info.name,
            title=info.summary,
            task=[word for word in ("fill", "forecast") if word in info.task],
            trains=info.trains,
            needs=info.needs or None,
            installed=info.installed,
            paper=info.paper,
        )
        for info in list_methods()
    ]


# ------------------------------------------------------------------ tables

_BODY = {BYTES: {"schema": {"type": "string", "format": "binary"}}}


@tables.post(
    "", status_code=201, openapi_extra={"requestBody": {"required": True, "content": _BODY}}
)
async def send(
    desk: AtDesk,
    request: Request,
    name: Name,
    reading: Annotated[str | None, Query(max_length=20_000)] = None,
) -> schemas.TableAnswer:
    """Send a table, a CSV or Parquet file as the body of the request; `name` is the file's,
    `reading` says how it is to be read, as JSON. What was understood of it comes back."""
    try:
        how = schemas.Reading.model_validate_json(reading or "{}")
    except ValidationError as bad:
        raise RequestValidationError(bad.errors()) from bad
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise TableError(
            "a table is sent as it is, as the body of the request, and not as part of a form: curl "
            "--data-binary @air.csv"
        )
    held = await desk.shelf.take(name, request.stream())
    held.reading = how.model_dump(exclude_none=True)
    try:
        return await desk.understood(held)
    except BaseException:
        desk.shelf.forget(held.id)
        raise


@tables.post("/example", status_code=201)
async def example(desk: AtDesk) -> schemas.TableAnswer:
    """The example: a year of weather at the three airports of New York."""
    with as_file(files("cdsa") / "data" / EXAMPLE) as path:
        held = desk.shelf.keep(EXAMPLE, path)
    held.reading = {"units": dict(UNITS), "bounds": dict(BOUNDS)}
    return await desk.understood(held)


@tables.get("/{table}")
async def understood(desk: AtDesk, table: str) -> schemas.TableAnswer:
    """What was understood of a table."""
    return await desk.understood(desk.shelf.get(table))


@tables.put("/{table}/reading")
async def read_again(desk: AtDesk, table: str, how: schemas.Reading) -> schemas.TableAnswer:
    """Correct how a table is read, and forget the jobs about it; if it cannot be read so, nothing
    changes."""
    held = desk.shelf.get(table)
    await desk.at_ease(desk.shelf.read_again, held, how.model_dump(exclude_none=True))
    desk.jobs.forget(held)  # what they made is of a table that was read otherwise
    return await desk.understood(held)


@tables.delete("/{table}", status_code=204)
async def forget(desk: AtDesk, table: str) -> None:
    """Forget a table and all jobs about it."""
    desk.jobs.forget(desk.shelf.get(table))
    desk.shelf.forget(table)


@tables.get("/{table}/gaps")
async def gaps(desk: AtDesk, table: str, measurement: Name | None = None) -> schemas.Gaps:
    """When each station is missing."""
    held = desk.shelf.get(table)
    told: schemas.Gaps = await desk.at_ease(
        lambda: views.gaps(desk.shelf.source(held), measurement)
    )
    return told


@tables.get("/{table}/series")
async def series(desk: AtDesk, table: str, location: Name, measurement: Name) -> schemas.Series:
    """One series of a table."""
    held = desk.shelf.get(table)
    told: schemas.Series = await desk.at_ease(
        lambda: views.series(desk.shelf.source(held), location, measurement)
    )
    return told


# ------------------------------------------------------------------ jobs


@jobs.post("/tables/{table}/fill", status_code=202)
async def fill(desk: AtDesk, table: str, ask: schemas.AskFill) -> schemas.JobAnswer:
    """Fill the gaps of a table: a job that is worked off when its turn comes."""
    at = None if ask.at is None else await run_in_threadpool(places_in, ask.at)
    return await desk.begun(table, "fill", Fill(**(ask.model_dump() | {"at": at})))


@jobs.post("/tables/{table}/forecast", status_code=202)
async def forecast(desk: AtDesk, table: str, ask: schemas.AskForecast) -> schemas.JobAnswer:
    """Carry a table forward: a job as well."""
    wanted = Forecast(**(ask.model_dump() | {"known": tuple(ask.known)}))
    return await desk.begun(table, "forecast", wanted)


@jobs.post("/tables/{table}/score", status_code=202)
async def score(desk: AtDesk, table: str, ask: schemas.AskScore) -> schemas.JobAnswer:
    """Compare methods on cells that are hidden from them; the records are the job's."""
    wanted = Compare(**(ask.model_dump() | {"methods": tuple(ask.methods)}))
    return await desk.begun(table, "score", wanted)


@jobs.get("/jobs/{job}")
async def how_far(desk: AtDesk, job: str) -> schemas.JobAnswer:
    """How far a job is, and what came out."""
    return desk.told(desk.jobs.get(job))


@jobs.delete("/jobs/{job}")
async def cancel(desk: AtDesk, job: str) -> schemas.JobAnswer:
    """Cancel a job, whether it waits or runs."""
    found = desk.jobs.get(job)
    desk.jobs.cancel(found)
    return desk.told(found)


# ------------------------------------------------------------------ what came out


@results.get("/series")
async def filled_series(
    desk: AtDesk, job: str, location: Name, measurement: Name
) -> schemas.Series:
    """One series as it was filled, with intervals."""
    found = desk.jobs.get(job)
    told: schemas.Series = await desk.at_ease(
        lambda: views.filled_series(found, source_of(found, desk.shelf), location, measurement)
    )
    return told


@results.get("/cells")
async def filled_cells(
    desk: AtDesk,
    job: str,
    location: Name | None = None,
    measurement: Name | None = None,
    start: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    most: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> schemas.CellsAnswer:
    """The cells that were filled, some at a time."""
    found = desk.jobs.get(job)
    told: schemas.CellsAnswer = await desk.at_ease(
        lambda: views.filled_cells(
            found, source_of(found, desk.shelf), location, measurement, start, most
        )
    )
    return told


@results.get("/reasons")
async def reasons(
    desk: AtDesk,
    job: str,
    location: Name,
    measurement: Name,
    time: Name | None = None,
    step: Annotated[int | None, Query(ge=0, le=LARGEST)] = None,
    top: Annotated[int, Query(ge=1, le=100)] = 10,
) -> schemas.ReasonsAnswer:
    """Which measured cells a filled value comes from, as `cdsa explain`. When it is, is said by
    `time`, as the table writes it, or by `step`, the number that it has in a series."""
    found = desk.jobs.get(job)
    moment = time if step is None else step
    if moment is None:
        raise NotThereError("say when: by time or by step")
    told: schemas.ReasonsAnswer = await desk.at_ease(
        lambda: views.reasons(
            found, source_of(found, desk.shelf), moment, location, measurement, top
        )
    )
    return told


@results.get(
    "/files/{file}",
    responses={200: {"content": {kind: {} for kind in (*KINDS.values(), BYTES)}}},
    response_class=FileResponse,
)
async def fetch(
    desk: AtDesk, job: str, file: Literal["filled", "detail", "report"]
) -> FileResponse:
    """Fetch the filled table in its own layout, the detail file, or the report."""
    found = desk.jobs.get(job)
    path = found.files.get(file)
    if path is None or not path.is_file():
        raise NotThereError(f"this job has no {file} (any more): it is {found.state}")
    stem = found.held.name.rpartition("/")[2].split(".")[0] or "table"
    end = path.name.removeprefix("filled")
    return FileResponse(
        path,
        filename=f"{stem}-{found.kind}{end}" if file == "filled" else f"{stem}-{path.name}",
        media_type=KINDS.get(path.suffix[1:], BYTES),
        content_disposition_type="inline" if file == "report" else "attachment",
    )
