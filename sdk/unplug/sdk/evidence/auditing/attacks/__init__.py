"""One file an attack; the registry is `unplug.sdk.evidence.auditing.ATTACKS`."""
