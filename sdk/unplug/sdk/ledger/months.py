"""Deadlines in calendar months, as data protection law counts them."""

from __future__ import annotations

import calendar
from datetime import date

FIRST, EXTENDED = 1, 3
"""Months from the day of receipt: one, and two more where the request is extended with a reason."""


def after_months(day: date, months: int) -> date:
    """The same day of a later month, or its last day where it has no such day.

    Args:
        day: of receipt.
        months: how many.

    Example:
        >>> after_months(date(2027, 1, 31), 1), after_months(date(2028, 1, 31), 1)
        (datetime.date(2027, 2, 28), datetime.date(2028, 2, 29))

    Reference: Regulation (EU) 2016/679 (GDPR), article 12(3); Regulation (EEC, Euratom) 1182/71, article 3(2)(c). Where
    the last day is a Saturday, a Sunday or a public holiday the latter adds days, which is not counted on here.
    """
    years, month = divmod(day.month - 1 + months, 12)
    last = calendar.monthrange(day.year + years, month + 1)[1]
    return date(day.year + years, month + 1, min(day.day, last))
