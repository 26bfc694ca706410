"""The command that starts the page: serve."""

from typing import Annotated

import typer

from cdsa.web.limits import Limits


def serve(
    *,
    port: Annotated[int, typer.Option("--port", help="0 takes any free one.", min=0, max=65535)] = (
        8000
    ),
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; this machine only, if not given.")
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="Another name that the page is reached by."),
    ] = None,
    megabytes: Annotated[
        float, typer.Option("--megabytes", help="Largest table that may be sent.", metavar="N")
    ] = Limits.megabytes,
    minutes: Annotated[
        float, typer.Option("--minutes", help="Longest training of a job.", metavar="N")
    ] = Limits.training_minutes,
    keep: Annotated[
        float,
        typer.Option("--keep", help="Minutes after which unused tables are gone.", metavar="N"),
    ] = Limits.keep_minutes,
) -> None:
    """Fill and forecast tables in a browser: a page, and a REST API underneath (/docs)."""
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

    limits = Limits(
        megabytes=megabytes,
        training_minutes=minutes,
        job_minutes=max(Limits.job_minutes, 2 * minutes),
        keep_minutes=keep,
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family)
    except OSError as bad:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {bad.strerror or bad}. Choose another with "
            "--port, or --port 0 for any free one"
        ) from bad
    hosts = (*LOOPBACK, *(name or ()))
    if host not in LOOPBACK:
        console.note("everyone who reaches this machine can use the page; there are no passwords")
        hosts += (host, socket.gethostname())
    where = f"[{host}]" if ":" in host else host
    console.say(f"http://{where}:{bound.getsockname()[1]}/   (ends with Ctrl-C)")
    app = make_app(limits, hosts=tuple(dict.fromkeys(one.lower() for one in hosts)))
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3
    )
    tell = logging.StreamHandler()
    tell.setLevel(logging.ERROR)
    logging.getLogger("cdsa").addHandler(tell)  # what visitors only hear in one sentence
    # asked to end, or left by its terminal, it ends as with Ctrl-C, and leaves nothing behind
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[bound])
    finally:  # a server that was stopped before its life was over leaves nothing either
        app.state.services.close()
