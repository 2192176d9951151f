"""`todo`: the markers of every Python file in task/ that can be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from proof.engine.errors import UsageError
from proof.engine.todo import find_todos

from . import ROOT

pytestmark = pytest.mark.quick


def test_a_file_in_another_encoding_and_links_to_nowhere_are_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"# coding: latin-1\n# TODO(2): f\xfcr b\n# and c\n")
    (tmp_path / "a.py").write_text("# TODO(1): for a\n")
    (tmp_path / ".#a.py").symlink_to("somebody@elsewhere.1234")
    (tmp_path / "folder.py").mkdir()
    assert [(todo.number, todo.line, todo.text) for todo in find_todos(tmp_path)] == [
        (1, 1, "for a"), (2, 2, "f\N{REPLACEMENT CHARACTER}r b and c")]  # fmt: skip


def test_a_semicolon_ends_what_to_put_there() -> None:
    todos = find_todos(ROOT / "{{cookiecutter.project_slug}}" / "starters")
    assert len(todos) > 80
    assert not [todo for todo in todos if todo.text.count(";") > 1]


def test_a_file_that_cannot_be_read_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: str) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "a.py").touch()
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(UsageError, match=r"a\.py can't be read: Permission denied\.$"):
        find_todos(tmp_path)
