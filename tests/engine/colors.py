"""How colors look in gray and to the color-blind."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb

XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
# Machado, Oliveira & Fernandes (2009), doi:10.1109/TVCG.2009.113: no green cones.
DEUTERANOPIA = np.array(
    [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]
)


def lab(colors: Iterable[Any], *, color_blind: bool = False) -> np.ndarray:
    """CIE L*, a*, b* of colors as matplotlib takes them: float (n, 3)."""
    rgb = np.array([to_rgb(color) for color in colors])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    if color_blind:
        linear = np.clip(linear @ DEUTERANOPIA.T, 0, 1)
    x = linear @ XYZ.T / XYZ.sum(axis=1)
    f = np.where(x > (6 / 29) ** 3, np.cbrt(x), x / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)


def closest_in_gray(*colors: Any) -> float:
    """The smallest difference in lightness L*, from 0 to 100, of two of the colors."""
    return float(np.diff(np.sort(lab(colors)[:, 0])).min())


def closest_without_green(*colors: Any) -> float:
    """The smallest distance (CIE 1976) of two of the colors to a person with deuteranopia."""
    pairs = combinations(lab(colors, color_blind=True), 2)
    return min(float(np.linalg.norm(one - other)) for one, other in pairs)
