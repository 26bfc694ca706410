"""What requests share: the tables that are kept, the jobs about them, and what is told of both."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from cdsa.web import schemas, views
from cdsa.web.jobs import Job, Jobs, Kind
from cdsa.web.limits import Limits
from cdsa.web.store import Held, Shelf
from cdsa.web.tasks import Ask, places_of, refuse
from cdsa.web.worker import prepare, work_off

READERS = 2
"""Tables that are read at the same time."""


SWEEP_SECONDS = 30
"""Between two looks for what nobody asked for in a while."""


FILES = ("filled", "detail", "report")
"""What can be fetched of a job."""


class Desk:
    """Where a server does its work."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.shelf = limits, Shelf(limits)
        processes = prepare()
        self.jobs = Jobs(limits, self.shelf, lambda job: work_off(job, limits, processes))
        self._readers = asyncio.Semaphore(READERS)

    def close(self) -> None:
        """Work nothing off any more, and forget everything."""
        self.jobs.close()
        self.shelf.close()

    async def tidy(self) -> None:
        """Forget what is old, now and then, for as long as the server runs."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await run_in_threadpool(self.jobs.sweep)

    async def at_ease(self, work: Callable[..., Any], *given: Any) -> Any:
        """Do something that takes a while, not more than a few at the same time."""
        async with self._readers:
            return await run_in_threadpool(work, *given)

    async def understood(self, held: Held) -> schemas.TableAnswer:
        """What a table is understood to be."""
        told: schemas.TableAnswer = await self.at_ease(
            lambda: views.table(held, self.shelf.source(held))
        )
        return told

    async def begun(self, table: str, kind: Kind, wanted: Ask) -> schemas.JobAnswer:
        """A job about a table, put into the queue."""
        self.shelf.get(table)
        await run_in_threadpool(refuse, wanted, self.limits)
        return self.told(self.jobs.add(self.shelf.get(table), kind, wanted))

    def told(self, job: Job) -> schemas.JobAnswer:
        """How far a job is."""
        return schemas.JobAnswer(
            id=job.id,
            table=job.held.id,
            kind=job.kind,
            state=job.state,
            ahead=self.jobs.ahead(job),
            doing=job.doing,
            share=job.share,
            seconds=round(job.seconds, 1),
            told=list(job.told),
            error=job.error,
            records=[dict(record) for record in job.records],
            files=[name for name in FILES if name in job.files],
            places=views.places(places_of(job)),
            explains=job.filler is not None and job.state == "done",
        )


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


AtDesk = Annotated[Desk, Depends(_desk)]
