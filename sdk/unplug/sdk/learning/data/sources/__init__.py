"""One file a data source; the registry is `unplug.sdk.learning.data.source.SOURCES`."""
