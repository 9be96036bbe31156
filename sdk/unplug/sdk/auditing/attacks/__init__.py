"""One file an attack; the registry is `unplug.sdk.auditing.ATTACKS`."""
