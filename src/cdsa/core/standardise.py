"""Values of a cube as anomalies that are closer to Gaussian, and back.

Letters: t time, l location, m measurement.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdsa.core.climatology import Cycle, Times
from cdsa.core.statespace import NOISE_SHARE

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LOG_OFFSET = 1.0
"""Default of what is added before a logarithm, as a multiple of the median. Values below it stay
nearly linear: their relative errors would otherwise count as much as those of large values."""


class Transformation(NamedTuple):
    """How the values of a measurement are made more Gaussian, and how noisy they are then."""

    log_offset: float | None = None
    """What is added before the logarithm, as a multiple of the median; None takes no logarithm."""

    cyclic: bool = False
    """Whether a daily cycle is removed."""

    noise_share: float = NOISE_SHARE
    """Variance of the noise, as of a `StateSpace`."""


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Values (t, l, m) as anomalies with variance 1 and back: a logarithm, a daily cycle, and the
    mean and standard deviation of each series."""

    offset: Floats
    """Added to values before the logarithm, (m,); NaN for measurements that stay as they are."""

    mean: Floats
    """(l, m)."""

    std: Floats
    cycle: Cycle | None
    """The daily cycle of standardised values."""

    cyclic: Flags
    """Measurements from which it is removed, (m,)."""

    spread: Floats
    """Standard deviation of the anomalies, (l, m)."""

    @classmethod
    def fit(
        cls, values: Floats, times: Times, transformations: Sequence[Transformation]
    ) -> "Standardiser":
        """The scales of these values with a transformation of each measurement."""
        multiples = [transformation.log_offset for transformation in transformations]
        offset = np.array([np.nan if x is None else x for x in multiples]) * _medians(values)
        cyclic = np.array([transformation.cyclic for transformation in transformations])
        transformed = to_log(values, offset)
        mean, std = _mean_and_std(transformed)
        standardised = (transformed - mean) / std
        cycle = Cycle.fit(standardised, times) if cyclic.any() else None
        plain = cls(offset, mean, std, cycle, cyclic, np.ones_like(std))
        return replace(plain, spread=_mean_and_std(plain.anomalies(values, times))[1])

    def anomalies(self, values: Floats, times: Times) -> Floats:
        """Anomalies (t, l, m) of values; NaN stays."""
        standardised = (to_log(values, self.offset) - self.mean) / self.std
        return (standardised - self._cycle_at(times)) / self.spread

    def values(self, anomalies: Floats, times: Times) -> Floats:
        """Values (t, l, m) of anomalies."""
        standardised = anomalies * self.spread + self._cycle_at(times)
        transformed = standardised * self.std + self.mean
        return from_log(transformed, self.offset)

    def _cycle_at(self, times: Times) -> Floats | float:
        if self.cycle is None:
            return 0.0
        return np.where(self.cyclic, self.cycle.at(times), 0.0)


def _medians(values: Floats) -> Floats:
    """The median of the positive values of each measurement (t, l, m)."""
    above = (values[..., m][values[..., m] > 0] for m in range(values.shape[2]))
    return np.array([np.median(x) if len(x) else 1.0 for x in above])


def to_log(values: Floats, offset: Floats) -> Floats:
    """Logarithms of values (t, l, m) plus the offset of a measurement (m,), or the values where it
    is NaN."""
    with np.errstate(invalid="ignore", divide="ignore"):
        logarithms = np.log(np.maximum(values, 0.0) + offset)
    return np.where(np.isnan(offset), values, logarithms)


def from_log(transformed: Floats, offset: Floats) -> Floats:
    """Values (t, l, m) of logarithms; not negative."""
    with np.errstate(over="ignore"):
        powers = np.exp(transformed) - offset
    return np.where(np.isnan(offset), transformed, np.maximum(powers, 0.0))


def _mean_and_std(values: Floats) -> tuple[Floats, Floats]:
    """Of each series (l, m); 0 and 1 for one without values, and 1 for a constant one."""
    observed = np.isfinite(values)
    count = np.maximum(observed.sum(axis=0), 1)
    mean = np.where(observed, values, 0.0).sum(axis=0) / count
    variance = (np.where(observed, values - mean, 0.0) ** 2).sum(axis=0) / count
    return mean, np.where(variance > 1e-12 * (1e-300 + mean**2), np.sqrt(variance), 1.0)


def skewed(values: Floats) -> Flags:
    """The measurements of a cube (t, l, m) that a logarithm makes less skewed, (m,); none with
    negative values."""
    logarithms = to_log(values, LOG_OFFSET * _medians(values))
    raw, logarithms = (np.abs(_skewness(x)) for x in (values, logarithms))
    never_negative = ~(values < 0).any(axis=(0, 1)) & (values > 0).any(axis=(0, 1))
    flags: Flags = never_negative & (logarithms < raw)
    return flags


def _skewness(values: Floats) -> Floats:
    """Of each measurement, the mean over its stations; (m,)."""
    mean, std = _mean_and_std(values)
    observed = np.isfinite(values)
    cubes = (np.where(observed, (values - mean) / std, 0.0) ** 3).sum(axis=0)
    skewness: Floats = (cubes / np.maximum(observed.sum(axis=0), 1)).mean(axis=0)
    return skewness
