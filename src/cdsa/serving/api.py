"""The server: a page, and the REST API underneath it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from importlib.resources import as_file, files
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from fastapi_offline import FastAPIOffline
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from cdsa.errors import CdsaError
from cdsa.method import methods
from cdsa.serving import answers, looks
from cdsa.serving.doing import (
    Ask,
    Compare,
    Fill,
    Forecast,
    do,
    places_in,
    places_of,
    refuse,
    source_of,
)
from cdsa.serving.guard import Guard
from cdsa.serving.jobs import Job, Jobs, Kind
from cdsa.serving.limits import Limits
from cdsa.serving.shelf import (
    ENDS,
    Held,
    NotThereError,
    Shelf,
    TooLargeError,
    TooMuchError,
    open_here,
)
from cdsa.sources.demo import BOUNDS, UNITS

READERS = 2
"""Tables that are read at the same time."""
PAGE = {
    "/": ("page/index.html", "text/html"),
    "/page.js": ("page/page.js", "text/javascript"),
    "/page.css": ("page/page.css", "text/css"),
    "/chart.js": ("../reporting/chart.js", "text/javascript"),
    "/style.css": ("../reporting/style.css", "text/css"),
}
Name = Annotated[str, Query(min_length=1, max_length=200)]
PROBLEMS: dict[int | str, dict[str, Any]] = {
    404: {"model": answers.Problem, "description": "There is no such thing, or not any more."},
    422: {"model": answers.Problem, "description": "It cannot be done; the text says why."},
    429: {"model": answers.Problem, "description": "Too much at the same time."},
}
FILES = ("filled", "detail", "report")
SWEEP_SECONDS = 30
"""Between two looks for what nobody asked for in a while."""
KINDS = ("text/csv", "text/html", "application/octet-stream")
"""Of files, as browsers call them."""


def make_app(limits: Limits | None = None, *, hosts: tuple[str, ...] = ()) -> FastAPI:
    """The application; it answers requests to these host names, or to all if none is given."""
    bounds = limits or Limits()
    shelf = Shelf(bounds)
    jobs = Jobs(bounds, shelf, lambda job: do(job, shelf, bounds))
    readers = asyncio.Semaphore(READERS)

    def close() -> None:
        jobs.close()
        shelf.close()

    async def tidy() -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await run_in_threadpool(jobs.sweep)

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(tidy())
        yield
        sweeper.cancel()
        close()

    app: FastAPI = FastAPIOffline(
        title="cdsa",
        version=version("cdsa"),
        description="Fill and forecast sensor networks: a table with holes in, the same table "
        "filled out. What is sent is kept under an id that only its sender knows, and forgotten "
        "after a while.",
        lifespan=life,
    )
    app.state.close = close  # for a server that is stopped before its life is over
    app.add_middleware(Guard, hosts=hosts)
    _answer_errors(app)

    async def at_ease(work: Callable[..., Any], *given: Any) -> Any:
        """Do something that takes a while, not more than a few at the same time."""
        async with readers:
            return await run_in_threadpool(work, *given)

    async def understand(held: Held) -> answers.TableAnswer:
        told: answers.TableAnswer = await at_ease(lambda: looks.table(held, shelf.source(held)))
        return told

    def answer(job: Job) -> answers.JobAnswer:
        return answers.JobAnswer(
            id=job.id,
            table=job.held.id,
            kind=job.kind,
            state=job.state,
            ahead=jobs.ahead(job),
            doing=job.doing,
            share=job.share,
            seconds=round(job.seconds, 1),
            told=list(job.told),
            error=job.error,
            records=[dict(record) for record in job.records],
            files=[name for name in FILES if name in job.files],
            places=looks.places(places_of(job)),
            explains=job.filler is not None and job.state == "done",
        )

    async def begun(table: str, kind: Kind, wanted: Ask) -> answers.JobAnswer:
        held = shelf.get(table)
        await run_in_threadpool(refuse, wanted, bounds)
        return answer(jobs.add(held, kind, wanted))

    @app.get("/api/health", tags=["server"])
    async def health() -> answers.Health:
        """Whether the server is up, and what it allows."""
        return answers.Health(
            version=version("cdsa"),
            tables=shelf.count,
            megabytes=bounds.megabytes,
            training_minutes=bounds.training_minutes,
            keep_minutes=bounds.keep_minutes,
            ends=list(ENDS),
        )

    @app.get("/api/methods", tags=["server"])
    async def all_methods() -> list[answers.MethodAnswer]:
        """The methods there are, as `cdsa methods` tells of them."""
        return [
            answers.MethodAnswer(
                name=info.name,
                title=info.summary,
                task=[word for word in ("fill", "forecast") if word in info.task],
                trains=info.trains,
                needs=info.needs or None,
                installed=info.installed,
                paper=info.paper,
            )
            for info in methods()
        ]

    body = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}

    @app.post(
        "/api/tables",
        tags=["tables"],
        status_code=201,
        responses=PROBLEMS | {413: {"model": answers.Problem, "description": "It is too large."}},
        openapi_extra={"requestBody": {"required": True, "content": body}},
    )
    async def send(
        request: Request,
        name: Name,
        reading: Annotated[str | None, Query(max_length=20_000)] = None,
    ) -> answers.TableAnswer:
        """Send a table, a CSV or Parquet file as the body of the request; `name` is the file's,
        `reading` says how it is to be read, as JSON. What was understood of it comes back."""
        how = answers.Reading.model_validate_json(reading or "{}")
        held = await shelf.take(name, request.stream())
        held.reading = how.model_dump(exclude_none=True)
        try:
            return await understand(held)
        except BaseException:
            shelf.forget(held.id)
            raise

    @app.post("/api/tables/example", tags=["tables"], status_code=201, responses=PROBLEMS)
    async def example() -> answers.TableAnswer:
        """The example: a year of weather at the three airports of New York."""
        with as_file(files("cdsa") / "data" / "nyc_weather.csv.gz") as path:
            held = shelf.keep("nyc_weather.csv.gz", path)
        held.reading = {"units": dict(UNITS), "bounds": dict(BOUNDS)}
        return await understand(held)

    @app.get("/api/tables/{table}", tags=["tables"], responses=PROBLEMS)
    async def understood(table: str) -> answers.TableAnswer:
        """What was understood of a table."""
        held = shelf.get(table)
        return await understand(held)

    @app.put("/api/tables/{table}/reading", tags=["tables"], responses=PROBLEMS)
    async def read_again(table: str, how: answers.Reading) -> answers.TableAnswer:
        """Correct how a table is read, and forget the jobs about it; if it cannot be read so,
        nothing changes."""
        held = shelf.get(table)
        wanted = how.model_dump(exclude_none=True)
        await at_ease(open_here, held, wanted, bounds)
        jobs.forget(held)  # what they made is of a table that was read otherwise
        held.reading = wanted
        return await understand(held)

    @app.delete("/api/tables/{table}", tags=["tables"], status_code=204, responses=PROBLEMS)
    async def forget(table: str) -> None:
        """Forget a table and all jobs about it."""
        held = shelf.get(table)
        jobs.forget(held)
        shelf.forget(table)

    @app.get("/api/tables/{table}/gaps", tags=["tables"], responses=PROBLEMS)
    async def gaps(table: str, measurement: Name | None = None) -> answers.Gaps:
        """When each station is missing."""
        held = shelf.get(table)
        told: answers.Gaps = await at_ease(lambda: looks.gaps(shelf.source(held), measurement))
        return told

    @app.get("/api/tables/{table}/series", tags=["tables"], responses=PROBLEMS)
    async def series(table: str, location: Name, measurement: Name) -> answers.Series:
        """One series of a table."""
        held = shelf.get(table)
        told: answers.Series = await at_ease(
            lambda: looks.series(shelf.source(held), location, measurement)
        )
        return told

    @app.post("/api/tables/{table}/fill", tags=["jobs"], status_code=202, responses=PROBLEMS)
    async def fill(table: str, ask: answers.AskFill) -> answers.JobAnswer:
        """Fill the gaps of a table: a job that is worked off when its turn comes."""
        at = None if ask.at is None else await run_in_threadpool(places_in, ask.at)
        return await begun(table, "fill", Fill(**(ask.model_dump() | {"at": at})))

    @app.post("/api/tables/{table}/forecast", tags=["jobs"], status_code=202, responses=PROBLEMS)
    async def forecast(table: str, ask: answers.AskForecast) -> answers.JobAnswer:
        """Carry a table forward: a job as well."""
        wanted = Forecast(**(ask.model_dump() | {"known": tuple(ask.known)}))
        return await begun(table, "forecast", wanted)

    @app.post("/api/tables/{table}/score", tags=["jobs"], status_code=202, responses=PROBLEMS)
    async def score(table: str, ask: answers.AskScore) -> answers.JobAnswer:
        """Compare methods on cells that are hidden from them; the records are the job's."""
        wanted = Compare(**(ask.model_dump() | {"methods": tuple(ask.methods)}))
        return await begun(table, "score", wanted)

    @app.get("/api/jobs/{job}", tags=["jobs"], responses=PROBLEMS)
    async def how_far(job: str) -> answers.JobAnswer:
        """How far a job is, and what came out."""
        return answer(jobs.get(job))

    @app.delete("/api/jobs/{job}", tags=["jobs"], responses=PROBLEMS)
    async def cancel(job: str) -> answers.JobAnswer:
        """Cancel a job: at once if it waits, at its next step if it runs."""
        found = jobs.get(job)
        jobs.cancel(found)
        return answer(found)

    @app.get("/api/jobs/{job}/series", tags=["results"], responses=PROBLEMS)
    async def filled_series(job: str, location: Name, measurement: Name) -> answers.Series:
        """One series as it was filled, with intervals."""
        found = jobs.get(job)
        told: answers.Series = await at_ease(
            lambda: looks.filled_series(found, source_of(found, shelf), location, measurement)
        )
        return told

    @app.get("/api/jobs/{job}/cells", tags=["results"], responses=PROBLEMS)
    async def filled_cells(
        job: str,
        location: Name | None = None,
        measurement: Name | None = None,
        start: Annotated[int, Query(ge=0, le=10**9)] = 0,
        most: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> answers.CellsAnswer:
        """The cells that were filled, some at a time."""
        found = jobs.get(job)
        told: answers.CellsAnswer = await at_ease(
            lambda: looks.filled_cells(
                found, source_of(found, shelf), location, measurement, start, most
            )
        )
        return told

    @app.get("/api/jobs/{job}/reasons", tags=["results"], responses=PROBLEMS)
    async def reasons(
        job: str,
        time: Name,
        location: Name,
        measurement: Name,
        top: Annotated[int, Query(ge=1, le=100)] = 10,
    ) -> answers.ReasonsAnswer:
        """Which measured cells a filled value comes from, as `cdsa explain`."""
        found = jobs.get(job)
        told: answers.ReasonsAnswer = await at_ease(
            lambda: looks.reasons(found, source_of(found, shelf), time, location, measurement, top)
        )
        return told

    @app.get(
        "/api/jobs/{job}/files/{file}",
        tags=["results"],
        responses=PROBLEMS | {200: {"content": {kind: {} for kind in KINDS}}},
        response_class=FileResponse,
    )
    async def fetch(job: str, file: Literal["filled", "detail", "report"]) -> FileResponse:
        """Fetch the filled table in its own layout, the detail file, or the report."""
        found = jobs.get(job)
        path = found.files.get(file)
        if path is None:
            raise NotThereError(f"this job has no {file}: it is {found.state}")
        name = found.held.name.rpartition("/")[2]
        stem = name.split(".")[0] or "table"
        end = path.name.removeprefix("filled")
        return FileResponse(
            path,
            filename=f"{stem}-{found.kind}{end}" if file == "filled" else f"{stem}-{path.name}",
            media_type=_media(path.name),
            content_disposition_type="inline" if file == "report" else "attachment",
        )

    for route, (resource, media) in PAGE.items():
        app.get(route, include_in_schema=False)(_static(resource, media))
    return app


def _media(name: str) -> str:
    if name.endswith(".html"):
        return "text/html"
    return "text/csv" if name.endswith(".csv") else "application/octet-stream"


def _static(resource: str, media: str) -> Callable[[], Awaitable[Response]]:
    where = files("cdsa") / "serving"
    for part in resource.split("/"):
        where = files("cdsa") if part == ".." else where / part
    text = where.read_text(encoding="utf-8")

    async def page() -> Response:
        kind = HTMLResponse if media == "text/html" else Response
        return kind(text, media_type=media, headers={"Cache-Control": "no-cache"})

    return page


def _answer_errors(app: FastAPI) -> None:
    """What can be mended is answered in the words of the command line."""

    def answered(code: int) -> Callable[[Request, Exception], Awaitable[JSONResponse]]:
        async def handler(request: Request, bad: Exception) -> JSONResponse:
            return JSONResponse({"detail": str(bad)}, status_code=code)

        return handler

    async def invalid(request: Request, bad: Exception) -> JSONResponse:
        assert isinstance(bad, RequestValidationError | ValidationError)
        parts = [f"{_place(one['loc'])}: {one['msg']}" for one in bad.errors()]
        return JSONResponse({"detail": "; ".join(parts)}, status_code=422)

    app.exception_handler(RequestValidationError)(invalid)
    app.exception_handler(ValidationError)(invalid)
    app.exception_handler(NotThereError)(answered(404))
    app.exception_handler(TooLargeError)(answered(413))
    app.exception_handler(TooMuchError)(answered(429))
    app.exception_handler(CdsaError)(answered(422))


def _place(parts: tuple[int | str, ...]) -> str:
    """Where in a request something is, in words."""
    told = [str(part) for part in parts if part not in ("body", "query", "path")]
    return ".".join(told) or "the request"
