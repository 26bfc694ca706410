"""What every request passes: who may ask, and what a browser may do with the answer.

A page of another origin can make a visitor's browser send requests here. It cannot read what comes
back, but it could change something, so such requests are refused. Requests to another host name
than those the server is known by are refused too: somebody may have pointed his own name at it.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""This machine, by its own names."""


HARMLESS = ("GET", "HEAD", "OPTIONS")


POLICY = (
    "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)


DOCS = POLICY + "; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'"


REPORT = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; img-src data:; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'"
)
"""A report is a page of its own, with nothing of this server's rights."""


LARGE = "/api/tables"
"""Where something large may be sent; all else is a few words."""


A_FEW_WORDS = 1_000_000
"""Bytes of a request."""


class Guard:
    """Refuses requests of others, and says what a browser may do with answers."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                told = MutableHeaders(scope=message)
                told["X-Content-Type-Options"] = "nosniff"
                told["Referrer-Policy"] = "no-referrer"
                told["Content-Security-Policy"] = _policy(scope["path"])
                if scope["path"].startswith("/api/"):
                    told["Cache-Control"] = "no-store"
            await send(message)

        headers = Headers(scope=scope)
        refusal, status = self._refusal(scope["method"], headers), 403
        if refusal is None and scope["path"] != LARGE:
            refusal, status = _too_long(headers)
        answer = self.app
        if refusal is not None:
            answer = JSONResponse({"detail": refusal}, status_code=status)
        await answer(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if _name(host) not in self.hosts and not _is_address(_name(host)):
            return (
                f"this server is known as {', '.join(self.hosts)}, not as '{_name(host)}'. Start "
                f"it with --name {_name(host)} if that is right"
            )
        if method in HARMLESS:
            return None
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "a page of another origin may not change anything here"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "a page of another site may not change anything here"
        return None


def _too_long(headers: Headers) -> tuple[str | None, int]:
    """Why a request that should be a few words is not read, if it is not."""
    if "transfer-encoding" in headers:
        return "say how long this is: a Content-Length is needed here", 411
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > A_FEW_WORDS:
        return f"this may have {A_FEW_WORDS:,} bytes at the most", 413
    return None, 200


def _is_address(name: str) -> bool:
    """Whether a host is named by its number, which nobody can point elsewhere."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _name(host: str) -> str:
    """A host name without its port."""
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0].lower()


def _policy(path: str) -> str:
    if path.startswith("/api/jobs/") and path.endswith("/files/report"):
        return REPORT
    return DOCS if path == "/docs" else POLICY
