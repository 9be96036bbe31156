"""One backend, one file; the registry is `unplug.sdk.fleet.BACKENDS`."""
