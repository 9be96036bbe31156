"""One file an attack; the registry is `unplug.sdk.audit.ATTACKS`."""
