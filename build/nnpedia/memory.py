"""Memory: how much this machine, or the container on it, has for the units of a build together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

SHARE = 0.85  # of it, for units; the rest is the system's and the build's own
UNLIMITED = 1 << 60  # cgroup v1 says a number near 2**63 where it sets no limit


def for_units() -> int | None:
    """Bytes that the units which run at once may take together; `None` where nothing says what there is."""
    found = [*_physical(), *_of_cgroups()]
    return int(min(found) * SHARE) if found else None


def _physical() -> Iterator[int]:
    try:
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return


def _of_cgroups(process: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    """The limits of the control groups that this process is in, of each and of all above it, versions 1 and 2."""
    try:
        lines = process.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            yield from _upwards(mounted, group, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _upwards(mounted / "memory", group, "memory.limit_in_bytes")


def _upwards(mounted: Path, group: str, file: str) -> Iterator[int]:
    inside = PurePosixPath(group).relative_to("/") if group.startswith("/") else PurePosixPath()
    for place in (inside, *inside.parents):
        try:
            limit = (mounted / place / file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):  # a container sees its own group as the root, under another path
            continue
        if limit.isdigit() and int(limit) < UNLIMITED:
            yield int(limit)
