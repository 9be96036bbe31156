"""Processes that add requests to a ledger at once, and say of each once it is kept: ``writer.py
PLACE PREFIX COUNT EACH``.

They are forks of one process that has imported everything, which is what makes twenty of them
cheap.
"""

from __future__ import annotations

import os
import sys

from unplug.trust.ledger import LedgerSigner, open_ledger


def write(place: str, name: str, each: int) -> None:
    """Adds `each` requests with ids of its own, and one that all others add too."""
    ledger = open_ledger(
        place, signer=lambda: LedgerSigner(name="tests.example", seed=bytes(range(32)))
    )
    ledger.add(["subject:shared"], id="shared")
    for number in range(each):
        request, _ = ledger.add([f"subject:{name}-{number}"], id=f"{name}-{number}")
        os.write(1, f"{request.id} {request.sequence}\n".encode())


def main(place: str, prefix: str, count: int, each: int) -> int:
    """Runs `count` processes, or writes itself where it is one; the number of those that failed."""
    if count == 1:
        write(place, prefix, each)
        return 0
    children = []
    for number in range(count):
        if (child := os.fork()) == 0:
            write(place, f"{prefix}{number}", each)
            os._exit(0)  # an error above ends it with 1 and its traceback
        children.append(child)
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
