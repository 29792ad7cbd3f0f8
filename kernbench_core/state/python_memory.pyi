"""Huge pages for the objects of Python."""

from contextlib import AbstractContextManager

def memory_of(pes: int) -> AbstractContextManager[None]:
    """A context for the run of a machine of this many PEs: large machines use `huge_pages`."""

def huge_pages() -> AbstractContextManager[None]:
    """Inside the `with` block, new memory of Python's objects is in huge pages, where the system has some."""
