"""Cron schedules: fields, errors, and the local times that a zone skips or repeats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wasmrt.agent.routines import Schedule
from wasmrt.core.errors import InvalidParametersError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def upcoming(expression: str, zone: str, start: datetime, count: int) -> list[str]:
    """Return the next times of a schedule, in UTC."""
    schedule, found = Schedule(expression, zone), []
    moment: datetime | None = start
    for _ in range(count):
        assert moment is not None
        moment = schedule.find_next_after(moment)
        found.append("never" if moment is None else moment.strftime("%m-%d %H:%M:%S"))
    return found


@pytest.mark.parametrize(
    ("zone", "expression", "start", "expected"),
    [
        # The clock of Paris skips 02:00 to 03:00 on 29 March 2026, at 01:00 UTC.
        ("Europe/Paris", "30 2 * * *", datetime(2026, 3, 28, 12, tzinfo=UTC), ["03-29 01:00:00", "03-30 00:30:00"]),
        ("Europe/Paris", "*/20 2 * * *", datetime(2026, 3, 28, 12, tzinfo=UTC), ["03-29 01:00:00", "03-30 00:00:00"]),
        ("Europe/Paris", "30 3 * * *", datetime(2026, 3, 28, 12, tzinfo=UTC), ["03-29 01:30:00", "03-30 01:30:00"]),
        # New York skips 02:00 to 03:00 on 8 March 2026, at 07:00 UTC.
        ("America/New_York", "15 2 * * *", datetime(2026, 3, 7, 12, tzinfo=UTC), ["03-08 07:00:00", "03-09 06:15:00"]),
        # Lord Howe skips 02:00 to 02:30 on 4 October 2026, at 15:30 UTC the day before.
        (
            "Australia/Lord_Howe", "10 2 * * *", datetime(2026, 10, 3, 12, tzinfo=UTC),
            ["10-03 15:30:00", "10-04 15:10:00"],
        ),
    ],
)  # fmt: skip
def test_a_skipped_local_time_runs_once_right_after_the_gap(
    zone: str, expression: str, start: datetime, expected: list[str]
) -> None:
    assert upcoming(expression, zone, start, 2) == expected


@pytest.mark.parametrize(
    ("zone", "expression", "start", "expected"),
    [
        ("Europe/Paris", "30 2 * * *", datetime(2026, 10, 24, 12, tzinfo=UTC), ["10-25 00:30:00", "10-26 01:30:00"]),
        ("America/New_York", "30 1 * * *", datetime(2026, 11, 1, tzinfo=UTC), ["11-01 05:30:00", "11-02 06:30:00"]),
        (
            "Australia/Lord_Howe", "45 1 * * *", datetime(2026, 4, 4, 12, tzinfo=UTC),
            ["04-04 14:45:00", "04-05 15:15:00"],
        ),
    ],
)  # fmt: skip
def test_a_repeated_local_time_runs_once(zone: str, expression: str, start: datetime, expected: list[str]) -> None:
    assert upcoming(expression, zone, start, 2) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 9 * * 1-5", "01-01 09:00:00"),
        ("30 0 9 * * *", "01-01 09:00:30"),
        ("0 0 9 * * * 2030", "01-01 09:00:00"),
        ("0 0 9 1 1 * 2027-2031/2", "01-01 09:00:00"),
        ("0 12 * * SUN", "01-04 12:00:00"),
        ("0 12 * * 7", "01-04 12:00:00"),
        ("0 0 29 2 *", "02-29 00:00:00"),
        ("0 0 9 ? * SUN", "01-04 09:00:00"),
        ("@weekly", "01-04 00:00:00"),
    ],
)
def test_expressions_of_five_six_and_seven_fields_are_read(expression: str, expected: str) -> None:
    assert upcoming(expression, "UTC", NOW, 1) == [expected]


def test_the_seventh_field_limits_the_years() -> None:
    schedule = Schedule("0 0 9 1 1 * 2027,2029")
    first = schedule.find_next_after(NOW)
    assert first == datetime(2027, 1, 1, 9, tzinfo=UTC)
    assert schedule.find_next_after(first) == datetime(2029, 1, 1, 9, tzinfo=UTC)
    assert schedule.find_next_after(datetime(2029, 1, 1, 9, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "got 0 fields; expected 5 fields"),
        ("* * * *", "got 4 fields"),
        ("@reboot", "got 1 fields"),
        ("* * * * * * * *", "got 8 fields"),
        ("61 * * * *", "bad minute"),
        ("0 0 * * 9", "bad day-of-week"),
        ("0 0 1-x * *", "bad day-of-month"),
        ("0 0 * * 1#2/2", "bad day-of-week"),
        ("0 0 0 1 1 * 1969", "bad year '1969'"),
        ("0 0 0 1 1 * 2030-2029", "bad year"),
        ("0 0 0 1 1 * */0", "bad year"),
        ("0 0 0 1 1 * x", "bad year"),
        ("*/30 * * * * *", "at least 60 seconds apart"),
        ("0,59 0 0 1 1 *", "at least 60 seconds apart"),
        ("0 0 31 2 *", "bad day-of-month"),
        ("0 0 0 1 1 * 2020", "has no next time"),
        ("9" * 5000, "at most 256 ASCII characters"),
        ("0 0 * * \u00b2", "ASCII"),
    ],
)
def test_an_invalid_schedule_is_refused_with_its_reason(expression: str, message: str) -> None:
    with pytest.raises(InvalidParametersError) as refused:
        Schedule(expression).check(NOW)
    assert refused.value.message.startswith("invalid cron schedule: ")
    assert message in refused.value.message


@pytest.mark.parametrize(
    "zone", ["", "Mars/Base", "../../etc/passwd", "Europe", "x" * 5000, "a\0b", "right/UTC", "localtime"]
)
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidParametersError, match="invalid IANA timezone: "):
        Schedule("0 0 * * *", zone)


class Change(NamedTuple):
    """A day on which the clock of a zone changes."""

    zone: str
    day: datetime


CHANGES = [
    *(Change("Europe/Paris", datetime(2026, *day, tzinfo=UTC)) for day in ((3, 29), (10, 25), (6, 1))),
    *(Change("America/New_York", datetime(2026, *day, tzinfo=UTC)) for day in ((3, 8), (11, 1))),
    *(Change("Australia/Lord_Howe", datetime(2026, *day, tzinfo=UTC)) for day in ((4, 4), (10, 3))),
]
MINUTE = timedelta(minutes=1)


def naive_times(minutes: set[int], hours: set[int], change: Change) -> list[datetime]:
    """Return the times of a day by a walk over its minutes: skipped minutes run after the gap, repeats do not run."""
    zone, seen, found = ZoneInfo(change.zone), set(), []
    moment = change.day - timedelta(hours=6)
    before = moment.astimezone(zone).replace(tzinfo=None)
    while moment < change.day + timedelta(hours=30):
        moment += MINUTE
        local = moment.astimezone(zone).replace(tzinfo=None)
        passed = [local]
        while passed[-1] > before + MINUTE:
            passed.append(passed[-1] - MINUTE)
        if any(each not in seen and each.minute in minutes and each.hour in hours for each in passed):
            found.append(moment)
        seen.update(passed)
        before = local
    return found


@settings(max_examples=40, deadline=None)
@given(
    change=st.sampled_from(CHANGES),
    minutes=st.sets(st.integers(0, 59), min_size=1, max_size=5),
    hours=st.sets(st.integers(0, 23), min_size=1, max_size=8),
)
def test_times_agree_with_a_walk_over_all_minutes(change: Change, minutes: set[int], hours: set[int]) -> None:
    schedule = Schedule(f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *", change.zone)
    found, moment = [], schedule.find_next_after(change.day - timedelta(hours=6))
    while moment is not None and moment <= change.day + timedelta(hours=30):
        found.append(moment)
        moment = schedule.find_next_after(moment)
    assert found == naive_times(minutes, hours, change)
