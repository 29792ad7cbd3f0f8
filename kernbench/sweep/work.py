"""Runs tasks in a process of a pool, in a thread, or on a cluster. The code is the same in all these cases."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import NoRoomError
from kernbench.config.allowed_code import AllowCode, AllowedCode
from kernbench.sim_engine.result import MODEL_VERSION
from kernbench.sweep.area import METRIC, Area
from kernbench.sweep.machines import Machines
from kernbench.sweep.points import Task
from kernbench.sweep.spec import Spec
from kernbench.sweep.store.tables import Row, failed_row, ordered
from kernbench.sweep.targets.target import Target, target_of
from kernbench.version import VERSION


class Context(msgspec.Struct, frozen=True):
    """The common data of the tasks of a sweep, in plain JSON types; it is sent once."""

    targets: list[dict[str, Any]]
    machines: list[tuple[str, dict[str, Any]]]  #: label, and `to_dict()` of the base machine
    area: Area | None = None
    version: str = VERSION
    model_version: int = MODEL_VERSION

    @classmethod
    def of(cls, spec: Spec) -> Context:
        """The context of a spec."""
        return cls([target.plain() for target in spec.targets], [(one.label, one.base) for one in spec.machines], spec.area)


class TimeLimitError(BaseException):
    """A run took longer than the limit of the sweep. A bench's `except Exception` does not catch this error."""


class Work:
    """Targets and machines that are made once from their context and run many times."""

    def __init__(self, targets: Sequence[Target], machines: Sequence[Machines], area: Area | None = None) -> None:
        self.targets = targets
        self.machines = machines
        self.area = area

    @classmethod
    def of(cls, context: Context, allow_code: AllowCode = (), machines: Sequence[Machines] = ()) -> Work:
        """InputError if the context is from another version of the package, because results would get the wrong keys.

        `allow_code`: directories and files of Python code that targets and machines may name; a context itself allows none.
        `machines`: the machines of the context, if they have been made before.
        """
        if (context.version, context.model_version) != (VERSION, MODEL_VERSION):
            rule = f"it has version {VERSION} of kernbench, model {MODEL_VERSION}, and the sweep is of {context.version}"
            raise InputError(Problem("worker", rule, remedy="install the same version everywhere"))
        allowed = AllowedCode.of(allow_code)
        targets = [target_of(one, allowed) for one in context.targets]
        return cls(targets, machines or [Machines(*one, allowed) for one in context.machines], context.area)

    def run(self, task: Task) -> Row:
        """The row of a task. Every exception of the run becomes the error of its row, except an interrupt."""
        begin = time.perf_counter()
        try:
            config = self.machines[task.machine].again(task.settings)
            fields = self.targets[task.target].simulate(config, task.params)
        except NoRoomError as error:
            again = "the same sweep with --retry failed runs the point again"
            return failed_row(task.key, "error", f"{error}; {again}", time.perf_counter() - begin)
        except InputError as error:
            return failed_row(task.key, "refused", str(error), time.perf_counter() - begin)
        except TimeLimitError as error:
            return failed_row(task.key, "timeout", str(error), time.perf_counter() - begin)
        except MemoryError:
            return failed_row(task.key, "memory", "the run needs more memory than it may have", time.perf_counter() - begin)
        except Exception as error:
            text = f"{type(error).__name__}: {error}".split("\n")[0]
            return failed_row(task.key, "error", text, time.perf_counter() - begin)
        if self.area is not None and (area := self.area.mm2(config)) is not None:
            fields["metrics"][METRIC] = area
        fields["metrics"] = ordered(fields["metrics"])
        return Row(key=task.key, seconds=time.perf_counter() - begin, **fields)
