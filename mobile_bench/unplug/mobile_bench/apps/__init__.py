"""Demo apps that run the protocol by themselves: what they are handed, how they are started, what
they send back.

An app gets a folder: ``plan.json`` (``unplug-bench-plan/1``, as the page does), ``files/N`` and
``vectors/N/`` in the form of a bundle's test vectors. It writes ``report.json``
(``unplug-bench/1``) into it, under another name first, and ends.
"""
