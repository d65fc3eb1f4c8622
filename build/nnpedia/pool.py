"""Worker processes: each job in a process of its own, with a time and a memory limit.

A fork server imports torch, transformers and nnsight once; each job is forked from it, so that it
costs milliseconds to start and whatever it breaks — its heap, its module state, the interpreter
itself — dies with it. A job that raises, crashes, hangs or grows too large gives one failed
`Result` with its cause; the others go on.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, forkserver, get_context, parent_process
from pathlib import Path
from typing import Any

from nnpedia import memory
from nnpedia.errors import NnpediaError, one_line
from nnpedia.sandbox import allowed

GIGABYTE = 2**30
CONTEXT = get_context("forkserver")
PRELOAD = ["nnpedia.warm"]  # what the fork server imports, when the first job starts it


@dataclass(frozen=True)
class Limits:
    """What one job may use: seconds of wall time, bytes of memory of its own."""

    seconds: float = 600.0
    memory: int = 6 * GIGABYTE


@dataclass(frozen=True)
class Job:
    """A call in a process of its own. `function` is `module:name`, imported there; `args` are pickled.

    `memory` (bytes) and `accelerators` are what it is expected to take, `says` what a user knows it by.
    """

    name: str
    function: str
    args: tuple[Any, ...] = ()
    memory: int = 0
    accelerators: int = 0
    says: str = ""


@dataclass(frozen=True)
class Result:
    """What became of a job: its value, or the cause of its failure in one line."""

    job: Job
    value: Any = None
    cause: str | None = None
    exit_code: int = 0  # what a command line ends with: 0, 1, or 2 for bad input
    trace: str = ""  # the traceback and the job's own output, for --debug
    seconds: float = 0.0
    peak: int = 0  # bytes of its own that the job was seen to hold at most
    resident: int = 0  # the same with what it shares and what lies in files: what a machine has to hold for it


@dataclass
class _Running:
    job: Job
    process: Any
    pipe: connection.Connection
    log: Path
    started: float = field(default_factory=time.monotonic)
    peak: int = 0
    resident: int = 0
    weighed: int = 0  # how much was mapped when `resident` was last asked for


def run_jobs(
    jobs: Sequence[Job],
    workers: int = 2,
    limits: Limits | None = None,
    started: Callable[[Job], None] = lambda job: None,
    room: int | None = None,
) -> Iterator[Result]:
    """Run every job, up to `workers` at once, and yield each result as it comes.

    A job waits while what it is expected to take, and what those take that run, is more than there is: `room` bytes,
    or what `memory.for_units` finds. One that is larger runs alone, if its own limit lets it.

    Closing the iterator, or an exception at its consumer (Ctrl-C), ends the jobs that still run.
    """
    limits = limits or Limits()
    CONTEXT.set_forkserver_preload(PRELOAD)
    waiting, running = list(jobs), list[_Running]()
    room = memory.for_units() if room is None else room
    logs = Path(tempfile.mkdtemp(prefix="nnpedia-"))
    try:
        while waiting or running:
            while len(running) < max(1, workers) and (job := _next(waiting, running, room)):
                waiting.remove(job)
                started(job)
                if job.memory > limits.memory:
                    yield Result(job, cause=_too_large(job, limits), exit_code=1)
                    continue
                running.append(_start(job, logs / f"{len(waiting)}.log"))
            connection.wait([each.pipe for each in running], timeout=0.2)
            for each in list(running):
                result = _look(each, limits)
                if result is not None:
                    running.remove(each)
                    yield result
    finally:
        for each in running:
            _end(each)
        shutil.rmtree(logs, ignore_errors=True)


def _next(waiting: Sequence[Job], running: Sequence[_Running], room: int | None) -> Job | None:
    """The first job that there is room for beside those that run; `None` when there is none, or they have to end."""
    if not running or room is None:
        return next(iter(waiting), None)
    left = room - sum(each.job.memory for each in running)
    return next((job for job in waiting if job.memory <= left), None)


def _too_large(job: Job, limits: Limits) -> str:
    return (
        f"needs {job.memory / GIGABYTE:.1f} GiB of memory, more than its limit of {limits.memory / GIGABYTE:.1f} GiB,"
        " and was not started; NNPEDIA_MEMORY sets the limit, --scheduler gives it to larger machines"
    )


def _start(job: Job, log: Path) -> _Running:
    receiver, sender = CONTEXT.Pipe(duplex=False)
    _serve()
    # the fork server keeps the environment of its own start, so the job is handed today's
    process = CONTEXT.Process(target=_work, args=(job, sender, str(log), dict(os.environ)), name=job.name)
    process.start()
    sender.close()
    return _Running(job, process, receiver, log)


def _serve() -> None:
    """Start the fork server, where it does not run, without the secrets of this environment.

    What a process was started with stands in /proc for as long as it lives, and a job's is its server's.
    A job is handed the rest in a message.
    """
    kept = dict(os.environ)
    os.environ.clear()
    os.environ.update(allowed(kept))
    try:
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(kept)


def _work(job: Job, sender: connection.Connection, log: str, environment: dict[str, str]) -> None:
    """The job's side: everything below runs in the forked process."""
    os.setsid()  # so that what the job starts ends with it
    _end_with_parent()
    os.environ.clear()
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        module, _, name = job.function.partition(":")
        value = getattr(importlib.import_module(module), name)(*job.args)
        sender.send(("value", value, 0, ""))
    except NnpediaError as error:
        sender.send(("cause", str(error), error.exit_code, traceback.format_exc()))
    except MemoryError:
        sender.send(("cause", "ran out of memory", 1, traceback.format_exc()))
    except BaseException as error:
        sender.send(("cause", one_line(error), 1, traceback.format_exc()))
    finally:
        sender.close()
        sys.stdout.flush()
        sys.stderr.flush()
        # threads of nnsight or of the math libraries must not keep a finished job alive
        os._exit(0)


def _end_with_parent() -> None:
    """End this process when the build that asked for it dies, even by `kill -9`."""
    parent = parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        connection.wait([sentinel])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _look(each: _Running, limits: Limits) -> Result | None:
    """The job's result, or None while it runs within its limits."""
    seconds = time.monotonic() - each.started
    try:
        if each.pipe.poll():
            kind, content, exit_code, trace = each.pipe.recv()
            log = _end(each, grace=2.0)
            if kind == "value":
                return Result(each.job, value=content, seconds=seconds, peak=each.peak, resident=each.resident)
            return Result(each.job, cause=content, exit_code=exit_code, trace=trace + log, seconds=seconds)
    except (EOFError, OSError):
        log = _end(each, grace=2.0)
        return Result(each.job, cause=_death(each.process.exitcode), exit_code=1, trace=log, seconds=seconds)
    used, mapped = memory_of(each.process.pid), _mapped(each.process.pid)
    each.peak = max(each.peak, used)
    if mapped > each.weighed * 1.02:  # the system walks through every page to tell what is shared: not without a cause
        each.weighed, each.resident = mapped, max(each.resident, resident_of(each.process.pid))
    if seconds > limits.seconds:
        cause = f"took longer than its limit of {limits.seconds:g} s and was ended"
    elif used > limits.memory:
        cause = (
            f"used {used / GIGABYTE:.1f} GiB of memory, more than its limit of {limits.memory / GIGABYTE:.1f} GiB,"
            " and was ended"
        )
    else:
        return None
    return Result(each.job, cause=cause, exit_code=1, trace=_end(each), seconds=seconds)


def _end(each: _Running, grace: float = 0.0) -> str:
    """End the job's process and all it started, and give back the last of what it printed."""
    each.process.join(grace)
    for kill in (os.killpg, os.kill):  # the group does not exist in the job's first moments
        with contextlib.suppress(OSError):
            kill(each.process.pid, signal.SIGKILL)
    each.process.join()
    each.pipe.close()
    try:
        with each.log.open("rb") as file:
            file.seek(max(0, each.log.stat().st_size - 8000))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _death(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        try:
            name = signal.Signals(-exitcode).name
        except ValueError:
            name = f"signal {-exitcode}"
        hint = " (the system may have run out of memory)" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"
    return f"its process ended with code {exitcode} before it had a result"


def memory_of(pid: int | None) -> int:
    """Bytes a process holds that cannot be dropped: mapped weight files, which can, do not count. 0 where unknown."""
    return _stated(pid, "RssAnon:", "RssShmem:")


def _mapped(pid: int | None) -> int:
    """Bytes that lie in memory and that a process has, shared or not."""
    return _stated(pid, "VmRSS:")


def _stated(pid: int | None, *names: str) -> int:
    """The sum of what the system states of a process under these names, in bytes; 0 where unknown."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))
    except (OSError, ValueError):
        return 0


def resident_of(pid: int | None) -> int:
    """Bytes that lie in memory for a process, its share of what others have too and mapped files once. 0 if unknown."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, ValueError, StopIteration):
        return 0


def default_limits() -> Limits:
    """Limits from NNPEDIA_SECONDS and NNPEDIA_MEMORY (in GiB); by default 600 s, and 6 GiB or 85 % of the machine."""
    limits = Limits()
    most = min(limits.memory, memory.for_units() or limits.memory)
    seconds = number("NNPEDIA_SECONDS", limits.seconds)
    return Limits(seconds, int(number("NNPEDIA_MEMORY", most / GIGABYTE) * GIGABYTE))


def number(variable: str, default: float) -> float:
    """The positive number that an environment variable holds; raises `NnpediaError` for anything else."""
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if number <= 0:
        raise NnpediaError(f"{variable} is {text!r}; it is a positive number")
    return number
