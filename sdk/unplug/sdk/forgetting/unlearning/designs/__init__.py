"""One file a design; the registry is `unplug.sdk.forgetting.unlearning.DESIGNS`."""
