"""One backend, one file; the registry is `unplug.sdk.evidence.fleet.BACKENDS`."""
