"""Distances between places on the globe."""

import numpy as np
from numpy.typing import NDArray

RADIUS_KM = 6371.0


def great_circle(
    lat: NDArray[np.floating],
    lon: NDArray[np.floating],
    other_lat: NDArray[np.floating] | None = None,
    other_lon: NDArray[np.floating] | None = None,
) -> NDArray[np.float64]:
    """Kilometres between all places, or from each to all others: (l, k).

    >>> great_circle(np.array([0.0, 0.0]), np.array([0.0, 1.0])).round(1).tolist()
    [[0.0, 111.2], [111.2, 0.0]]
    """
    here = np.deg2rad(np.asarray(lat, np.float64)), np.deg2rad(np.asarray(lon, np.float64))
    there = here
    if other_lat is not None and other_lon is not None:
        there = (
            np.deg2rad(np.asarray(other_lat, np.float64)),
            np.deg2rad(np.asarray(other_lon, np.float64)),
        )
    (phi, theta), (other_phi, other_theta) = here, there
    across = (
        np.sin((phi[:, None] - other_phi) / 2) ** 2
        + np.cos(phi)[:, None] * np.cos(other_phi) * np.sin((theta[:, None] - other_theta) / 2) ** 2
    )
    angle: NDArray[np.float64] = 2 * np.arcsin(np.sqrt(np.clip(across, 0.0, 1.0)))
    return RADIUS_KM * angle


def median_distance(kilometres: NDArray[np.floating]) -> float:
    """The median distance between two different places; one where there is only one."""
    apart = kilometres[kilometres > 0]
    return float(np.median(apart)) if apart.size else 1.0
