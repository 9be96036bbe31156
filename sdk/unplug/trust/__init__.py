"""Bundle, ledger, certificate: bytes and keys. No torch, no SciPy, no matplotlib."""
