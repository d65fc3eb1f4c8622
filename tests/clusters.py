"""A Dask scheduler and workers on loopback, each a process of its own, for the tests of a build on a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent


@dataclass
class Loopback:
    """A scheduler, and the workers started so far by name; every worker has a cache folder of its own."""

    folder: Path
    scheduler: Any = None
    workers: dict[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return (self.folder / "address").read_text()

    def start(self) -> None:
        file = self.folder / "scheduler.json"
        self.scheduler = self._run("scheduler", "--no-show", "--no-dashboard", "--port", "0", "--scheduler-file", file)
        import json

        _wait(file.exists)
        (self.folder / "address").write_text(json.loads(file.read_text())["address"])

    def work(self, name: str, *options: str, **environment: str) -> None:
        """Start a worker; `environment` is laid over ours."""
        more = {"NNPEDIA_HOME": str(self.folder / name), **environment}
        common = ("--nthreads", "1", "--no-dashboard", "--local-directory", self.folder, "--host", "127.0.0.1")
        self.workers[name] = self._run("worker", self.address, *common, "--name", name, *options, **more)

    def kill(self, name: str) -> None:
        os.killpg(self.workers.pop(name).pid, signal.SIGKILL)

    def kill_scheduler(self) -> None:
        os.killpg(self.scheduler.pid, signal.SIGKILL)
        self.scheduler.wait()

    def stop(self) -> None:
        for process in (*self.workers.values(), self.scheduler):
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            if process is not None:
                process.wait()

    def _run(self, what: str, *options: object, **environment: str) -> Any:
        paths = [str(TESTS), environment.pop("PYTHONPATH", ""), *(path for path in sys.path if path)]
        command = [sys.executable, "-m", "dask", what, *map(str, options)]
        log = (self.folder / f"{what}-{len(self.workers)}.log").open("w")
        return subprocess.Popen(
            command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths[1:] + paths[:1])), **environment},
        )  # fmt: skip


def _wait(ready: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)
