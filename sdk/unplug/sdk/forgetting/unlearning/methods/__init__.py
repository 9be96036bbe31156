"""One file an unlearning method; the registry is `unplug.sdk.forgetting.unlearning.METHODS`."""
