"""The thread that writes a store's file."""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from toolcrib.core.chain import Block
from toolcrib.errors import StoreError
from toolcrib.stores.changes import Changes
from toolcrib.stores.connect import explain, not_open, open_writer
from toolcrib.stores.jobs import Job, settle
from toolcrib.stores.tables import add_block

if TYPE_CHECKING:
    from toolcrib.core.protocols import TrailSource


T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

GROUP_S = 0.05
"""How long a record waits for company before it is written."""
LOOK_S = 0.05
"""How often other processes' changes are looked for while somebody waits for them."""
RETRY_S = 2.0
"""The longest pause between two attempts to write records that could not be written."""

_log = logging.getLogger("toolcrib")


class Writer:
    """The thread that writes. Work that waits together goes to the disk in one transaction.

    Nothing wakes the thread while there is nothing to do.
    """

    def __init__(self, path: Path, busy_timeout: float, changes: Changes) -> None:
        self.trails: tuple[TrailSource, ...] = ()
        self._path = path
        self._busy_timeout = busy_timeout
        self._changes = changes
        self._life = threading.Lock()  # one start or stop at a time
        self._thread: threading.Thread | None = None
        self._started: Future[None] = Future()
        self._lost: StoreError | None = None
        # Guards everything below; held for moments, never while SQL runs.
        self._wake = threading.Condition()
        self._open = False
        self._jobs: list[Job] = []
        self._now = False
        self._soon = False
        self._due = math.inf
        self._watchers = 0
        self._look = 0.0
        # The thread's own.
        self._version = 0
        self._pause = GROUP_S

    def start(self) -> Future[None]:
        """Open the file and start the thread; done when the store can be used."""
        with self._life:
            failed = self._started.done() and self._started.exception() is not None
            if self._thread is None or failed:
                self._started = Future()
                self._thread = threading.Thread(
                    target=self._main, args=(self._started,), name="toolcrib-store", daemon=True
                )
                self._thread.start()
            return self._started

    def stop(self) -> None:
        """Write what waits, close the file and end the thread; blocks until that is done."""
        with self._life:
            if self._thread is None:
                return
            wait([self._started])
            with self._wake:
                self._open = False
                self._wake.notify()
            self._thread.join()
            self._thread = None
            self._changes.changed()  # whoever waits learns at the next read that it is over
            lost, self._lost = self._lost, None
            if lost is not None:
                raise lost

    def poke(self, now: bool) -> None:
        """Have a transaction carry the trail's records: at once, or within the group time."""
        # Safe without the lock: the thread clears these before it takes the records, so a flag
        # seen here belongs to a transaction that takes whatever was there before this call.
        if self._now or (self._soon and not now):
            return
        with self._wake:
            if now:
                self._now = True
            elif self._soon:
                return
            else:
                self._soon = True
                self._due = min(self._due, time.monotonic() + GROUP_S)
            self._wake.notify()

    def submit(self, work: Work[T], *, wakes: bool = False) -> asyncio.Future[T]:
        """Have `work` done in the next transaction."""
        job = Job(work, wakes=wakes)
        with self._wake:
            if not self._open:
                raise not_open(self._path)
            self._jobs.append(job)
            self._wake.notify()
        return job.future

    async def wait(self, timeout: float) -> bool:
        """Sleep until this or another process changes something."""
        with self._wake:
            if not self._open:
                raise not_open(self._path)
            self._watchers += 1
            self._look = 0.0
            self._wake.notify()
        try:
            return await self._changes.wait(timeout)
        finally:
            with self._wake:
                self._watchers -= 1

    def _main(self, started: Future[None]) -> None:
        try:
            connection = open_writer(self._path, self._busy_timeout)
            self._version = _data_version(connection)
        except Exception as error:  # whatever it is, the caller of open() gets it
            started.set_exception(explain(error, self._path))
            return
        with self._wake:
            self._open = True
        started.set_result(None)
        while self._turn(connection):
            pass
        if self._lost is None and (self._now or self._soon):  # records came during the last turn
            self._now = self._soon = False
            self._lost = self._transact(connection, [])
        _close(connection, self._path)

    def _turn(self, connection: sqlite3.Connection) -> bool:
        """Sleep until something is to be done, and do it; False when the store closes."""
        with self._wake:
            while True:
                now = time.monotonic()
                due = self._now or bool(self._jobs) or not self._open or now >= self._due
                look = self._watchers > 0 and now >= self._look
                if due or look:
                    break
                until = min(self._due, self._look) if self._watchers else self._due
                self._wake.wait(None if until == math.inf else until - now)
            jobs: list[Job] = []
            if due:
                jobs, self._jobs = self._jobs, []
                self._now = self._soon = False
                self._due = math.inf
            if look:
                self._look = now + LOOK_S
            going_on = self._open
        if due:
            self._lost = self._transact(connection, jobs)
        if look:
            self._look_around(connection)
        return going_on

    def _transact(self, connection: sqlite3.Connection, jobs: list[Job]) -> StoreError | None:
        """Carry the trails' records and do `jobs` in one transaction.

        Gives the problem when it kept records from being written.
        """
        taken: list[tuple[TrailSource, Block]] = []
        problem: StoreError | None = None
        try:
            connection.execute("BEGIN IMMEDIATE")
            for trail in self.trails:
                block = trail.take()
                if block is not None:
                    taken.append((trail, block))
                    add_block(connection, block)
            for job in jobs:
                self._attempt(connection, job)
            connection.execute("COMMIT")
        except Exception as error:
            problem = explain(error, self._path)
            self._undo(connection, taken)
            for job in jobs:
                job.error = explain(error, self._path)
        self._report(taken, problem)
        if problem is None and any(job.wakes and _made_news(job) for job in jobs):
            self._changes.changed()
        settle(jobs)
        return problem if taken else None

    def _attempt(self, connection: sqlite3.Connection, job: Job) -> None:
        connection.execute("SAVEPOINT job")
        try:
            job.value = job.work(connection)
        except Exception as error:
            if not connection.in_transaction:  # SQLite gave up more than this job
                raise
            connection.execute("ROLLBACK TO job")
            job.error = explain(error, self._path)
        connection.execute("RELEASE job")

    def _undo(self, connection: sqlite3.Connection, taken: list[tuple[TrailSource, Block]]) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            else:
                # No transaction came about, so nobody was asked for records; those who wait for
                # theirs must learn all the same that they are not written.
                known = [trail for trail, _ in taken]
                for trail in self.trails:
                    block = None if trail in known else trail.take()
                    if block is not None:
                        taken.append((trail, block))
        except Exception:
            _log.exception("%s: a failed transaction could not be undone", self._path)

    def _report(self, taken: list[tuple[TrailSource, Block]], problem: StoreError | None) -> None:
        """Tell the trails how it went; what failed is tried again after a growing pause."""
        for trail, block in taken:
            try:
                if problem is None:
                    trail.done(block)
                else:
                    trail.failed(block, problem)
            except Exception:
                _log.exception("%s: a trail failed to hear about its records", self._path)
        if problem is None:
            self._pause = GROUP_S
        elif taken:
            with self._wake:
                self._due = min(self._due, time.monotonic() + self._pause)
            self._pause = min(2 * self._pause, RETRY_S)

    def _look_around(self, connection: sqlite3.Connection) -> None:
        try:
            version = _data_version(connection)
        except sqlite3.Error:
            version = -1  # the reader that wakes up gets the error in words
        if version != self._version:
            self._version = version
            self._changes.changed()


def _data_version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA data_version").fetchone()[0]


def _made_news(job: Job) -> bool:
    return job.error is None and job.value is not False and job.value != []


def _close(connection: sqlite3.Connection, path: Path) -> None:
    try:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    except sqlite3.Error as error:  # nothing is lost: the next one who opens the file does it
        _log.warning("%s: the write-ahead log stays (%s)", path, error)
    connection.close()
