"""What a bench says: aims with what was seen, and everything else that was measured."""

import os
import platform
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Aim:
    """A bound, named in an issue's own words."""

    most: float
    seen: float
    unit: str

    @property
    def ok(self) -> bool:
        """Whether it was met."""
        return self.seen <= self.most

    def as_json(self) -> dict[str, Any]:
        """The aim as programs read it."""
        return {"aim": f"<= {self.most:g}", "seen": self.seen, "unit": self.unit, "ok": self.ok}


@dataclass(slots=True)
class Report:
    """The result of one bench in one run."""

    aims: dict[str, Aim]
    measured: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True only where every aim was measured and met."""
        return bool(self.aims) and all(aim.ok for aim in self.aims.values())

    def as_json(self, name: str) -> dict[str, Any]:
        """The last line."""
        return {
            "bench": name,
            "ok": self.ok,
            "aims": {aim: value.as_json() for aim, value in self.aims.items()},
            "machine": {
                "cpus": os.cpu_count(),
                "load_1m": round(os.getloadavg()[0], 2),
                "python": platform.python_version(),
                "system": f"{platform.system()} {platform.machine()}",
            },
            **self.measured,
        }


def percentile(values: list[float], share: float) -> float:
    """The value below which a share of all lies, by the nearest rank, to two digits."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)
