"""The thread that reads a store's file."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from toolcrib.stores.connect import explain, not_open, open_reader
from toolcrib.stores.jobs import Job, settle

T = TypeVar("T")

_Jobs = queue.SimpleQueue[Job | None]


class Reader:
    """Answers reads one after the other; a busy writer does not hold them up.

    The thread starts with the first read.
    """

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self._open = False
        self._running: tuple[threading.Thread, _Jobs] | None = None

    def start(self) -> None:
        """Accept reads from now on."""
        with self._lock:
            self._open = True

    def stop(self) -> None:
        """Finish the reads that wait and end the thread; blocks until that is done."""
        with self._lock:
            running, self._running = self._running, None
            self._open = False
        if running is not None:
            thread, jobs = running
            jobs.put(None)
            thread.join()

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Have `work` done as soon as the reads before it are."""
        with self._lock:
            if not self._open:
                raise not_open(self._path)
            if self._running is None:
                jobs: _Jobs = queue.SimpleQueue()
                thread = threading.Thread(
                    target=self._main, args=(jobs,), name="toolcrib-store-reader", daemon=True
                )
                thread.start()
                self._running = (thread, jobs)
            job = Job(work)
            self._running[1].put(job)
        return job.future

    def _main(self, jobs: _Jobs) -> None:
        connection: sqlite3.Connection | None = None
        while (job := jobs.get()) is not None:
            try:
                if connection is None:
                    connection = open_reader(self._path, self._busy_timeout)
                job.value = job.work(connection)
            except Exception as error:  # whatever it is, the one who reads gets it
                job.error = explain(error, self._path)
            settle([job])
        if connection is not None:
            connection.close()
