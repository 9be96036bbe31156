"""Pages of docs/ whose tables a command writes: what stands between ``<!-- NAME -->`` and ``<!--
/NAME -->`` is its own.
"""

from __future__ import annotations


def filled(page: str, name: str, body: str) -> str:
    r"""A page with another body between the two markers of a name.

    Raises:
        ValueError: a marker is not there.

    Example:
        >>> filled("a\n<!-- t -->\nold<!-- /t -->\nb", "t", "new\n")
        'a\n<!-- t -->\nnew\n<!-- /t -->\nb'
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    start = page.index(begin) + len(begin)
    return page[:start] + body + page[page.index(end, start) :]
