"""procrastinate: its schema, deferred jobs, locks, queueing locks, periodic tasks, a worker, retries and cancelling."""

import asyncio
import logging
import sys

import procrastinate
from procrastinate import exceptions

from shown import attempt_async as attempt

logging.disable(logging.CRITICAL)
done = []


async def main():
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=sys.argv[1], max_size=4))

    @app.task(queue="sums", name="add")
    async def add(a, b):
        done.append(f"add {a + b}")

    @app.task(name="fails", retry=1)
    async def fails():
        done.append("fails")
        raise ValueError("on purpose")

    @app.task(name="locked", lock="one")
    async def locked(n):
        done.append(f"locked {n}")

    async with app.open_async():
        await attempt("schema", app.schema_manager.apply_schema_async())

        async def defer():
            for i in range(8):
                await add.defer_async(a=i, b=1)
            for i in range(3):
                await locked.defer_async(n=i)
            await fails.defer_async()
            await add.configure(queueing_lock="q", schedule_in={"hours": 1}).defer_async(a=0, b=0)

        await attempt("defer", defer())

        async def twice():
            try:
                await add.configure(queueing_lock="q").defer_async(a=0, b=0)
            except exceptions.AlreadyEnqueued:
                return ["already there"]

        await attempt("queueing lock", twice())
        await attempt("batch", _none(add.batch_defer_async({"a": 100, "b": 1}, {"a": 200, "b": 1})))
        await attempt("work", asyncio.wait_for(app.run_worker_async(wait=False, install_signal_handlers=False, listen_notify=True, concurrency=2), 60))
        await attempt("done", _list(sorted(done)))
        jobs = app.job_manager

        async def listed():
            return sorted((j.task_name, j.status, j.attempts, j.lock) if False else (j.task_name, j.status, j.attempts) for j in await jobs.list_jobs_async())

        await attempt("jobs", listed())

        async def queues():
            return [sorted(q.items()) for q in await jobs.list_queues_async()]

        await attempt("queues", queues())

        async def cancel():
            todo = [j async for j in _each(await jobs.list_jobs_async(status="todo", task="add"))]
            return [await jobs.cancel_job_by_id_async(j.id) for j in todo]

        await attempt("cancel", cancel())
        await attempt("stalled", _list([len(list(await jobs.get_stalled_jobs(nb_seconds=10)))]))
        await attempt("deleted", _none(jobs.delete_old_jobs(nb_hours=0, include_failed=True)))

        async def periodic():
            await jobs.defer_periodic_job(job=_job(app), periodic_id="p", defer_timestamp=1700000000)
            await jobs.defer_periodic_job(job=_job(app), periodic_id="p", defer_timestamp=1700000060)

        await attempt("periodic", periodic())
        await attempt("jobs", listed())


def _job(app):
    return procrastinate.jobs.Job(id=None, queue="nightly", lock=None, queueing_lock=None, task_name="add", task_kwargs={"a": 1, "b": 2}, priority=0)


async def _list(rows):
    return rows


async def _none(work):
    await work


async def _each(rows):
    for row in rows:
        yield row


asyncio.run(main())
