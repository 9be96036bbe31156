"""For griffe, which reads docstrings for the site: it knows ``Examples:``, where ours say
``Example:``.
"""

from __future__ import annotations

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Doctests become code, and no quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Renames the section; griffe parses docstrings later."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
