"""How the application is served: connections that send no request are closed."""

import asyncio

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 20.0
"""Time in which a connection sends the headers of its next request."""


class TimelyProtocol(H11Protocol):
    """Closes a connection whose next request does not begin in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_request()

    def _expect_request(self) -> None:
        self.loop.call_later(HEADER_SECONDS, self._close_unless_busy, self.cycle)

    def _close_unless_busy(self, cycle: object) -> None:
        is_waiting = self.cycle is cycle and (cycle is None or self.cycle.response_complete)
        if is_waiting and not self.transport.is_closing():
            self.transport.close()


def make_config(app: FastAPI, log_level: str = "warning") -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=TimelyProtocol,
        log_level=log_level,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
