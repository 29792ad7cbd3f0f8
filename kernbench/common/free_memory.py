"""How much memory of this computer a process may still take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def free_memory(root: Path = Path("/")) -> int | None:
    """[B], the least of what the kernel says is available, what the group of processes may take, and what the process may take;
    None where nothing says."""
    return min((*_available(root), *_of_group(root), *_of_process(root)), default=None)


def _available(root: Path) -> Iterator[int]:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) << 10


def _of_group(root: Path) -> Iterator[int]:
    """Of a cgroup (version 2), as containers and batch systems have; `max` is no limit."""
    group = root / "sys/fs/cgroup"
    most, now = (_text(group / f"memory.{name}").strip() for name in ("max", "current"))
    if most.isdigit() and now.isdigit():
        yield max(0, int(most) - int(now))


def _of_process(root: Path) -> Iterator[int]:
    """The limit of the address space (`ulimit -v`), less what is mapped."""
    try:
        import resource
    except ImportError:  # not on every system
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
