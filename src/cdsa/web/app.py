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
from cdsa.web.security import LOOPBACK, Guard
from cdsa.web.services import Desk
from cdsa.web.store import NotThereError, TooLargeError, TooMuchError

MEDIA = {"html": "text/html", "js": "text/javascript", "css": "text/css"}


SHARED = ("chart.js", "style.css")
"""What the page has in common with a report."""


def make_app(limits: Limits | None = None, *, hosts: tuple[str, ...] = LOOPBACK) -> FastAPI:
    """The application; it answers requests to these host names, and to numbers. Jobs run in other
    processes, so a script that serves it does so below `if __name__ == "__main__"`."""
    desk = Desk(limits or Limits())

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(desk.tidy())
        yield
        sweeper.cancel()
        desk.close()

    app: FastAPI = FastAPIOffline(
        title="cdsa",
        version=version("cdsa"),
        description="Fill and forecast sensor networks: a table with holes in, the same table "
        "filled out. What is sent is kept under an id that only its sender knows, and forgotten "
        "after a while.",
        lifespan=life,
        redoc_url=None,
    )
    app.state.desk = desk
    app.add_middleware(Guard, hosts=hosts)
    for router in (routes.server, routes.tables, routes.jobs, routes.results):
        app.include_router(router)
    _show_page(app)
    _answer_errors(app)
    return app


def _show_page(app: FastAPI) -> None:
    """The files of the page, as they are."""
    page = files("cdsa") / "web" / "static"
    shared = files("cdsa") / "report"
    found = {f"/page/{one.name}": one for one in page.iterdir() if one.name != "index.html"}
    found |= {f"/page/{name}": shared / name for name in SHARED}
    for route, one in (found | {"/": page / "index.html"}).items():
        media = MEDIA[one.name.rpartition(".")[2]]
        app.get(route, include_in_schema=False)(_told(one.read_text(encoding="utf-8"), media))


def _told(text: str, media: str) -> Callable[[], Awaitable[Response]]:
    async def answer() -> Response:
        return Response(text, media_type=media, headers={"Cache-Control": "no-cache"})

    return answer


def _answer_errors(app: FastAPI) -> None:
    """What can be mended is answered in the words of the command line."""

    def answered(code: int) -> Callable[[Request, Exception], Awaitable[JSONResponse]]:
        async def handler(request: Request, bad: Exception) -> JSONResponse:
            return JSONResponse({"detail": str(bad)}, status_code=code)

        return handler

    async def invalid(request: Request, bad: Exception) -> JSONResponse:
        assert isinstance(bad, RequestValidationError)
        parts = [f"{_place(one['loc'])}: {one['msg']}" for one in bad.errors()]
        return JSONResponse({"detail": "; ".join(parts)}, status_code=422)

    app.exception_handler(RequestValidationError)(invalid)
    app.exception_handler(NotThereError)(answered(404))
    app.exception_handler(TooLargeError)(answered(413))
    app.exception_handler(TooMuchError)(answered(429))
    app.exception_handler(CdsaError)(answered(422))
    app.exception_handler(ClientDisconnect)(answered(400))  # nobody is there to read it


def _place(parts: tuple[int | str, ...]) -> str:
    """Where in a request something is, in words."""
    told = [str(part) for part in parts if part not in ("body", "query", "path")]
    return ".".join(told) or "the request"
