"""cdsa serve."""

from typing import Annotated

from cdsa.cli.options import option
from cdsa.web.limits import Limits

HOST_HELP = "Address to listen on; by default only this machine can connect."


def serve(
    *,
    port: Annotated[int, option("--port", "N", "0 for any free port.", min=0, max=65535)] = 8000,
    host: Annotated[str, option("--host", "ADDRESS", HOST_HELP)] = "127.0.0.1",
    name: Annotated[
        list[str] | None, option("--name", "HOST", "Another host name that the page is reached by.")
    ] = None,
    megabytes: Annotated[
        float, option("--megabytes", "N", "Largest table that may be uploaded.")
    ] = Limits.megabytes,
    minutes: Annotated[
        float, option("--minutes", "N", "Longest training of a job.")
    ] = Limits.training_minutes,
    keep: Annotated[
        float, option("--keep", "N", "Minutes after which unused tables are deleted.")
    ] = Limits.keep_minutes,
) -> None:
    """Fill and forecast tables in a browser; the page has a REST API, documented at /docs."""
    import contextlib
    import logging
    import signal
    import socket
    from importlib.util import find_spec

    from cdsa.cli import console
    from cdsa.errors import ConfigError, MissingExtraError

    for package in ("fastapi", "fastapi_offline", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtraError("the page", package, "web")
    import uvicorn

    from cdsa.web.app import make_app
    from cdsa.web.security import LOOPBACK
    from cdsa.web.server import make_config

    limits = Limits(
        megabytes=megabytes,
        training_minutes=minutes,
        job_minutes=max(Limits.job_minutes, 2 * minutes),
        keep_minutes=keep,
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}. Choose another "
            "port with --port; 0 takes any free one"
        ) from error
    hosts = (*LOOPBACK, *(name or ()))
    if host not in LOOPBACK:
        console.note("everyone who reaches this machine can use the page; there are no passwords")
        hosts += (host, socket.gethostname())
    address = f"[{host}]" if ":" in host else host
    console.out.print(f"http://{address}:{listener.getsockname()[1]}/   (Ctrl-C to stop)")
    app = make_app(limits, hosts=tuple(dict.fromkeys(map(str.lower, hosts))))
    errors = logging.StreamHandler()
    errors.setLevel(logging.ERROR)
    logging.getLogger("cdsa").addHandler(errors)  # visitors get one sentence of them
    # SIGTERM and a closed terminal end it as Ctrl-C does, and leave nothing behind
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(make_config(app)).run(sockets=[listener])
    finally:  # also if the server was stopped while it started
        app.state.services.close()
