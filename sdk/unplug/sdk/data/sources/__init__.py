"""One file a data source; the registry is `unplug.sdk.data.source.SOURCES`."""
