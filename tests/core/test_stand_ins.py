"""A pointer, a page or nothing where a file should be is named for what it is; see
``tests/cases/lfs-pointer``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from unplug.core import (
    InputError,
    check_content,
    check_contents,
    pointer_in,
    read_json,
    read_regular,
    sha256_file,
    stand_in,
    why_missing,
)

LFS = (Path(__file__).parents[1] / "cases/lfs-pointer/pointer").read_bytes()
KEY = b"annex/objects/SHA256E-s1120381--9a271f2a916b0b6ee6cecb2426f0b3206ef074578be55d9bc94f6f3fe3ab86aa.png"
POINTERS = {
    "lfs": (LFS, "Git LFS pointer, .*git lfs pull"),
    "lfs of Windows": (b"\xef\xbb\xbf" + LFS.replace(b"\n", b"\r\n"), "Git LFS pointer"),
    "annex": (b"/" + KEY + b"\n", "git-annex pointer, .*git annex get"),
    "annex link as text": (b"../../.git/" + KEY, "git-annex pointer"),
    "dvc": (
        b"outs:\n- md5: 22a1a2931c8370d3aeedd7183606fd7f\n  size: 14445097\n  path: data.xml\n",
        "dvc pull",
    ),
    "git-crypt": (b"\0GITCRYPT\0" + bytes(range(200)), "git-crypt unlock"),
}
OTHERS = {
    "page": (b"\n<!DOCTYPE html>\n<html><title>Sign in</title></html>", "a web page"),
    "xhtml": (b'<?xml version="1.0"?>\n<html xmlns="x">', "a web page"),
    "answer": (b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>', "answer in XML"),
    "text": (b"Entry not found", r"a text \('Entry not found'\)"),
    "json": (b'{"error": "gated"}', "a text"),
    "empty": (b"", "it is empty"),
    "zeros": (bytes(4096), "begins with zeros"),
}
REAL = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    b"\x10\0\0\0\0\0\0\0{}",
    b"PK\3\4\x14\0",
    b"\x1c\0\0\0TFL3\x14\0",
    b"\x08\x08\x12\x07pytorch\x90",
    bytes(100),
)


@pytest.mark.parametrize("kind", POINTERS)
def test_a_pointer_is_named_by_whatever_reads_files(tmp_path: Path, kind: str) -> None:
    content, said = POINTERS[kind]
    path = tmp_path / "x.json"
    path.write_bytes(content)
    for read in (
        read_json,
        sha256_file,
        check_content,
        lambda path: read_regular(path, max_bytes=10**6),
        lambda path: check_contents([path]),
    ):
        with pytest.raises(InputError, match=f"x.json: .*{said}"):
            read(path)


@pytest.mark.parametrize("kind", OTHERS)
def test_what_can_be_no_numbers_is_named(tmp_path: Path, kind: str) -> None:
    content, said = OTHERS[kind]
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"model.onnx: .*{said}"):
        check_content(path)
    check_content(path, text=True)
    assert pointer_in(content) is None and read_regular(path, max_bytes=10**6) == content


@pytest.mark.parametrize("content", REAL)
def test_real_files_are_left_alone(content: bytes) -> None:
    assert stand_in(content) is None


def test_a_file_that_something_stands_for_says_what(tmp_path: Path) -> None:
    (tmp_path / "a.bin").symlink_to("../.git/annex/objects/X1/q2/SHA256E-s5--ab/SHA256E-s5--ab")
    (tmp_path / "b.bin").symlink_to("../../blobs/0123")
    (tmp_path / "c.bin").symlink_to("c.bin")
    (tmp_path / "d.bin.dvc").write_bytes(POINTERS["dvc"][0])
    (tmp_path / ".e.bin.icloud").write_bytes(b"bplist00")
    said = {
        "a": "git annex get",
        "b": r"leads nowhere \(to ../../blobs/0123\)",
        "c": "in a circle",
        "d": "dvc pull",
        "e": "iCloud",
    }
    for name, words in said.items():
        with pytest.raises(InputError, match=f"{name}.bin: .*{words}"):
            read_regular(tmp_path / f"{name}.bin", max_bytes=10)
    assert why_missing(tmp_path / "gone") is None and why_missing(tmp_path) is None
    with pytest.raises(InputError, match="gone: No such file"):
        read_regular(tmp_path / "gone", max_bytes=10)
