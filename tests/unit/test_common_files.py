"""Where files may be written, before anything is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.common.files import check_apart, check_writable, write_whole


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_text("{}")
    (tmp_path / "link.json").symlink_to(source)
    for name in ("in.json", "link.json", "../" + tmp_path.name + "/in.json"):
        with pytest.raises(InputError, match="it cannot be written: the command reads it; choose another place"):
            check_apart((None, tmp_path / name), (None, "npu_mobile", source))
    check_apart((tmp_path / "out.json", None), (source, "npu_mobile"))
    check_apart(("npu_mobile",), ("npu_mobile",))  # a preset's name is no file


def test_two_options_do_not_name_one_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it cannot be written: two options name it"):
        check_apart((tmp_path / "a", tmp_path / "b", tmp_path / "x" / ".." / "a"), ())
    check_apart(("/dev/null", "/dev/null"), ("/dev/null",))


def test_a_dash_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere it is stdout; here a file of that name was left behind."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="-: it cannot be written: it is no file's name; give /dev/stdout for stdout"):
        check_writable("-")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there such a link is what is replaced")
def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match="it cannot be written: its links lead round in a circle"):
        check_writable(loop)
    with pytest.raises(InputError, match="it cannot be written: its links lead round in a circle"):
        write_whole(loop, b"")
