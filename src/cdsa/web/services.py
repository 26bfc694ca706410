"""The server's shared state: stored tables, jobs, and the means to run slow work."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, ParamSpec, TypeVar, get_args

from fastapi import Depends
from fastapi import Request as HttpRequest
from starlette.concurrency import run_in_threadpool

from cdsa.web import schemas, views, worker
from cdsa.web.jobs import Job, Jobs
from cdsa.web.limits import Limits
from cdsa.web.store import StoredTable, TableStore

MAX_CONCURRENT = 2
"""Slow requests that run at the same time; the others wait."""

CLEANUP_SECONDS = 30

P = ParamSpec("P")
T = TypeVar("T")


class Services:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._context = context = worker.make_context()
        self.store = TableStore(limits, run=partial(worker.parse, context, limits))
        self.jobs = Jobs(
            limits, self.store, lambda job: worker.run_job(job, self.store, limits, context)
        )
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)

    def close(self) -> None:
        self.jobs.close()
        self.store.close()

    async def clean_up(self) -> None:
        """Remove expired tables now and then, as long as the server runs."""
        while True:
            await asyncio.sleep(CLEANUP_SECONDS)
            await run_in_threadpool(self.jobs.remove_expired)

    async def run_limited(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something slow in a thread, with a few others at most."""
        async with self._slots:
            return await run_in_threadpool(function, *args, **kwargs)

    async def run_in_process(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The same in another process, for whatever needs torch."""
        called = partial(function, *args, **kwargs)
        return await self.run_limited(worker.call, self._context, called, self.store.folder)

    async def summary(self, table: StoredTable) -> schemas.TableSummary:
        """What a table contains; it is parsed unless it has been before."""
        return await self.run_limited(lambda: views.table_summary(table, self.store.parsed(table)))

    async def submit(self, table_id: str, body: schemas.JobRequest) -> schemas.JobStatus:
        """Check a request and put it into the queue."""
        self.store.get(table_id)
        request = await self.run_limited(body.to_request, self.limits)
        await self.run_in_process(request.validate)
        return self.status(self.jobs.submit(self.store.get(table_id), body.kind, request))

    def status(self, job: Job) -> schemas.JobStatus:
        return schemas.JobStatus.model_validate(
            vars(job)
            | {
                "table": job.table.id,
                "queue_position": self.jobs.queue_position(job),
                "seconds": round(job.seconds, 1),
                "files": [name for name in get_args(schemas.Download) if name in job.files],
                "sites": views.sites(job),
                "explainable": "explainer" in job.files,
            }
        )


def _services(request: HttpRequest) -> Services:
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(_services)]
