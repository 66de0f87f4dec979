"""pgqueuer: its schema with triggers that notify, jobs, statistics, a queue manager that runs them."""

import asyncio
import logging
import sys

import asyncpg
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from shown import attempt_async as attempt

logging.disable(logging.CRITICAL)


async def main():
    connection = await asyncpg.connect(sys.argv[1])
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    await attempt("install", none(queries.install()))
    await attempt("upgrade", none(queries.upgrade()))

    async def enqueue():
        ids = await queries.enqueue(["fetch"] * 20, [str(i).encode() for i in range(20)], [i % 3 for i in range(20)])
        return [len(ids)]

    await attempt("enqueue", enqueue())

    async def size():
        return sorted((s.entrypoint, s.priority, s.status, s.count) for s in await queries.queue_size())

    await attempt("size", size())
    manager = QueueManager(AsyncpgDriver(await asyncpg.connect(sys.argv[1])))
    seen = []

    @manager.entrypoint("fetch")
    async def fetch(job: Job) -> None:
        seen.append(job.payload.decode())
        if len(seen) == 21:
            manager.shutdown.set()

    async def run():
        runner = asyncio.create_task(manager.run())
        await asyncio.sleep(1)
        # The worker hears of it by a trigger's notification.
        await queries.enqueue("fetch", b"late", 0)
        await asyncio.wait_for(runner, 40)
        return sorted(seen)

    await attempt("run", run())
    await attempt("size", size())

    async def statistics():
        return sorted((s.entrypoint, s.status, s.count) for s in await queries.log_statistics(tail=None))

    async def summed():
        total = {}
        for entrypoint, status, count in await statistics():
            total[(entrypoint, status)] = total.get((entrypoint, status), 0) + count
        return sorted((*key, count) for key, count in total.items())

    await attempt("statistics", summed())
    await attempt("clear", none(queries.clear_queue("fetch")))
    await attempt("size", size())
    await attempt("truncated", none(connection.execute("TRUNCATE pgqueuer")))
    await attempt("uninstall", none(queries.uninstall()))


async def none(work):
    await work


asyncio.run(main())
