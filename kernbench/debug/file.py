"""Session files: the content of the target, machine, cycle, breakpoints and watch expressions, as JSON. They run no code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from kernbench.api.targets import Target
from kernbench.cmdq import load_program
from kernbench.common.errors import InputError, Problem
from kernbench.common.files import read_bounded, write_whole
from kernbench.config.load import load_config
from kernbench.debug.session import LIMIT, Session
from kernbench.debug.subject import COLLECTIVE, KERNEL, PROGRAM, Subject, subject_of
from kernbench.sim_engine.result import MODEL_VERSION
from kernbench.version import VERSION

if TYPE_CHECKING:
    from kernbench.config.allowed_code import AllowCode

FORMAT = 1
FILE_BYTES = 256 << 20
REMEDY = "save the session again"

Line = Annotated[str, msgspec.Meta(max_length=1000)]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """A session file."""

    kbsim_debug: int
    version: str
    model_version: int
    kind: Literal["program", "kernel", "collective"]
    target: str  #: for a program, its name
    digest: str  #: of the content of the target
    machine: dict[str, Any]
    machine_digest: str
    machine_name: str
    settings: Annotated[list[Line], msgspec.Meta(max_length=1000)]  #: parameters of a bench or collective
    strict_wait: bool
    cycle: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
    state: str  #: digest of the state at this cycle
    breakpoints: Annotated[list[Line], msgspec.Meta(max_length=LIMIT)]
    watches: Annotated[list[Line], msgspec.Meta(max_length=LIMIT)]
    program: dict[str, Any] | None = None  #: the entries of a program


class _Head(msgspec.Struct):
    """The common part of all versions."""

    kbsim_debug: int


def save_session(session: Session, path: str | os.PathLike[str]) -> None:
    """Write a session. InputError if the file cannot be written."""
    subject = session.subject
    made = _File(
        kbsim_debug=FORMAT,
        version=VERSION,
        model_version=MODEL_VERSION,
        kind=subject.kind,  # type: ignore[arg-type]  # one of the three
        target=subject.name,
        digest=subject.digest(),
        machine=subject.config.to_dict(),
        machine_digest=subject.config.digest(),
        machine_name=subject.config.source,
        settings=list(subject.own),
        strict_wait=subject.strict_wait,
        cycle=session.cycle,
        state=session.digest(),
        breakpoints=[one.text for one in session.breakpoints],
        watches=[one.text for one in session.watches],
        program=None if subject.program is None else subject.program.to_dict(),
    )
    write_whole(path, msgspec.json.format(msgspec.json.encode(made, order="sorted"), indent=1) + b"\n")


def load_session(path: str | os.PathLike[str], target: Target | None, *, allow_code: AllowCode = ()) -> Session:
    """The same as `Session.load`."""
    where = os.fspath(path)
    read = _read(where)
    subject = _subject(where, read, target, allow_code)
    if subject.digest() != read.digest:
        rule = "the content of the target is not what was saved"
        raise InputError(
            Problem(
                where, rule, "target", read.target, "debug the new target without --session, or pass the target that was saved"
            )
        )
    if subject.config.digest() != read.machine_digest:
        raise InputError(
            Problem(where, "the machine in the file differs from the saved one: the file is damaged", remedy=REMEDY)
        )
    session = Session(subject)
    session.goto(read.cycle)
    if session.digest() != read.state:
        rule = f"the run is not in the saved state in cycle {session.cycle:,}"
        raise InputError(
            Problem(where, rule, remedy="another build saved the file, or the target depends on more than its inputs")
        )
    for text in read.breakpoints:
        session.break_on(text)
    for text in read.watches:
        session.watch(text)
    return session


def _read(where: str) -> _File:
    data = read_bounded(where, FILE_BYTES, what="the session", remedy=REMEDY, unread="check the path")
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InputError(
            Problem(where, "it is not a session of kbsim debug", remedy="`save FILE` in the debugger writes one")
        ) from None
    if head.kbsim_debug != FORMAT:
        remedy = "use a newer kernbench" if head.kbsim_debug > FORMAT else REMEDY
        raise InputError(Problem(where, f"this kernbench reads version {FORMAT}", "kbsim_debug", head.kbsim_debug, remedy))
    try:
        read = msgspec.json.decode(data, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(Problem(where, f"the session is damaged: {str(error)[:160]}", remedy=REMEDY)) from None
    if read.model_version != MODEL_VERSION:
        rule = f"the session was saved with other timing rules; the timing rules of this kernbench have version {MODEL_VERSION}"
        raise InputError(Problem(where, rule, "model_version", read.model_version, REMEDY))
    return read


def _subject(where: str, read: _File, target: Target | None, allow_code: AllowCode) -> Subject:
    config = load_config(read.machine, allow_code=allow_code)
    config._source = read.machine_name
    if read.kind == PROGRAM:
        if read.program is None:
            raise InputError(Problem(where, "the session is damaged: it has no program", remedy=REMEDY))
        program = load_program(read.program)
        return Subject(read.target, PROGRAM, config, program=program, target=program)
    if target is None and read.kind == KERNEL:
        from kernbench.runtime_api.discovery import installed_benches

        if read.target not in installed_benches():
            rule = "its bench is no bench of the package, and a session runs no code that it names"
            raise InputError(Problem(where, rule, "target", read.target, f"kbsim debug FILE.py --session {where}"))
    if read.kind == COLLECTIVE and target is not None:
        raise InputError(Problem(where, "the session has its own target", remedy="leave TARGET out"))
    chosen: Target = read.target if target is None else target
    return subject_of(chosen, config, read.settings, strict_wait=read.strict_wait, allow_code=allow_code)
