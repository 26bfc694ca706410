"""Distances on the globe."""

import numpy as np
from numpy.typing import NDArray

RADIUS_KM = 6371.0


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
    phi, theta = np.deg2rad(np.asarray(lat, np.float64)), np.deg2rad(np.asarray(lon, np.float64))
    other_phi, other_theta = phi, theta
    if other_lat is not None and other_lon is not None:
        other_phi = np.deg2rad(np.asarray(other_lat, np.float64))
        other_theta = np.deg2rad(np.asarray(other_lon, np.float64))
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
