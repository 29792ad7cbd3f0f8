"""The harness for test files of others: recipes of libraries, smaller cases, outcomes by reason."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.triton_peers.cases import fewer_numbers, smaller
from tests.triton_peers.libraries import CHECKS, change_words, recipes
from tests.triton_peers.outcomes import FAILED, REFUSED, WRONG, of_error, shape_of


def test_each_library_has_a_commit_and_files() -> None:
    for library, recipe in recipes().items():
        assert recipe["repository"].startswith("https://github.com/") and len(recipe["commit"]) == 40, library
        assert set(recipe) <= {
            "repository", "commit", "below", "paths", "each", "sizes", "words", "environment", "distributions", "files",
        }  # fmt: skip
        for name, more in recipe["files"].items():
            assert set(more) <= {"sizes", "tests", "without"}, name
            assert not name.startswith("check_") or (CHECKS / name).exists(), name


def test_words_of_a_checkout_change_once(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text('if kind == "cuda":\n    pass\n', encoding="utf-8")
    for _ in range(2):
        change_words(tmp_path, [["*.py", '== "cuda"', 'in ("cuda", "cpu")']])
    assert path.read_text(encoding="utf-8") == 'if kind in ("cuda", "cpu"):\n    pass\n'


def test_cases_are_made_smaller_and_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_PEERS_SIZES", '{"test_a.py": {"T": 64, "lens": [1, 2]}}')
    monkeypatch.setenv("KB_PEERS_TESTS", '{"test_a.py": "chunk"}')

    def case(test: str, **params: Any) -> Any:
        name = f"{test}[{params['T']}]"
        return SimpleNamespace(path=Path("test_a.py"), name=name, originalname=test, callspec=SimpleNamespace(params=params))

    given = [case("test_chunk", T=one, lens=None, causal=True) for one in (62, 1024, 2048)]
    monkeypatch.setenv("KB_PEERS_WITHOUT", '{"test_a.py": "chunk.63"}')
    assert smaller([case("test_chunk", T=63, lens=None), given[1]]) == given[1:2]
    left = smaller([*given, case("test_other", T=1)])
    assert left == given[:2]
    assert [one.callspec.params for one in left] == [{"T": size, "lens": [1, 2], "causal": True} for size in (62, 64)]
    monkeypatch.setenv("KB_PEERS_EACH", "1")
    assert len(smaller(given)) == 1


def test_outcomes_tell_refusals_from_wrong_numbers() -> None:
    assert of_error("TritonError", "a.py:3: tl.x is not supported: use y") == REFUSED
    assert of_error("TritonError", "a.py:3: TypeError: x") == FAILED
    assert of_error("AssertionError", "Tensor-likes are not close") == WRONG
    assert of_error("AssertionError", "assert 'invalid axis -3' in 'None'\n +  where 'None' = str(None)") == FAILED
    assert shape_of("a.py:33: 12 of 0x1f lanes") == "N of N lanes"


def test_downcasts_convert_fewer_numbers() -> None:
    made: list[tuple[int, int]] = []
    module = SimpleNamespace(launch_exhaustive_populate=lambda kind, offset, numel, device: made.append((offset, numel)))

    def downcast_test(kind: str, offset: int, device: str) -> None:
        module.launch_exhaustive_populate(kind, offset << 24, 2**24, device=device)
        module.launch_exhaustive_populate(kind, offset, 8, device=device)

    module.downcast_test = downcast_test
    ended: list[int] = []
    fewer_numbers(module, 64, 128, lambda: ended.append(len(made)))
    for offset in range(256):
        module.downcast_test("f32", offset, device="cpu")
    assert made == [(0, 64), (0, 8), (128 << 24, 64), (128, 8)] and ended == [2, 4]
