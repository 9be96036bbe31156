"""``unplug certificate``: issue, verify, templates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, counted, plain

from .base import Common, Outcome, command
from .bundle import sign_option, trust_of
from .ledger_options import with_ledger
from .options import PATH, out_option, path_argument, path_option

if TYPE_CHECKING:
    from unplug.trust.bundle import PublicKey
    from unplug.trust.ledger import Ledger


class _Certificate(click.Group):
    """Where the first word is not a subcommand, it is the request to certify."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = (*self.commands, "-h", "--help")
        return super().parse_args(ctx, args if not args or args[0] in known else ["issue", *args])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As `parse_args`, for who comes with the words alone."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["issue", *args])


@click.group(cls=_Certificate)
def certificate() -> None:
    """Certify what was done about one request, for people who must see it without trusting you.

    `unplug certificate REQUEST --bundle BUNDLE --sign KEY --out DIR` issues one (see `unplug
    certificate issue --help`).
    """


bundle_option = click.option(
    "--bundle",
    required=True,
    type=PATH,
    help="The bundle, a folder or zip file.",
)
superseded_option = path_option(
    "--superseded",
    metavar="BUNDLE",
    help="The earlier bundle of the base, which still had the packs that it dropped.",
)


def _systems(pairs: tuple[str, ...]) -> dict[str, Path]:
    """``NAME=FILE``, or a file alone, as names of systems with their searches."""
    systems: dict[str, Path] = {}
    for number, pair in enumerate(pairs, 1):
        name, equals, file = pair.partition("=")
        name, file = (name, file) if equals else (f"system {number}", pair)
        if name in systems or not name.strip() or len(name) > 60 or not name.isprintable():
            raise InputError(
                f"--trace {pair[:80]}",
                "its name is empty, too long or given twice",
                "Write NAME=trace.json",
            )
        systems[name] = Path(file)
    return systems


@certificate.command()
@click.argument("request")
@bundle_option
@superseded_option
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="[NAME=]FILE",
    help=(
        "Result of `unplug trace --request REQUEST --out FILE`, and your name for the system; may "
        "be repeated."
    ),
)
@click.option(
    "--place",
    "said",
    multiple=True,
    metavar="PLACE=OUTCOME[: WHY]",
    help=(
        "Your word on a kind of place, say 'backups=kept: overwritten after 30 days'; may be "
        "repeated."
    ),
)
@path_option(
    "--absence",
    metavar="FILE",
    help=(
        "The release's proofs that pictures are not in the sums of a closed-form model (default: "
        "those in its work folder next to the bundle)."
    ),
)
@click.option("--issuer", default="", help="Your name as the issuer.")
@sign_option(required=True)
@path_option(
    "--trust",
    "trusted",
    multiple=True,
    metavar="FILE",
    help=(
        "Key that may have signed the bundle, as for `bundle verify` (default: that of --sign); "
        "may be repeated. Where --sign is a command, the first is its public key."
    ),
)
@out_option("Folder to write.")
@command
@with_ledger
def issue(
    request: str,
    opened: Ledger,
    bundle: Path,
    superseded: Path | None,
    traces: tuple[str, ...],
    said: tuple[str, ...],
    absence: Path | None,
    issuer: str,
    key: str,
    trusted: tuple[Path, ...],
    out: Path,
    common: Common,
) -> Outcome:
    """Certify what was done about REQUEST: statements that others verify, and two pages to read."""
    from unplug.trust.bundle import load_signer
    from unplug.trust.certificates import issue_certificate, said_place

    done = issue_certificate(
        request,
        ledger=opened,
        bundle=bundle,
        superseded=superseded,
        signer=load_signer(key, trusted[0] if trusted and key.startswith("command:") else None),
        out=out,
        trust=trust_of(trusted),
        traces=_systems(traces),
        places=[said_place(text) for text in said],
        absence=absence,
        issuer=issuer,
    )
    unknown = [line.place for line in done.certificate.places if line.outcome == "unknown"]
    lines = [
        f"{done.file}: what was done about {request}, signed",
        f"{done.page}: the same to read and to print",
    ]
    lines += (
        [f"not known: {', '.join(unknown)} (--trace and --place say something of them)"]
        if unknown
        else []
    )
    value = {
        "out": str(out),
        "file": str(done.file),
        "unknown": unknown,
        "certificate": asdict(done.certificate),
    }
    return Outcome(value=value, text="\n".join(lines))


@certificate.command()
@path_argument("file")
@bundle_option
@superseded_option
@path_option(
    "--policy",
    help="Your limits, an unplug-certificate-policy/1 JSON.",
)
@click.option("--request", metavar="ID", help="The request that it must be about.")
@path_option(
    "--trust",
    "trusted",
    required=True,
    multiple=True,
    metavar="FILE",
    help=(
        "The issuer's public key, got in another way; after it other keys that may have signed "
        "the bundle: a public key, or root certificates."
    ),
)
@command
def verify(
    file: Path,
    bundle: Path,
    superseded: Path | None,
    policy: Path | None,
    request: str | None,
    trusted: tuple[Path, ...],
    common: Common,
) -> Outcome:
    """Check a certificate against the bundle and your own limits; no network (exit 1: something
    does not hold).
    """
    from unplug.trust.certificates import check_certificate, read_policy

    limits = read_policy(policy) if policy else None
    done = check_certificate(
        file,
        _issuer(trusted[0]),
        bundle,
        limits,
        request=request,
        superseded=superseded,
        trust=trust_of(trusted[1:]),
    )
    stated = done.certificate
    value = {
        "file": str(file),
        "request": stated.request.id,
        "bundle": stated.model.bundle,
        "method": stated.model.method,
        "absent": len(stated.absent),
        "problems": list(done.problems),
        "ledger_key": done.ledger_key,
        **{
            word: [line.place for line in stated.places if line.outcome == word]
            for word in ("kept", "unknown")
        },
    }
    if done.problems:
        text = "\n".join(f"{file}: {line}" for line in done.problems)
        return Outcome(value=value, text=text, ok=False)
    text = "".join((_holds(file, done), *_left(bundle, superseded)))
    if policy is None or done.ledger_key != "the policy":
        text += "; give it in a policy, from elsewhere, to hold it to that"
    return Outcome(value=value, text=text)


def _holds(file: Path, done: Any) -> str:
    from unplug.trust.certificates import remainder

    stated = done.certificate
    held = (
        f"{counted(len(stated.ledger.entries), 'entry', 'entries')} of the ledger, "
        f"{counted(len(stated.evidence.gates), 'gate')}"
        + (f", {counted(len(stated.absent), 'picture')} not in the sums" if stated.absent else "")
    )
    left = remainder(stated.places)
    verdict = "what it says of the model holds" if left else "all of it holds, and nothing is kept"
    stays = f"\nOf the person is {left}" if left else ""
    return (
        f"{file}: request {stated.request.id} was answered by the bundle "
        f"{stated.model.bundle[:16]}; {held}: {verdict}{stays}\n"
        f"The ledger's public key came from {done.ledger_key}"
    )


def _left(bundle: Path, superseded: Path | None) -> Iterator[str]:
    """The packs that left a base, with their words, which a certificate does not have."""
    from unplug.trust.bundle import read_generator

    dropped = None if superseded is None else read_generator(bundle).dropped
    if superseded is None or dropped is None:
        return
    words = {pack.sha256: pack.word for pack in read_generator(superseded).packs}
    for pack in dropped.packs:
        what = "deleted" if pack.again is None else f"trained again as {pack.again[:16]}"
        word = plain(words[pack.sha256], 64)
        yield f"\npack {pack.sha256[:16]} ({word}) {what}; files left equal those of {superseded}"


@certificate.command()
@click.argument("request")
@path_option(
    "--certificate",
    "file",
    help="The request's certificate, which fills in what it knows.",
)
@path_option(
    "--trust",
    "key",
    help="The public key of the certificate's issuer.",
)
@out_option("Folder to write.")
@command
@with_ledger
def templates(
    request: str, opened: Ledger, file: Path | None, key: Path | None, out: Path, common: Common
) -> Outcome:
    """Draft the answer to the person; what is not known is left open and visible. It is not legal
    advice.
    """
    from unplug.trust.certificates import draft_answer, open_certificate

    if (file is None) != (key is None):
        raise InputError(
            "--certificate",
            "a certificate counts only with its issuer's key",
            "Give --certificate and --trust",
        )
    issued = None if file is None or key is None else open_certificate(file, _issuer(key))
    if issued is not None and issued.request.id != request:
        raise InputError(
            str(file),
            f"it is about the request {issued.request.id}",
            f"Give the certificate of {request}",
        )
    path = draft_answer(request, opened, out, issued)
    opens = path.read_text(encoding="utf-8").count("[TO FILL IN: ")
    text = f"{path}\n{counted(opens, 'place')} left to fill in. This is not legal advice."
    return Outcome(value={"out": str(out), "files": [str(path)], "to_fill_in": opens}, text=text)


def _issuer(path: Path) -> PublicKey:
    """The one public key in a file."""
    from unplug.trust.bundle import read_trust

    keys = read_trust(path).keys
    if len(keys) != 1:
        raise InputError(
            str(path), "it does not hold exactly one public key", "Give the issuer's KEY.pub"
        )
    return keys[0]
