"""The operations of the API: about the server, tables, jobs and their results."""

from importlib.metadata import version
from importlib.resources import as_file, files
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from pydantic import ValidationError

from cdsa.datasets.nyc_weather import BOUNDS, UNITS
from cdsa.errors import TableError
from cdsa.io.files import UPLOAD_SUFFIXES
from cdsa.methods.registry import list_methods
from cdsa.web import schemas, views
from cdsa.web.services import ServicesDep
from cdsa.web.store import NotFoundError

Name = Annotated[str, Query(min_length=1, max_length=200)]

ERRORS = {
    400: "The request is not valid JSON or HTTP.",
    403: "The request comes from a page of another origin, or uses an unknown host name.",
    404: "It does not exist, or no longer exists.",
    411: "The Content-Length is missing.",
    413: "It is too large.",
    422: "It cannot be done; the message says why.",
    429: "The server is busy or full.",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.Problem, "description": text} for code, text in ERRORS.items()
}

BINARY = "application/octet-stream"
MEDIA_TYPES = {"html": "text/html", "csv": "text/csv"}
"""By suffix; all other files are binary."""

EXAMPLE = "nyc_weather.csv.gz"

server = APIRouter(prefix="/api", tags=["server"], responses=RESPONSES)
tables = APIRouter(prefix="/api/tables", tags=["tables"], responses=RESPONSES)
jobs = APIRouter(prefix="/api", tags=["jobs"], responses=RESPONSES)
results = APIRouter(prefix="/api/jobs/{job}", tags=["results"], responses=RESPONSES)


# --- the server -----------------------------------------------------------------------------------


@server.get("/health")
async def health(services: ServicesDep) -> schemas.Health:
    """The version and the limits of the server."""
    content = vars(services.limits) | {"suffixes": UPLOAD_SUFFIXES, "tables": len(services.store)}
    return schemas.Health.model_validate(content | {"version": version("cdsa")})


@server.get("/methods")
async def methods() -> list[schemas.MethodSummary]:
    """All methods, as `cdsa methods` lists them."""
    return [
        schemas.MethodSummary(
            name=info.name,
            title=info.summary,
            task=[task for task in ("fill", "forecast") if task in info.task],
            trains=info.trains,
            needs=info.needs or None,
            installed=info.installed,
            paper=info.paper,
        )
        for info in list_methods()
    ]


# --- tables ---------------------------------------------------------------------------------------

_BODY = {BINARY: {"schema": {"type": "string", "format": "binary"}}}


@tables.post(
    "", status_code=201, openapi_extra={"requestBody": {"required": True, "content": _BODY}}
)
async def upload(
    services: ServicesDep, request: Request, query: Annotated[schemas.UploadQuery, Query()]
) -> schemas.TableSummary:
    """Upload a table: a CSV or Parquet file as the body of the request. The response says how it
    was read."""
    try:
        options = schemas.ReadOptions.model_validate_json(query.options or "{}")
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from error
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise TableError(
            "the body of the request must be the file itself, not a form: curl --data-binary "
            "@air.csv"
        )
    table = await services.store.receive(query.name, request.stream(), _address(request))
    table.options = options.model_dump(exclude_none=True)
    try:
        return await services.summary(table)
    except BaseException:
        services.store.remove(table.id)
        raise


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


@tables.post("/example", status_code=201)
async def use_example(services: ServicesDep) -> schemas.TableSummary:
    """Store the example table: a year of weather at the three airports of New York."""
    with as_file(files("cdsa") / "data" / EXAMPLE) as path:
        table = services.store.add_copy(EXAMPLE, path)
    table.options = {"units": dict(UNITS), "bounds": dict(BOUNDS)}
    return await services.summary(table)


@tables.get("/{table}")
async def summary(services: ServicesDep, table: str) -> schemas.TableSummary:
    """What a table contains, and how it was read."""
    return await services.summary(services.store.get(table))


@tables.put("/{table}/options")
async def set_options(
    services: ServicesDep, table: str, options: schemas.ReadOptions
) -> schemas.TableSummary:
    """Read a table with other options. Its jobs are removed, as their results no longer apply; if
    the table cannot be read, nothing changes."""
    stored = services.store.get(table)
    new_options = options.model_dump(exclude_none=True)
    await services.run_limited(services.store.parsed, stored, new_options)
    stored.options = new_options
    services.jobs.remove_all(stored)
    return await services.summary(stored)


@tables.delete("/{table}", status_code=204)
async def remove(services: ServicesDep, table: str) -> None:
    """Remove a table and its jobs."""
    services.jobs.remove_all(services.store.get(table))
    services.store.remove(table)


@tables.get("/{table}/gaps")
async def gaps(
    services: ServicesDep, table: str, measurement: Name | None = None
) -> schemas.MissingOverTime:
    """How much of each station is missing, over time."""
    stored = services.store.get(table)
    return await services.run_limited(
        lambda: views.gaps(services.store.parsed(stored), measurement)
    )


@tables.get("/{table}/series")
async def series(
    services: ServicesDep, table: str, location: Name, measurement: Name
) -> schemas.Series:
    """A series of a table."""
    stored = services.store.get(table)
    return await services.run_limited(
        lambda: views.series(services.store.parsed(stored), location, measurement)
    )


# --- jobs -----------------------------------------------------------------------------------------


def _add_job(body: type[schemas.JobRequest]) -> None:
    """Add the operation that submits a job of a kind."""

    async def submit(
        services: ServicesDep,
        table: str,
        request: body,  # type: ignore[valid-type]
    ) -> schemas.JobStatus:
        return await services.submit(table, request)

    path = f"/tables/{{table}}/{body.kind}"
    jobs.post(path, name=body.kind, description=body.__doc__, status_code=202)(submit)


for request in schemas.JOB_REQUESTS:
    _add_job(request)


@jobs.get("/jobs/{job}")
async def status(services: ServicesDep, job: str) -> schemas.JobStatus:
    """The progress and the results of a job."""
    return services.status(services.jobs.get(job))


@jobs.delete("/jobs/{job}")
async def cancel(services: ServicesDep, job: str) -> schemas.JobStatus:
    """Cancel a waiting or running job."""
    cancelled = services.jobs.get(job)
    services.jobs.cancel(cancelled)
    return services.status(cancelled)


# --- results --------------------------------------------------------------------------------------


@results.get("/series")
async def filled_series(
    services: ServicesDep, job: str, location: Name, measurement: Name
) -> schemas.Series:
    """A filled or forecast series with prediction intervals."""
    return await services.run_limited(
        views.filled_series, services.jobs.get(job), services.store, location, measurement
    )


@results.get("/cells")
async def filled_cells(
    services: ServicesDep, job: str, query: Annotated[schemas.CellsQuery, Query()]
) -> schemas.FilledCells:
    """A page of the filled or forecast cells."""
    return await services.run_limited(
        views.filled_cells, services.jobs.get(job), services.store, query
    )


@results.get("/explanation")
async def explanation(
    services: ServicesDep, job: str, query: Annotated[schemas.ExplanationQuery, Query()]
) -> schemas.Explanation:
    """The measured cells that a filled value comes from, as `cdsa explain`."""
    path = services.jobs.get(job).files.get("explainer")
    if path is None or not path.is_file():
        raise NotFoundError("only values filled by a network can be explained; this job has none")
    return await services.run_in_process(views.explanation, path, query)


@results.get(
    "/files/{file}",
    responses={200: {"content": {media: {} for media in (*MEDIA_TYPES.values(), BINARY)}}},
    response_class=FileResponse,
)
async def download(services: ServicesDep, job: str, file: schemas.Download) -> FileResponse:
    """Download the filled table in its own layout, the detail file, or the report."""
    ended = services.jobs.get(job)
    path = ended.files.get(file)
    if path is None or not path.is_file():
        raise NotFoundError(f"this job has no {file} file (any more); its state is {ended.state}")
    stem = ended.table.name.rpartition("/")[2].split(".")[0] or "table"
    suffix = path.name.removeprefix("filled")
    return FileResponse(
        path,
        filename=f"{stem}-{ended.kind}{suffix}" if file == "filled" else f"{stem}-{path.name}",
        media_type=MEDIA_TYPES.get(path.suffix[1:], BINARY),
        content_disposition_type="inline" if file == "report" else "attachment",
    )
