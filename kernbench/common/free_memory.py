"""The memory that a process can still allocate on this computer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def free_memory(root: Path = Path("/")) -> int | None:
    """[B] The smallest of three limits: the available memory, the limit of the process group, and the limit of the process.
    None if there is no limit.
    """
    return min((*_available(root), *_of_group(root), *_of_process(root)), default=None)


def _available(root: Path) -> Iterator[int]:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) << 10


def _of_group(root: Path) -> Iterator[int]:
    """The remaining memory of the cgroup (version 2) of a container or batch system; `max` means no limit."""
    group = root / "sys/fs/cgroup"
    most, now = (_text(group / f"memory.{name}").strip() for name in ("max", "current"))
    if most.isdigit() and now.isdigit():
        yield max(0, int(most) - int(now))


def _of_process(root: Path) -> Iterator[int]:
    """The limit of the address space (`ulimit -v`), minus the mapped bytes."""
    try:
        import resource
    except ImportError:  # not available on every system
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text(root / "proc/self/statm").split()
    if limit != resource.RLIM_INFINITY and pages:
        yield max(0, limit - int(pages[0]) * resource.getpagesize())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
