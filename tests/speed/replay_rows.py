"""How fast the op log is written, how small it is, and how fast Phase 2 replays it: figures, never a test."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from kernbench.common.blas import one_blas_thread
from kernbench.common.handles import TensorHandle
from kernbench.common.pe_commands import CompositeCmd, DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from tests.speed.goals import Goal
from tests.speed.sample import Sample

SIZE, TILE = 2048, 128
ROUNDS = 5
GOAL_TIMES, GOAL_BYTES = 2.0, 500  # of one numpy matmul with its casts; of a record without its payload
BYTES_A, BYTES_B, BYTES_C = 0, 16 << 20, 32 << 20


def replay_rows(quick: bool = False) -> dict[str, Any]:
    """CPU seconds of a GEMM of SIZE cubed in f16 replayed in tiles of TILE, and of numpy; microseconds and bytes a record."""
    size = SIZE // 2 if quick else SIZE
    a, b = (np.random.default_rng(seed).standard_normal((size, size)).astype(np.float16) for seed in (1, 2))
    logs = {"dots": dots_log(a, b), "composite": composite_log(a, b)}
    rounds = [_round(a, b, logs) for _ in range(ROUNDS)]
    rows: dict[str, Any] = {"size": size, "tile": TILE, "numpy_s": Sample([found["numpy"] for found in rounds])}
    for name, log in logs.items():
        rows[f"{name}_ops"] = len(log)
        rows[f"{name}_s"] = Sample([found[name] for found in rounds])
        rows[f"{name}_times"] = Sample([found[name] / found["numpy"] for found in rounds])
    return {**rows, **log_row(20_000 if quick else 100_000)}


def _round(a: Any, b: Any, logs: dict[str, OpLogger]) -> dict[str, float]:
    """[s] of CPU time of numpy and of the replays, in turn. All multiply on one thread: the CPU time of several threads of the
    BLAS library contains the time in which they wait for each other.
    """
    with one_blas_thread():
        found = {"numpy": _seconds(lambda: (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))}
    return found | {name: _seconds(DataExecutor(log, threads=1).run) for name, log in logs.items()}


def _seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def _store(a: Any, b: Any) -> tuple[MemoryStore, int]:
    """Both matrices, tile by tile."""
    store, tiles = MemoryStore(), a.shape[0] // TILE
    for base, matrix in ((BYTES_A, a), (BYTES_B, b)):
        for i in range(tiles * tiles):
            row, column = divmod(i, tiles)
            tile = matrix[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
            store.write("hbm", base + i * TILE * TILE * 2, np.ascontiguousarray(tile))
    return store, tiles


def dots_log(a: Any, b: Any) -> OpLogger:
    """A kernel that loads two tiles and adds their product, for every tile of the result; what it loads has two buffers."""
    store, tiles = _store(a, b)
    log, nbytes, t = OpLogger(store), TILE * TILE * 2, 0.0
    acc = TensorHandle("acc", 8 * nbytes, (TILE, TILE), "f32")
    for i in range(tiles * tiles):
        row, column = divmod(i, tiles)
        for k in range(tiles):
            one = TensorHandle("a", (k % 2) * nbytes, (TILE, TILE), "f16")
            two = TensorHandle("b", (2 + k % 2) * nbytes, (TILE, TILE), "f16")
            _log(log, t, "pe_dma", DmaReadCmd(one, BYTES_A + (row * tiles + k) * nbytes, nbytes, line="k.py:5"))
            _log(log, t + 1, "pe_dma", DmaReadCmd(two, BYTES_B + (k * tiles + column) * nbytes, nbytes, line="k.py:6"))
            gemm = GemmCmd(one, two, acc, TILE, TILE, TILE, acc=acc if k else None, line="k.py:7")
            _log(log, t + 2, "pe_gemm", gemm)
            t += 3
        out = TensorHandle("c", 6 * nbytes, (TILE, TILE), "f16")
        _log(log, t, "pe_math", MathCmd("cast", [acc], out, line="k.py:8"))
        _log(log, t + 1, "pe_dma", DmaWriteCmd(out, BYTES_C + i * nbytes, nbytes, line="k.py:9"))
        t += 2
    return log


def composite_log(a: Any, b: Any) -> OpLogger:
    """The same product as one composite op, from memory to memory."""
    store = MemoryStore()
    store.write("hbm", BYTES_A, a)
    store.write("hbm", BYTES_B, b)
    size = a.shape[0]
    log = OpLogger(store)
    one, two, out = (TensorHandle("", addr, (size, size), "f16", "hbm") for addr in (BYTES_A, BYTES_B, BYTES_C))
    work = GemmCmd(one, two, out, size, size, size, tile_k=TILE)
    _log(log, 0.0, "pe_scheduler", CompositeCmd("gemm", BYTES_C, out.nbytes, work, line="k.py:4"))
    return log


def _log(log: OpLogger, t: float, component: str, msg: Any) -> None:
    log.record_start(t, component, msg)
    log.record_end(t + 1, component, msg)


def log_row(ops: int) -> dict[str, float]:
    """Loads, dots, exponentials and stores in turn, without a store: bytes that a record keeps, CPU microseconds to log it."""
    tracemalloc.start()
    log = OpLogger()
    _log_many(log, ops)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(log.records) == ops
    seconds = _seconds(lambda: _log_many(OpLogger(), ops))
    return {"log_ops": ops, "bytes_per_op": held / ops, "log_us_per_op": seconds / ops * 1e6}


def _log_many(log: OpLogger, ops: int) -> None:
    """Every op has addresses of its own, as 64-bit addresses are: none is shared by chance."""
    shape = (64, 64)
    for i in range(0, ops, 4):
        base = (1 << 40) + i * 65536
        x, y, z, out = (TensorHandle(f"t{i + j}", base + j * 8192, shape, "f16") for j in range(4))
        _log(log, i * 1.5, "pe_dma", DmaReadCmd(x, base * 2, 8192, line="k.py:1"))
        _log(log, i * 1.5 + 1, "pe_gemm", GemmCmd(x, y, z, 64, 64, 64, line="k.py:2"))
        _log(log, i * 1.5 + 2, "pe_math", MathCmd("exp", [z], out, line="k.py:3"))
        _log(log, i * 1.5 + 3, "pe_dma", DmaWriteCmd(out, base * 3, 8192, line="k.py:4"))


def replay_table(rows: dict[str, Any]) -> str:
    """The rows for a person."""
    what = f"replay of a GEMM of {rows['size']} cubed, tiles of {rows['tile']}"
    lines = [f"  {what:42}   ops     CPU s   of numpy"]
    lines.append(f"  {'numpy, with its casts':42} {'':5} {rows['numpy_s']:9.3f}")
    for name in ("dots", "composite"):
        seconds, times = rows[f"{name}_s"], rows[f"{name}_times"]
        lines.append(f"  {name:42} {rows[f'{name}_ops']:5,} {seconds:9.3f} {times:9.2f}x {times.about}")
    held, cost = rows["bytes_per_op"], rows["log_us_per_op"]
    return "\n".join([*lines, f"  op log: {held:.0f} B a record, {cost:.2f} us of CPU to log one"])


def replay_goals(rows: dict[str, Any]) -> list[Goal]:
    """Both replays beside numpy, and the size of a record."""
    size = rows["size"]
    names = {"dots": "tile by tile", "composite": "as one composite op"}
    times = [
        Goal(f"replay of a GEMM of {size} cubed, {how}", rows[f"{name}_times"], GOAL_TIMES, "times numpy")
        for name, how in names.items()
    ]
    return [*times, Goal("a record of the op log", rows["bytes_per_op"], GOAL_BYTES, "B")]


if __name__ == "__main__":
    print(json.dumps(replay_rows(), indent=1))
