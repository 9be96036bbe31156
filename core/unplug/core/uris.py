"""URIs of what unplug defines: predicates and builders of certificates, JSON Schemas.

The project's owner sets `PLACE` to an address of their own that ends with a slash, and moves the
URN to `EARLIER`: what was signed under it still verifies.
"""

PLACE = "urn:unplug-sdk:"
"""In front of ``certificate/v1``: RFC 8141's form, under a name that no one else has on the index;
it is registered nowhere, and nothing is fetched from it.
"""
EARLIER = ("https://unplug-sdk/",)
"""Places of signed statements that older versions wrote, and that every version accepts."""
