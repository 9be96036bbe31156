"""Lines that outlive their writer: every place where it may be killed, a full disk, other writers,
other benchmarks.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from unplug.core import InputError, JsonLines, OutputError

HEAD = {"schema": "test/1"}
VALUES = [{"number": 1}, {"text": "ä\n"}, {"number": 3}]


def write(path: Path, *values: object) -> list[str]:
    said: list[str] = []
    with JsonLines(path, HEAD, said.append) as lines:
        for value in values:
            lines.add(value)
    return said


def read(path: Path) -> list[object]:
    with JsonLines(path, HEAD, print) as lines:
        return lines.found


def test_a_kill_after_any_byte_loses_at_most_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "a.part"
    write(path, *VALUES)
    whole = path.read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole) if byte == 10]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        complete = max(sum(end <= cut for end in ends) - 1, 0)
        assert read(path) == VALUES[:complete], cut
        write(path, {"more": 1})
        assert read(path) == [*VALUES[:complete], {"more": 1}], cut
    assert not list(tmp_path.glob("*.old*"))


def test_a_broken_line_in_the_middle_is_passed_over_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.part"
    write(path, *VALUES)
    head, one, two, three = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(head + one + two[:5] + b"\xff\r more\n" + b"[" * 100_000 + b"\n" + three)
    assert read(path) == [VALUES[0], VALUES[2]]
    assert two[:5] in path.read_bytes()


def test_what_is_whole_stays_whole_when_nobody_listens(tmp_path: Path) -> None:
    """Somebody else may take the name while the user is told of the file that was set aside."""
    path = tmp_path / "a.part"
    path.write_text("notes")

    def say(line: str) -> None:
        with pytest.raises(InputError, match="another benchmark writes it now"):
            JsonLines(path, HEAD, print)

    with JsonLines(path, HEAD, say) as lines:
        lines.add(VALUES[0])
    assert read(path) == [VALUES[0]] and path.with_name("a.part.old1").read_text() == "notes"


def test_a_file_beyond_the_limit_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.core.store.MAX_BYTES", 40)
    write(tmp_path / "a.part", *VALUES)
    (line,) = write(tmp_path / "a.part")
    assert "is of over 0 MiB: kept as a.part.old1" in line


def test_after_the_end_nothing_is_taken_in_silence(tmp_path: Path) -> None:
    with JsonLines(tmp_path / "a.part", HEAD, print) as lines:
        pass
    with pytest.raises(OutputError, match="the benchmark has ended"):
        lines.add(VALUES[0])
    JsonLines(None, HEAD, print).add(VALUES[0])


def test_files_of_others_are_numbered(tmp_path: Path) -> None:
    path, other = tmp_path / "a.part", b'{"schema": "test/2"}\n'
    contents = [b"some file\nof the user", b"some line", other + b'{"number": 1}\n']
    for content in contents:
        path.write_bytes(content)
        assert "is of another benchmark" in write(path, VALUES[0])[0]
    assert [file.read_bytes() for file in sorted(tmp_path.glob("*.old*"))] == contents
    path.write_bytes(other)
    assert write(path) == [] and read(path) == [], "a head alone is nothing to keep"


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.part"
    with (
        JsonLines(path, HEAD, print),
        pytest.raises(InputError, match="another benchmark writes it now"),
    ):
        JsonLines(path, HEAD, print)
    with JsonLines(path, HEAD, print):
        path.unlink()  # what the first one has is no file of this name any more
        JsonLines(path, HEAD, print).close()
    assert [file.name for file in tmp_path.iterdir()] == ["a.part"], "no lock is left beside it"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("file/a.part", "Choose another `out`"),
        (".", "Choose another `out`"),
        ("pipe", "not a plain file"),
    ],
)
def test_places_that_cannot_be_written(tmp_path: Path, place: str, words: str) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match=words):
        JsonLines(tmp_path / place, HEAD, print)


def test_a_full_disk_keeps_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.part"
    with JsonLines(path, HEAD, print) as lines:
        lines.add(VALUES[0])
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, hard))
        try:
            words = "Free some space; what was measured so far is kept"
            with pytest.raises(OutputError, match=words):
                lines.add(VALUES[1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        lines.add(VALUES[2])
    assert read(path) == [VALUES[0], VALUES[2]] and path.read_bytes().count(b"\n") == 3
