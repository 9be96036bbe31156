"""Signed notes and keys: what Go's package signs and opens, and what must be refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.core import CheckFailed, InputError, UnplugError
from unplug.trust.ledger import (
    LedgerCheckpoint,
    LedgerSigner,
    Verifier,
    make_signing_key,
    open_checkpoint,
    signing_key,
)
from unplug.trust.ledger.notes import note_of

# The example of golang.org/x/mod/sumdb/note.
SECRET = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
TEXT = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your "
    "problem is.\n"
)
NOTE = (
    f"{TEXT}\n— PeterNeumann "
    "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
).encode()


def test_go_s_example_is_signed_and_opened_to_the_byte() -> None:
    signer = LedgerSigner.parse(SECRET, "key")
    assert (signer.secret_text, signer.verifier.text) == (SECRET, PUBLIC)
    assert note_of(TEXT, signer.verifier, signer.sign(TEXT)) == NOTE
    assert Verifier.parse(PUBLIC).opened(NOTE, "note") == TEXT
    assert "AYEK" not in repr(signer)


def test_others_signatures_are_passed_over() -> None:
    other = LedgerSigner(name="witness.example", seed=bytes(32))
    line = note_of(TEXT, other.verifier, other.sign(TEXT)).decode().rpartition("\n\n")[2].encode()
    assert Verifier.parse(PUBLIC).opened(NOTE + line, "note") == TEXT
    with pytest.raises(InputError, match="signed by PeterNeumann, not by the key witness"):
        other.verifier.opened(NOTE, "note")
    with pytest.raises(CheckFailed, match="not what the key PeterNeumann signed"):
        Verifier.parse(PUBLIC).opened(NOTE.replace(b"answer", b"ANSWER"), "note")


@given(
    st.binary(max_size=200)
    | st.integers(0, len(NOTE) - 1).map(lambda place: NOTE[:place] + b"?" + NOTE[place + 1 :])
)
def test_no_other_bytes_open(note: bytes) -> None:
    if note == NOTE:
        return
    with pytest.raises(UnplugError):
        Verifier.parse(PUBLIC).opened(note, "note")


@given(st.text(max_size=120))
def test_no_other_text_is_a_key(text: str) -> None:
    for parse in (Verifier.parse, lambda raw: LedgerSigner.parse(f"PRIVATE+KEY+{raw}", "key")):
        with pytest.raises(InputError):
            parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\n1\n",
        "a\n01\nAAAA\n",
        "a\n1\nAAAA\n",
        f"a\n{'9' * 30}\n{'A' * 43}=\n",
        f"\n1\n{'A' * 43}=\n",
    ],
)
def test_no_other_text_is_a_checkpoint(text: str, signer: LedgerSigner) -> None:
    with pytest.raises(InputError):
        open_checkpoint(note_of(text, signer.verifier, signer.sign(text)), signer.verifier, "kept")


def test_a_checkpoint_with_lines_of_others_opens(signer: LedgerSigner) -> None:
    made = LedgerCheckpoint(origin="a", size=3, root=bytes(32))
    text = f"{made.text}their own line\n"
    assert (
        open_checkpoint(note_of(text, signer.verifier, signer.sign(text)), signer.verifier, "kept")
        == made
    )


def test_a_key_is_made_once_and_its_owner_s_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place / "ledger-key"
    with pytest.raises(InputError, match="no key that signs ledgers is there"):
        signing_key()
    made = make_signing_key("example.com")
    assert make_signing_key("other.example") == made == signing_key()
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(InputError, match=r"others can read this key \(mode 0644\)"):
        signing_key()
    path.chmod(0o600)
    text = path.read_text()
    path.write_text(text.replace("example.com", "example.org"))
    with pytest.raises(InputError, match="do not belong together") as caught:
        signing_key()
    assert text[30:60] not in str(caught.value)
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", text)
    assert signing_key() == made
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", str(place / "new"))
    for name in ("two words", "two\nlines", "m\u00fcnchen", "a\x1b[2J", "a+b"):
        with pytest.raises(
            InputError, match="white space, a plus sign or other than ASCII"
        ) as refused:
            make_signing_key(name)
        assert "\n" not in str(refused.value) and not (place / "new").exists()
