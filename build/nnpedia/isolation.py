"""Isolation: a page's snippets, each in a process of its own that may do little and can break nothing else.

The models are loaded here, and a process is forked for each fence with those that continue it. It
goes into the sandbox, runs them, and says of each what it gave, as JSON. When it hangs, crashes or
ends itself, the fence it was at has failed, at the line it had come to; the next fence starts from
a fresh fork.
"""

from __future__ import annotations

import ast
import contextlib
import faulthandler
import gc
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from nnpedia import cache, kernel, sandbox
from nnpedia.errors import NnpediaError
from nnpedia.failures import excerpt
from nnpedia.fences import Fence, chain
from nnpedia.guard import settings_put_back
from nnpedia.pagecode import fact_of
from nnpedia.pool import default_limits, memory_of, number
from nnpedia.record import SnippetFact
from nnpedia.snippets import Bench, Loader, orphan, ready, run_fence
from nnpedia.sources import padded

SECONDS = 120.0  # of wall time, for one snippet
LONGEST_MESSAGE = 4_000_000
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*:[\w.-]+")


def run_isolated(
    found: Sequence[Fence], load: Loader, prompt: str, *, only: Sequence[Fence] | None = None
) -> list[SnippetFact]:
    """As `nnpedia.snippets.run_fences`, with every snippet in a sandboxed process."""
    bench = Bench(load, prompt)
    wanted = list(found if only is None else only)
    facts: dict[int, SnippetFact] = {}
    for fence in wanted:
        if fence.problem or not fence.runs:
            facts[fence.line] = run_fence(bench, found, fence)
        elif fence.line not in facts:
            head = chain(found, fence)[0]
            group = [each for each in wanted if each.runs and not each.problem and chain(found, each)[0] == head]
            facts |= {fact.line: fact for fact in run_group(bench, found, group)}
    return [facts[fence.line] for fence in wanted]


def run_group(bench: Bench, found: Sequence[Fence], group: Sequence[Fence]) -> list[SnippetFact]:
    """Run fences that share their names, first to last, in one process; one fact for each."""
    made = ready(bench, group[0])
    if isinstance(made, SnippetFact):
        return [made, *(orphan(fence, made) for fence in group[1:])]
    _make_checkpoints(group)
    _trace_once(bench, made[0])
    folder = Path(tempfile.mkdtemp(prefix="nnpedia-snippet-"))
    try:
        ended = _watched(bench, found, group, folder)
        facts = [_trusted(fence, fact) for fence, fact in zip(group, ended.facts, strict=False)]
        left = group[len(facts) :]
        if left:
            line = _last_line(folder, left[0])
            source = padded(chain(found, left[0])).split("\n")
            said = [f"{left[0].file}:{line}: {ended.cause}", "", *excerpt(line, left[0].line, source)]
            facts.append(fact_of(left[0], ran=True, error="\n".join(said)))
            facts += [orphan(fence, facts[-1]) for fence in left[1:]]
        return facts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _trace_once(bench: Bench, model: Any) -> None:
    """What the first trace of a model prepares is prepared here, for every process forked from now on."""
    if id(model) in bench.traced or not hasattr(model, "trace"):
        return
    bench.traced.add(id(model))
    # what is wrong with the model, its snippets will find
    with contextlib.suppress(Exception), settings_put_back(), model.trace(bench.prompt):
        model.output.save()


@dataclass
class _Ended:
    """What a process gave before it ended, and why it ended before it was through, if it did."""

    facts: list[SnippetFact]
    cause: str = ""


def _watched(bench: Bench, found: Sequence[Fence], group: Sequence[Fence], folder: Path) -> _Ended:
    """Fork, and read what the process says until it has said all, ends, or takes too long over a fence."""
    seconds = number("NNPEDIA_SNIPPET_SECONDS", SECONDS)
    memory = max(default_limits().memory - memory_of(os.getpid()), 0)
    (folder / "work").mkdir()
    receiver, sender = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        _run(bench, found, group, folder, sender, parent, memory, seconds)
    os.close(sender)
    facts: list[SnippetFact] = []
    cause = ""
    try:
        for message in _messages(receiver, seconds):
            facts.append(SnippetFact.model_validate_json(message))
            if len(facts) == len(group):
                break
    except TimeoutError:
        cause = f"took longer than its limit of {seconds:g} s and was ended"
    except (ValidationError, ValueError):
        cause = "its process sent something that is no result"
    finally:
        os.close(receiver)
        if cause:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        status = _collected(pid)
    return _Ended(facts, cause or _death(status))


def _messages(receiver: int, seconds: float) -> Iterator[bytes]:
    """The lines that come through the pipe, each within its time."""
    buffer, end = b"", time.monotonic() + seconds + 0.5  # the process itself notes where it is at the limit
    while True:
        if not select.select([receiver], [], [], max(0.0, end - time.monotonic()))[0]:
            raise TimeoutError
        read = os.read(receiver, 1 << 16)
        if not read:
            return
        buffer += read
        if len(buffer) > LONGEST_MESSAGE:
            raise ValueError("too long")
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            yield line
            end = time.monotonic() + seconds + 0.5


def _collected(pid: int) -> int:
    """The exit status of a process that is through, or soon will be."""
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _death(code: int) -> str:
    if code >= 0:
        return f"ended its own process, with code {code}, before it was through"
    name = next((each.name for each in signal.Signals if each == -code), f"signal {-code}")
    return f"its process was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def _trusted(fence: Fence, fact: SnippetFact) -> SnippetFact:
    """What the process says of a fence, with what is known of the fence itself from here."""
    error = fact.error
    if error is not None and not error.startswith(f"{fence.file}:"):
        error = f"{fence.where}: {error}"
    known = fact_of(fence, ran=fact.ran, output=fact.output, error=error)
    return known if fact.ok == known.ok else known.model_copy(update={"ok": False, "error": f"{fence.where}: failed"})


def _last_line(folder: Path, fence: Fence) -> int:
    """The line of the page that the process was at when it crashed or ran out of time; else the fence's first."""
    try:
        trace = (folder / "trace").read_text(errors="replace")
    except OSError:
        return fence.line
    lines = [int(number) for number in re.findall(rf'File "{re.escape(fence.file)}", line (\d+)', trace)]
    return next((line for line in lines if fence.line <= line <= fence.closing), fence.line)


def _make_checkpoints(group: Sequence[Fence]) -> None:
    """Make what the code names as `"family:name"`, for the sandbox lets nothing be written to the cache."""
    from nnpedia.checkpoints import resolve

    for fence in group:
        with contextlib.suppress(SyntaxError):
            for node in ast.walk(ast.parse(fence.code)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
                    with contextlib.suppress(NnpediaError):  # the snippet may be about a name that is wrong
                        resolve(node.value)


# -- the forked process -------------------------------------------------------------------------


def _run(
    bench: Bench, found: Sequence[Fence], group: Sequence[Fence], folder: Path, sender: int, parent: int,
    memory: int, seconds: float,
) -> NoReturn:  # fmt: skip
    """Go into the sandbox, run the fences and say of each what it gave."""
    code = 1
    try:
        kernel.end_with(parent)
        _own_progress()
        _one_thread()
        gc.freeze()  # a collection would touch, and so copy, every page that is shared with the parent
        trace = os.open(folder / "trace", os.O_WRONLY | os.O_CREAT, 0o600)
        _keep_only(sender, trace, folder / "log")
        if group[0].network:
            _own_hub(folder / "work")
        sandbox.enter(sandbox.Rules(folder / "work", _readable(), group[0].network, memory))
        faulthandler.enable(trace)
        for fence in group:
            faulthandler.dump_traceback_later(seconds, file=trace)
            said = run_fence(bench, found, fence).model_dump_json().encode() + b"\n"
            faulthandler.cancel_dump_traceback_later()
            while said:
                said = said[os.write(sender, said) :]
        code = 0
    finally:
        os._exit(code)


def _own_progress() -> None:
    """A progress bar's lock of its own: tqdm shares one with every fork, and one ended while it holds it keeps it."""
    tqdm: Any = sys.modules.get("tqdm")
    if tqdm is not None:
        tqdm.tqdm.set_lock(threading.RLock())


def _one_thread() -> None:
    """One torch thread: those of the parent did not come along, and a team that counts on them waits for ever."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def _keep_only(sender: int, trace: int, log: Path) -> None:
    """Close every file but the two; what is written past Python's own output goes to a log that nobody reads."""
    kept = sorted((sender, trace))
    for low, high in ((3, kept[0]), (kept[0] + 1, kept[1]), (kept[1] + 1, os.sysconf("SC_OPEN_MAX"))):
        os.closerange(low, min(high, 1 << 20))
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for old, new in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(old, new)
    # what Python took them for may write elsewhere, as under pytest, where that file is closed by now
    sys.stdout, sys.stderr = (os.fdopen(each, "w", errors="replace", closefd=False) for each in (1, 2))


def _readable() -> tuple[Path, ...]:
    """The package, the specs, the checkpoints and the Hub's cache of models."""
    from huggingface_hub import constants

    own = cache.PACKAGE, cache.families_folder(), cache.home() / "checkpoints"
    return *own, Path(constants.HF_HUB_CACHE)


def _own_hub(folder: Path) -> None:
    """Let downloads go to the snippet's own folder, and no login come along."""
    from huggingface_hub import constants

    constants.HF_HUB_CACHE = str(folder / "hub")
    constants.HF_TOKEN_PATH = str(folder / "token")
