"""Checks on every request, and headers that say what a browser may do with the response.

A page of another origin can make a visitor's browser send requests to this server. It cannot read
the responses, but it could change something, so such requests are refused. Requests to a host name
that is not the server's own are refused as well: somebody may have pointed another name at it.
"""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BRACKETED = re.compile(r"\[([^\[\]]*)\](?::\d*)?")
"""An IPv6 address as a host, with or without a port."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of the local machine."""

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
DOCS_POLICY = PAGE_POLICY + "; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'"
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; img-src data:; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'"
)
"""A report is a page of its own, without any rights on this server."""

UPLOAD_PATH = "/api/tables"
"""The only path that accepts large bodies."""

MAX_BODY = 1_000_000
"""Bytes of any other request."""


class Guard:
    """Middleware that refuses foreign requests and adds security headers."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
                headers["Content-Security-Policy"] = _policy(scope["path"])
                if scope["path"].startswith("/api/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        headers = Headers(scope=scope)
        problem, status = self._foreign(scope["method"], headers), 403
        if problem is None and scope["path"] != UPLOAD_PATH:
            problem, status = _too_long(headers)
        app = self.app
        if problem is not None:
            app = JSONResponse({"detail": problem}, status_code=status)
        await app(scope, receive, send_with_headers)

    def _foreign(self, method: str, headers: Headers) -> str | None:
        """Why a request is refused as foreign, if it is."""
        host = headers.get("host", "")
        name = _host_name(host)
        if name not in self.hosts and not _is_address(name):
            return (
                f"this server is called {', '.join(self.hosts)}, not '{name}'. If that is its "
                f"name, start it with --name {name}"
            )
        if method in SAFE_METHODS:
            return None
        origin = headers.get("origin")
        if origin is not None and _host_of(origin) != host:
            return "a page of another origin may not change anything here"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "a page of another site may not change anything here"
        return None


def _too_long(headers: Headers) -> tuple[str | None, int]:
    """Why the body of a request is not read, if it is not, and the status code."""
    if "transfer-encoding" in headers:
        return "a Content-Length is required here", 411
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY:
        return f"the body of this request may have at most {MAX_BODY:,} bytes", 413
    return None, 200


def _is_address(name: str) -> bool:
    """Whether a host is an IP address, which nobody can point elsewhere."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _host_name(host: str) -> str:
    """A host without its port, in lower case; an IPv6 address without its brackets."""
    address = BRACKETED.fullmatch(host)
    return address.group(1) if address else host.partition(":")[0].lower()


def _host_of(origin: str) -> str | None:
    """The host, with its port, of an origin; None if it has none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:  # such as http://[
        return None


def _policy(path: str) -> str:
    if path.startswith("/api/jobs/") and path.endswith("/files/report"):
        return REPORT_POLICY
    return DOCS_POLICY if path == "/docs" else PAGE_POLICY
