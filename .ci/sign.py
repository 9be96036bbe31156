"""Signs the files of a release: ``python .ci/sign.py FOLDER KEY`` writes ``FOLDER/model.sig`` as
`unplug bundle sign` writes it into a bundle; KEY is what its ``--sign`` takes.
"""

import sys
from pathlib import Path

from unplug.core import sha256_file
from unplug.trust.bundle import load_signer, pae
from unplug.trust.bundle.envelope import SIGNATURE, envelope, statement

folder, signer = Path(sys.argv[1]), load_signer(sys.argv[2])
files = {path.name: sha256_file(path) for path in folder.iterdir() if path.name != SIGNATURE}
payload = statement("unplug-sdk", files)
(folder / SIGNATURE).write_bytes(envelope(payload, signer.sign(pae(payload)), signer.key))
