"""When something was said, from the clocks that logs have: ISO stamps, loggers', native glog, torchelastic's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

_ISO = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T _](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?\d*(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_GLOG = re.compile(r"[EWIF](?P<day>\d{3,4}) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\.(?P<part>\d{1,9})")
_COARSE = 2.0  # seconds that must lie between stamps without fractions: buffering shifts them
NATIVE = re.compile(r"\[(?P<time>[EWIF]\d{3,4} \d\d:\d\d:\d\d\.\d+) [\w./-]+:\d+\]")


@dataclass(frozen=True, slots=True)
class Moment:
    """`seconds` on the clock `of`: moments of different clocks cannot be compared."""

    seconds: float
    of: str
    fine: bool


def moment(text: str) -> Moment | None:
    """The time that `text` gives, if it is one."""
    if (stamp := _ISO.fullmatch(text)) is not None:
        return _from_iso(stamp)
    if (stamp := _GLOG.fullmatch(text)) is not None:
        clock = int(stamp["hour"]) * 3600 + int(stamp["minute"]) * 60 + int(stamp["second"])
        return Moment(clock + float(f"0.{stamp['part']}"), f"glog {stamp['day']}", fine=True)
    return None


def _from_iso(stamp: re.Match[str]) -> Moment | None:
    try:
        at = datetime.fromisoformat(f"{stamp['day']} {stamp['time']}").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    zone = stamp["zone"]
    if zone and zone != "Z":
        sign, hours, minutes = -1 if zone[0] == "-" else 1, int(zone[1:3]), int(zone[-2:])
        at -= sign * timedelta(hours=hours, minutes=minutes)
    fraction = float(f"0.{stamp['part']}") if stamp["part"] else 0.0
    return Moment(at.timestamp() + fraction, "universal" if zone else "local", fine=stamp["part"] is not None)


def first_of(times: dict[int, str]) -> int | None:
    """The rank whose time is the earliest beyond doubt, None where the clocks do not show one."""
    found = {rank: read for rank, text in times.items() if (read := moment(text)) is not None}
    if len(found) != len(times) or len({one.of for one in found.values()}) != 1:
        return None
    (first, one), (_, other) = sorted(found.items(), key=lambda item: item[1].seconds)[:2]
    apart = other.seconds - one.seconds
    return first if apart >= (_COARSE if not (one.fine and other.fine) else 1e-9) else None
