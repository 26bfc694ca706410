"""Ordinary kriging: a gap is filled from what the other stations say at that moment, weighed so
that the error is least if values resemble each other as the variogram says.

Matheron, "Principles of geostatistics", Economic Geology 1963; here PyKrige's `OrdinaryKriging` on
geographic coordinates. The variogram of a measurement is fitted once, on classes of distance over
all pairs of stations and all moments together, each moment in units of its own spread: a single
moment of a few dozen stations is too little to fit one on, and weights depend on the variogram's
shape alone. Moments at which fewer than `fewest` stations report are left out of it, and get a
straight line in time; so does a measurement of which fewer than three pairs of stations have a
moment in common. Where stations stand at one place, a pseudo-inverse shares the weight out.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from cdsa.core.geo import great_circle
from cdsa.errors import ConfigError, MissingExtraError, unknown
from cdsa.methods.baselines.simple import straight_line
from cdsa.methods.wrapper import GuardedFiller, Guess, guarded, refuse_nowhere

Floats = NDArray[np.float64]


Shape = Literal["exponential", "linear"]


SHAPES: tuple[Shape, ...] = get_args(Shape)


KM_OF_A_DEGREE = 111.195
"""PyKrige tells distances on the globe in degrees."""


RISEN = 3.0
"""PyKrige's range of an exponential is where it has risen to 95%: three times its length."""


WIDE = 10.0
"""Logarithms that what is fitted may be away from the first guess."""


TINY = 1e-6


CLASSES = 15
"""Of distance, with as many pairs each, that squared differences are averaged in."""


FEW_PAIRS = 3
"""Pairs of stations that a variogram is fitted on at the least."""


@dataclass(frozen=True)
class Variogram:
    """How much two values differ at a distance in kilometres, in spreads of their moment."""

    shape: Shape
    nugget: float
    rise: float
    """Of an exponential what it rises to, of a line its slope per kilometre."""

    length: float = 1.0
    """Kilometres in which an exponential rises to 63%."""

    def at(self, apart: Floats) -> Floats:
        """Half the mean squared difference at these distances."""
        if self.shape == "linear":
            return self.nugget + self.rise * apart
        risen: Floats = self.nugget + self.rise * (1 - np.exp(-apart / self.length))
        return risen

    @property
    def parameters(self) -> dict[str, float]:
        """In PyKrige's terms."""
        if self.shape == "linear":
            return {"slope": self.rise * KM_OF_A_DEGREE, "nugget": self.nugget}
        reach = RISEN * self.length / KM_OF_A_DEGREE
        return {"psill": self.rise, "range": reach, "nugget": self.nugget}


@dataclass(frozen=True, kw_only=True)
class Kriging:
    """The best linear guess from the other stations, moment by moment."""

    variogram: Shape = "exponential"
    """Of the variogram: exponential or linear."""

    min_stations: int = 4
    """Stations that must report at a moment."""

    def __post_init__(self) -> None:
        if self.variogram not in SHAPES:
            raise ConfigError(unknown("variogram", self.variogram, SHAPES))
        if self.min_stations < 2:
            raise ConfigError(f"fewest must be at least 2, but found {self.min_stations}")

    @property
    def label(self) -> str:
        """The name in tables."""
        return "kriging" if self.variogram == "exponential" else f"kriging:{self.variogram}"

    def in_manner(self, shape: str) -> "Kriging":
        """The same with another variogram."""
        if shape not in SHAPES:
            raise ConfigError(unknown("variogram", shape, SHAPES))
        return replace(self, variogram=shape)

    def fit(self, cube: xr.DataArray) -> GuardedFiller:
        refuse_nowhere(cube, "kriging")
        _ordinary_kriging()  # before anything is worked out for nothing
        return guarded(cube, self._learn)

    def _learn(self, plain: xr.DataArray) -> Guess:
        apart, values = _kilometres(plain), plain.to_numpy()
        names = plain["measurement"].to_numpy()
        enough = np.isfinite(values).sum(axis=1, keepdims=True) >= self.min_stations
        values = np.where(enough, values, np.nan)
        found = {
            str(n): fitted(values[:, :, m], apart, self.variogram) for m, n in enumerate(names)
        }

        def guess(cube: xr.DataArray) -> xr.DataArray:
            refuse_nowhere(cube, "kriging")
            told = straight_line(cube)  # where too few stations report
            for m, name in enumerate(cube["measurement"].to_numpy()):
                variogram = found.get(str(name))
                if variogram is not None:
                    kriged = self._kriged(cube[:, :, m], variogram)
                    told[:, :, m] = np.where(np.isfinite(kriged), kriged, told[:, :, m])
            return told

        return guess

    def _kriged(self, series: xr.DataArray, variogram: Variogram) -> Floats:
        """The values (t, l) of one measurement with gaps filled where enough stations report."""
        ordinary = _ordinary_kriging()
        lat, lon = series["lat"].to_numpy(), series["lon"].to_numpy()
        told = series.to_numpy().astype(np.float64)
        known = np.isfinite(told)
        count = known.sum(axis=1)
        for t in np.flatnonzero((count >= self.min_stations) & (count < len(lat))):
            there = known[t]
            kriging = ordinary(
                lon[there],
                lat[there],
                told[t, there],
                variogram_model=variogram.shape,
                variogram_parameters=variogram.parameters,
                coordinates_type="geographic",
                pseudo_inv=True,  # two stations may stand at one place
            )
            guess, _ = kriging.execute("points", lon[~there], lat[~there])
            told[t, ~there] = np.asarray(guess)
        return told


def fitted(values: Floats, apart: Floats, shape: Shape) -> Variogram | None:
    """The variogram of values (t, l) at stations so many kilometres apart (l, k); None if there are
    too few pairs to tell."""
    from scipy.optimize import least_squares

    squares, common = _squares(values)
    if np.count_nonzero(np.triu(common, 1)) < FEW_PAIRS:
        return None
    far, halves, number = _by_distance(squares, common, apart)
    level, usual = max(float(np.median(halves)), TINY), max(float(np.median(far)), TINY)
    rise = level if shape == "exponential" else level / usual
    start = np.log([0.1 * level, rise, usual])[: 2 if shape == "linear" else 3]

    def made(logs: Floats) -> Variogram:
        return Variogram(shape, *(float(part) for part in np.exp(logs)))

    def off(logs: Floats) -> Floats:
        # relative to the variogram, as Cressie (1985) has it: near pairs matter most
        told: Floats = np.sqrt(number) * (halves / (made(logs).at(far) + TINY) - 1)
        return told

    return made(least_squares(off, start, bounds=(start - WIDE, start + WIDE)).x)


def _squares(values: Floats) -> tuple[Floats, Floats]:
    """Squared differences of every two stations summed over the moments both report, each in units
    of its spread, and the number of these moments; both (l, k)."""
    known = np.isfinite(values)
    count = known.sum(axis=1, keepdims=True)
    mean = np.nansum(values, axis=1, keepdims=True) / np.maximum(count, 1)
    off = np.where(known, values - mean, 0.0)
    spread = np.sqrt((off**2).sum(axis=1, keepdims=True) / np.maximum(count - 1, 1))
    there = (known & (spread > 0)).astype(np.float64)
    scaled = np.divide(off, spread, out=np.zeros_like(off), where=spread > 0)
    # (x - y)^2 by matrix products: no array over moments and pairs is ever made
    own = (scaled**2).T @ there
    squares: Floats = np.maximum(own + own.T - 2 * scaled.T @ scaled, 0.0)
    return squares, there.T @ there


def _by_distance(squares: Floats, common: Floats, apart: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean distance, half the mean squared difference, and how many differences there are, class by
    class of distance. Weights such as Cressie's are meant for these: fitted on single pairs, which
    stray by as much as they are, a variogram is flat."""
    pairs = np.triu_indices(len(apart), 1)
    used = common[pairs] > 0
    squares, common, apart = (part[pairs][used] for part in (squares, common, apart))
    edges = np.unique(np.quantile(apart, np.linspace(0, 1, CLASSES + 1)))
    at = np.searchsorted(edges[1:-1], apart, side="right")
    number = np.bincount(at, common).astype(np.float64)
    there = number > 0
    far, half = (np.bincount(at, part)[there] / number[there] for part in (apart * common, squares))
    return far, half / 2, number[there]


def _kilometres(cube: xr.DataArray) -> Floats:
    return great_circle(cube["lat"].to_numpy(), cube["lon"].to_numpy())


def _ordinary_kriging() -> Any:
    try:
        from pykrige.ok import OrdinaryKriging
    except ImportError as bad:
        raise MissingExtraError("The method 'kriging'", "PyKrige", "baselines") from bad
    return OrdinaryKriging
