"""Schedule: the times of a cron expression in an IANA time zone.

A local time that a zone skips (spring) runs once, at the first second after the gap. A local time that occurs twice
(autumn) runs at its first occurrence only.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from wasmrt.agent.routines._model import MAX_CRON_CHARS, MAX_ZONE_CHARS
from wasmrt.core.errors import InvalidParametersError

_SECOND = timedelta(seconds=1)
_YEARS = range(1970, 2100)
_MAX_MOMENT_CHARS = 40
_NAMED = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
"""Source: crontab(5) of Vixie cron."""
_HOST_ZONES = ("localtime", "Factory", "posixrules")
_FORM = "expected 5 fields (minute hour day month weekday), 6 (second first) or 7 (year last)"


class _Fields(NamedTuple):
    cron: str
    """The expression with seconds and without a year."""
    years: frozenset[int]
    """The years in which it runs; empty if it runs in every year."""


class Schedule:
    """The times at which a cron expression runs.

    Weekdays are 0 to 7 or names, and 0 and 7 are Sunday. If day and weekday are both given, a day that matches one of
    them is enough, as in cron. `?` means `*`. A name such as `@daily` may replace the fields.

    Raises:
        InvalidParametersError: the expression or the zone is invalid, the expression never matches, or it matches twice
            in a minute.
    """

    def __init__(self, expression: str, zone: str = "UTC") -> None:
        self.expression = expression
        self._fields = _split(expression)
        self._zone = _find_zone(zone)
        try:
            seconds = CronSim(self._fields.cron, datetime(2000, 1, 1)).seconds
        except (CronSimError, AssertionError) as error:
            raise _make_invalid_error(f"{error}; {_FORM}".lower()) from error
        # Two different seconds are less than a minute apart. One second is at least a minute apart.
        if len(seconds) > 1:
            raise _make_invalid_error("runs must be at least 60 seconds apart; write one number as the second")

    def find_next_after(self, moment: datetime) -> datetime | None:
        """Return the first time after `moment`, in UTC, or None if there is none within 50 years."""
        local = self._find_next_local(moment.astimezone(self._zone).replace(tzinfo=None))
        while local is not None:
            found = _to_utc(local, self._zone)
            if found > moment:  # else `moment` is in the second occurrence of a repeated hour
                return found
            local = self._find_next_local(local)
        return None

    def check(self, now: datetime) -> datetime:
        """Return the next time after `now`.

        Raises:
            InvalidParametersError: there is no next time.
        """
        found = self.find_next_after(now)
        if found is None:
            raise _make_invalid_error(f"{self.expression!r} has no next time")
        return found

    @cached_property
    def _last_year(self) -> int:
        return max(self._fields.years, default=_YEARS[-1])

    def _find_next_local(self, local: datetime) -> datetime | None:
        """Return the first matching local time after `local`, without regard to gaps and repeats."""
        years = self._fields.years
        while local.year <= self._last_year:
            try:
                local = next(CronSim(self._fields.cron, local))
            except StopIteration:
                return None
            if not years or local.year in years:
                return local
            later = [year for year in years if year > local.year]
            if not later:
                return None
            local = datetime(min(later), 1, 1) - _SECOND
        return None


def read_moment(text: str, zone: str) -> datetime:
    """Return the moment of an ISO 8601 time: with an offset, or local to an IANA zone.

    Raises:
        InvalidParametersError: the time or the zone is invalid.
    """
    found_zone = _find_zone(zone)
    try:
        found = datetime.fromisoformat(text[:_MAX_MOMENT_CHARS]).replace(microsecond=0)
        if len(text) <= _MAX_MOMENT_CHARS and found.year in _YEARS:
            return _to_utc(found, found_zone) if found.tzinfo is None else found.astimezone(UTC)
    except ValueError:
        pass
    raise InvalidParametersError(
        f"at: expected a time from {_YEARS[0]} to {_YEARS[-1]} such as 2026-12-24T18:00:00, got {text!r:.40}"
    )


def _split(expression: str) -> _Fields:
    if len(expression) > MAX_CRON_CHARS or not expression.isascii():
        raise _make_invalid_error(f"expected at most {MAX_CRON_CHARS} ASCII characters")
    fields = ["*" if field == "?" else field for field in _NAMED.get(expression.strip(), expression).split()]
    if not 5 <= len(fields) <= 7:
        raise _make_invalid_error(f"got {len(fields)} fields; {_FORM}")
    if len(fields) == 7:
        return _Fields(" ".join(fields[:6]), _read_years(fields[6]))
    return _Fields(" ".join(fields if len(fields) == 6 else ["0", *fields]), frozenset())


def _read_years(field: str) -> frozenset[int]:
    """Return the years of the last field: numbers, ranges, lists and steps; empty for every year."""
    if field == "*":
        return frozenset()
    years: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = ("1970", "-", "2099") if span == "*" else span.partition("-")
        last = last if dash else ("2099" if slash else first)
        numbers = (first, last, step if slash else "1")
        if not all(number.isdigit() for number in numbers):
            raise _make_invalid_error(f"bad year {part!r}; expected {_YEARS[0]} to {_YEARS[-1]}")
        low, high, by = map(int, numbers)
        if not (low in _YEARS and high in _YEARS and low <= high and by):
            raise _make_invalid_error(f"bad year {part!r}; expected {_YEARS[0]} to {_YEARS[-1]}")
        years.update(range(low, high + 1, by))
    return frozenset(years)


def _find_zone(name: str) -> ZoneInfo:
    try:
        # Files below `right/` count leap seconds, which `datetime` does not, and the host's own zone differs by host.
        if (
            name
            and len(name) <= MAX_ZONE_CHARS
            and name not in _HOST_ZONES
            and not name.startswith(("right/", "posix/"))
        ):
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise InvalidParametersError(
        f"invalid IANA timezone: {name[:MAX_ZONE_CHARS]!r}; expected a name such as Europe/Paris or UTC"
    )


def _to_utc(local: datetime, zone: tzinfo) -> datetime:
    """Return the moment of a local time: its first occurrence, or the end of the gap that contains it."""
    first, second = (local.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    before, after = (each.utcoffset() for each in (first, second))
    assert before is not None and after is not None
    moment = (local - before).replace(tzinfo=UTC)
    if before >= after:  # not in a gap (PEP 495)
        return moment
    low, high = (local - after).replace(tzinfo=UTC), moment  # the gap ends after `low`, at or before `high`
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        middle = middle.replace(microsecond=0)
        low, high = (low, middle) if middle.astimezone(zone).utcoffset() == after else (middle, high)
    return high


def _make_invalid_error(reason: str) -> InvalidParametersError:
    return InvalidParametersError(f"invalid cron schedule: {reason}")
