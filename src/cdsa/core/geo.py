"""Distances on the globe, and edges between stations."""

import numpy as np
from numpy.typing import NDArray

RADIUS_KM = 6371.0

Edge = tuple[str, str, float]
"""Edge of a graph of stations: source, target, weight."""


def great_circle(
    lat: NDArray[np.floating],
    lon: NDArray[np.floating],
    other_lat: NDArray[np.floating] | None = None,
    other_lon: NDArray[np.floating] | None = None,
) -> NDArray[np.float64]:
    """Kilometres between all points, or from each to all other points: (l, k).

    >>> great_circle(np.array([0.0, 0.0]), np.array([0.0, 1.0])).round(1).tolist()
    [[0.0, 111.2], [111.2, 0.0]]
    """
    if other_lat is None or other_lon is None:
        other_lat, other_lon = lat, lon
    degrees = (np.asarray(values, np.float64) for values in (lat, lon, other_lat, other_lon))
    phi, theta, other_phi, other_theta = map(np.deg2rad, degrees)
    haversine = (
        np.sin((phi[:, None] - other_phi) / 2) ** 2
        + np.cos(phi)[:, None] * np.cos(other_phi) * np.sin((theta[:, None] - other_theta) / 2) ** 2
    )
    angle: NDArray[np.float64] = 2 * np.arcsin(np.sqrt(np.clip(haversine, 0.0, 1.0)))
    return RADIUS_KM * angle


def median_distance(kilometres: NDArray[np.floating]) -> float:
    """The median distance between distinct points; 1 if there is only one point."""
    positive = kilometres[kilometres > 0]
    return float(np.median(positive)) if positive.size else 1.0
