"""The server: a page, and the REST API underneath it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from importlib.resources import files

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi_offline import FastAPIOffline
from starlette.requests import ClientDisconnect

from cdsa.errors import CdsaError
from cdsa.web import routes
from cdsa.web.limits import Limits
from cdsa.web.parsing import TooLargeError
from cdsa.web.security import LOOPBACK, Guard
from cdsa.web.services import Services
from cdsa.web.store import CapacityError, NotFoundError

MEDIA_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}

SHARED = ("chart.js", "style.css")
"""Files that the page has in common with a report."""

STATUS_CODES: dict[type[Exception], int] = {
    RequestValidationError: 422,
    NotFoundError: 404,
    TooLargeError: 413,
    CapacityError: 429,
    CdsaError: 422,
    ClientDisconnect: 400,  # nobody reads it
}
MOVED = {"/api/tables/{table}/reading": "options", "/api/jobs/{job}/reasons": "explanation"}
"""Former paths, and the new name of their last part."""


def make_app(limits: Limits | None = None, *, hosts: tuple[str, ...] = LOOPBACK) -> FastAPI:
    """The application; it answers requests to these host names, and to IP addresses. Jobs run in
    other processes, so a script must serve it below `if __name__ == "__main__"`."""
    services = Services(limits or Limits())

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        cleaner = asyncio.create_task(services.clean_up())
        yield
        cleaner.cancel()
        services.close()

    app: FastAPI = FastAPIOffline(
        title="cdsa",
        version=version("cdsa"),
        description="Fill gaps in sensor networks and forecast them. Upload a table with gaps and "
        "download the same table filled. Uploads are stored under an id that only their sender "
        "knows, and removed after a while.",
        lifespan=lifespan,
        redoc_url=None,
    )
    app.state.services = services
    app.add_middleware(Guard, hosts=hosts)
    for router in (routes.server, routes.tables, routes.jobs, routes.results):
        app.include_router(router)
    _add_page(app)
    _add_moved(app)
    _add_error_handlers(app)
    return app


def _add_page(app: FastAPI) -> None:
    static, shared = files("cdsa") / "web" / "static", files("cdsa") / "report"
    paths = {f"/page/{file.name}": file for file in static.iterdir() if file.name != "index.html"}
    paths |= {f"/page/{name}": shared / name for name in SHARED}
    paths["/"] = static / "index.html"
    for path, file in paths.items():
        media_type = MEDIA_TYPES[file.name.rpartition(".")[2]]
        endpoint = _constant(file.read_text(encoding="utf-8"), media_type)
        app.get(path, include_in_schema=False)(endpoint)


def _constant(text: str, media_type: str) -> Callable[[], Awaitable[Response]]:
    async def endpoint() -> Response:
        return Response(text, media_type=media_type, headers={"Cache-Control": "no-cache"})

    return endpoint


def _add_moved(app: FastAPI) -> None:
    """Answer former paths with the new ones."""

    async def endpoint(request: Request) -> Response:
        old, new = request.url.path.rpartition("/")[2], MOVED[request.scope["route"].path]
        raise NotFoundError(f"'{old}' is called '{new}' now")

    for path in MOVED:
        app.api_route(path, methods=["GET", "PUT"], include_in_schema=False)(endpoint)


def _add_error_handlers(app: FastAPI) -> None:
    """Answer errors with the messages of the command line."""

    async def handle(request: Request, error: Exception) -> JSONResponse:
        status = next(code for kind, code in STATUS_CODES.items() if isinstance(error, kind))
        text = str(error)
        if isinstance(error, RequestValidationError):
            text = "; ".join(_message(detail["loc"], detail["msg"]) for detail in error.errors())
        return JSONResponse({"detail": text}, status_code=status)

    for kind in STATUS_CODES:
        app.exception_handler(kind)(handle)


def _message(location: tuple[int | str, ...], text: str) -> str:
    """An error of validation, with the field it is about."""
    field = ".".join(str(part) for part in location if part not in ("body", "query", "path"))
    text = text.removeprefix("Value error, ")
    return f"{field}: {text}" if field else text
