"""A Dask cluster: the jobs of a build on the workers of a scheduler, each in a process of its own there.

What the caller reads travels with each job: specs, notes and hand-written pages. Code and packages do
not; a worker that has others than the caller is refused, because its records would be of something
else. Checkpoints are made or fetched on the worker, into its own cache folder. Results come back to
the caller, who alone writes records.

A worker that dies costs time: Dask gives its units to others. Those that no living worker could take
fail after a while, each with its cause. A scheduler that dies ends the build, in one line: what was
done by then is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import current_process
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

from nnpedia.errors import NnpediaError, one_line
from nnpedia.pool import GIGABYTE, Job, Result, default_limits, run_jobs
from nnpedia.versions import installed

if TYPE_CHECKING:
    from distributed import Client, Future

#: Seconds to wait for an answer of a scheduler, and for workers that could take what is left.
CONNECT, PATIENCE = 10.0, 60.0
#: The names of the resources that workers declare: `dask worker --resources "memory=16e9 GPU=1"`.
MEMORY, ACCELERATOR = "memory", "GPU"


@dataclass(frozen=True)
class Worker:
    """What a worker says of itself: what it computes with, and the memory (bytes) a unit may take there."""

    makes: tuple[str, ...]
    memory: int
    accelerators: int = 0
    declares: bool = False


@dataclass(frozen=True)
class Parcel:
    """A job and what it needs at the other end; `texts` is a compressed JSON of relative path to content."""

    job: Job
    texts: bytes = field(repr=False)
    makes: tuple[str, ...]
    topic: str


def makes() -> tuple[str, ...]:
    """All that a record depends on beside specs: the code, and the versions of what computes."""
    from nnpedia import keys

    code = hashlib.sha256(keys.code_digest().encode())
    for name in ("cluster", "pool"):  # what is told apart here has to be spoken of alike
        code.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return (f"nnpedia's code {code.hexdigest()[:12]}", *keys.versions(), f"distributed {installed('distributed')}")


def pack(families: Path) -> bytes:
    """The specs and notes of a families folder, and the pages of the checkout it lies in."""
    root = families.parent
    paths = [path for path in families.rglob("*") if path.suffix in (".yml", ".md")]
    if (root / "mkdocs.yml").is_file():
        paths += [root / "mkdocs.yml", *root.glob("README.md"), *(root / "site").rglob("*.md")]
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}
    return zlib.compress(json.dumps(texts).encode())


def unpack(texts: bytes, root: Path) -> None:
    for name, text in json.loads(zlib.decompress(texts)).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


# -- the worker's side --------------------------------------------------------------------------


def about(dask_worker: Any) -> Worker:
    """Dask calls this on a worker, with the worker."""
    declared = dict(dask_worker.state.total_resources)
    return Worker(
        makes(), int(declared.get(MEMORY, default_limits().memory)), int(declared.get(ACCELERATOR, 0)),
        MEMORY in declared,
    )  # fmt: skip


def do(parcel: Parcel) -> Result:
    """A job on a worker: in a process of its own, within the worker's limits."""
    from distributed import get_worker

    from nnpedia.cache import home

    worker = get_worker()
    worker.log_event(parcel.topic, parcel.job.name)
    wrong = difference(parcel.makes, makes())
    if wrong:  # it joined after the build had begun
        return Result(parcel.job, cause=f"{worker.address} {wrong}", exit_code=2)
    # A worker under a nanny is a daemon of it, and multiprocessing starts none from there. Ours end with their parent.
    current_process().daemon = False
    limits = replace(default_limits(), memory=about(worker).memory)
    with tempfile.TemporaryDirectory(prefix="nnpedia-specs-") as root:
        unpack(parcel.texts, Path(root))
        name, *rest = parcel.job.args
        job = replace(parcel.job, args=(str(Path(root) / Path(name).name), str(home()), *rest[1:]))
        result = next(iter(run_jobs([job], workers=1, limits=limits)))
    return replace(result, job=parcel.job)


def difference(ours: Sequence[str], theirs: Sequence[str]) -> str | None:
    """`has einops 0.8.1, this build 0.8.2`, of the first thing that differs."""
    for mine, other in zip(ours, theirs, strict=True):
        if mine != other:
            return f"has {other}, this build {mine.rpartition(' ')[2]}: install the same there"
    return None


# -- the caller's side --------------------------------------------------------------------------


class Cluster:
    """A scheduler and its workers, as something that runs jobs.

    Raises `NnpediaError` in one line when nobody answers, when there is no worker, and when a worker
    has other code or other packages than this build.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._client = _connect(address)
        try:
            self.workers = self._meet()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._client.close(timeout=5)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def memory(self) -> int:
        """Bytes that a unit may take on the largest worker."""
        return max(worker.memory for worker in self.workers.values())

    @property
    def accelerators(self) -> int:
        return max(worker.accelerators for worker in self.workers.values())

    def _meet(self) -> dict[str, Worker]:
        try:
            self._client.wait_for_workers(1, timeout=CONNECT)
        except TimeoutError:
            raise NnpediaError(
                f"this scheduler has no workers: start some with `dask worker {self.address}`", where=self.address
            ) from None
        try:
            workers: dict[str, Worker] = self._client.run(about)
        except Exception as error:
            raise NnpediaError(
                f"its workers do not have this nnpedia ({one_line(error)}): install the same there", where=self.address
            ) from None
        for address, worker in workers.items():
            if wrong := difference(makes(), worker.makes):
                raise NnpediaError(f"the worker {address} {wrong}", where=self.address)
        return workers

    def run(
        self,
        jobs: Sequence[Job],
        families: Path,
        started: Callable[[Job], None] = lambda job: None,
        note: Callable[[str], None] = lambda line: None,
    ) -> Iterator[Result]:
        """Run every job and yield each result as it comes; `started` is called once for each, as it starts."""
        taken = [job for job in jobs if self._refusal(job) is None]
        for job in jobs:
            if job not in taken:
                started(job)
                yield Result(job, cause=self._refusal(job), exit_code=1)
        run = _Run(self, f"nnpedia-{uuid.uuid4().hex[:12]}", taken, pack(families))
        yield from run.results(started, note)

    def _refusal(self, job: Job) -> str | None:
        """Why no worker can hold a job; `None` when one can."""
        if job.memory > self.memory:
            return f"needs {job.memory / GIGABYTE:.1f} GiB of memory, and the largest worker has {_gb(self.memory)}"
        if job.accelerators > self.accelerators:
            return f'needs an accelerator, and no worker declares one (`dask worker --resources "{ACCELERATOR}=1"`)'
        return None

    def submit(self, parcel: Parcel, priority: int) -> Future[Result]:
        """Hand a job to the scheduler, for a worker that declares what it needs, where workers declare anything."""
        asks: dict[str, float] = {}
        if any(worker.declares for worker in self.workers.values()):
            asks[MEMORY] = parcel.job.memory
        if parcel.job.accelerators:
            asks[ACCELERATOR] = parcel.job.accelerators
        key = f"{parcel.topic}-{parcel.job.name}"
        future: Future[Result] = self._client.submit(do, parcel, key=key, pure=False, resources=asks, priority=priority)
        return future

    def holds(self, jobs: Iterable[Job]) -> bool:
        """Whether the scheduler answers, with a worker that could take one of these jobs."""
        try:
            there = self._client.scheduler_info()["workers"].values()
        except Exception:
            return False
        if self._client.status != "running" or not there:
            return False
        if not any(worker.declares for worker in self.workers.values()):
            return True
        room = max(worker["resources"].get(MEMORY, 0) for worker in there)
        return any(job.memory <= room for job in jobs)

    def listen(self, topic: str, hear: Callable[[Any], None]) -> None:
        self._client.subscribe_topic(topic, hear)

    def drop(self, futures: Sequence[Future[Result]]) -> None:
        with contextlib.suppress(Exception):
            self._client.cancel(list(futures))


class _Run:
    """One sequence of jobs on a cluster."""

    def __init__(self, cluster: Cluster, topic: str, jobs: Sequence[Job], texts: bytes) -> None:
        self.cluster, self.jobs = cluster, {job.name: job for job in jobs}
        self.heard: Queue[tuple[str, str]] = Queue()
        self.begun: set[str] = set()
        cluster.listen(topic, lambda event: self.heard.put(("start", event[1])))
        self.pending: dict[str, Future[Result]] = {}
        for place, job in enumerate(jobs):
            future = cluster.submit(Parcel(job, texts, makes(), topic), -place)
            future.add_done_callback(lambda _, name=job.name: self.heard.put(("end", name)))
            self.pending[job.name] = future

    def results(self, started: Callable[[Job], None], note: Callable[[str], None]) -> Iterator[Result]:
        last = time.monotonic()
        try:
            while self.pending:
                with contextlib.suppress(Empty):
                    kind, name = self.heard.get(timeout=1.0)
                    last = time.monotonic()
                    if name in self.pending:
                        if kind == "end":
                            self._begin(name, started)
                            yield self._result(name)
                        elif not self._begin(name, started):
                            note(f"{self.jobs[name].says} is started again: its worker was lost")
                    continue
                if self.cluster.holds(self.jobs[name] for name in self.pending):
                    last = time.monotonic()
                elif time.monotonic() - last > PATIENCE:
                    yield from self._lost(started)
        finally:
            self.cluster.drop(list(self.pending.values()))

    def _begin(self, name: str, started: Callable[[Job], None]) -> bool:
        if name in self.begun:
            return False
        self.begun.add(name)
        started(self.jobs[name])
        return True

    def _result(self, name: str) -> Result:
        job, future = self.jobs[name], self.pending.pop(name)
        try:
            result: Result = future.result(timeout=CONNECT)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            if _is_lost(error):
                self.pending[name] = future
                raise self._gone() from None
            return Result(job, cause=_cause(error), exit_code=1)
        return replace(result, job=job)

    def _gone(self) -> NnpediaError:
        done = len(self.jobs) - len(self.pending)
        return NnpediaError(
            f"the scheduler went away with {done} of {len(self.jobs)} units done; their records are kept, and the same"
            " command, with a scheduler that runs, does the others",
            where=self.cluster.address,
        )

    def _lost(self, started: Callable[[Job], None]) -> Iterator[Result]:
        for name in list(self.pending):
            self._begin(name, started)
            del self.pending[name]
            cause = f"{self.cluster.address} has had no worker for it for {PATIENCE:g} s"
            yield Result(self.jobs[name], cause=cause, exit_code=1)


def _is_lost(error: BaseException) -> bool:
    """Whether this says that the scheduler, with all that it knew, is gone."""
    return type(error).__name__.endswith("CancelledError") or isinstance(error, TimeoutError)


def _cause(error: BaseException) -> str:
    kind = type(error).__name__
    if kind == "KilledWorker":
        return "every worker that took it died; it may need more memory than they have"
    return one_line(error)


def _connect(address: str) -> Client:
    try:
        import dask.config
        from distributed import Client
        from distributed.comm.addressing import parse_address, parse_host_port
        from distributed.comm.registry import get_backend
    except ImportError:
        raise NnpediaError("--scheduler takes a package more: pip install 'nnpedia[cluster]'") from None
    for name in ("distributed", "distributed.client"):  # what they would tell is told here, in one line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    dask.config.set({"distributed.comm.timeouts.connect": f"{CONNECT}s"})
    try:
        scheme, place = parse_address(address)  # looked at first: a client that fails over them leaves a thread behind
        if get_backend(scheme) and scheme in ("tcp", "tls"):
            parse_host_port(place)
        return Client(address, timeout=CONNECT, set_as_default=False, name=f"nnpedia-{os.getpid()}")
    except (OSError, ValueError) as error:
        reason = "no Dask scheduler answers there" if isinstance(error, OSError) else one_line(error)
        raise NnpediaError(f"{reason}; `dask scheduler` starts one and prints its address", where=address) from None


def _gb(size: int) -> str:
    return f"{size / GIGABYTE:.1f} GiB"
