"""The page's colours are distinguishable without seeing red, green or blue, and black text is readable on them."""

import itertools
import re
from importlib import resources

import pytest

LEAST_DISTANCE = 15
"""The distance in CIELAB; a just noticeable difference, side by side, is 2.3."""
LEAST_CONTRAST = 4.5
"""WCAG 2.2, level AA, for text."""
VISIONS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
"""Machado, Oliveira and Fernandes: A Physiologically-based Model for Simulation of Color Vision Deficiency (2009)."""

Colour = tuple[float, float, float]


def colours() -> list[str]:
    text = resources.files("kafka_zk.recorder.web").joinpath("static/dom.js").read_text()
    [listed] = re.findall(r"const COLOURS = \[(.*)\]", text)
    return re.findall(r"#[0-9a-f]{6}", listed)


def linear(colour: str) -> Colour:
    """The three sRGB components as linear light, from 0 to 1."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return _light(red), _light(green), _light(blue)


def _light(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def lab(colour: str, vision: str) -> Colour:
    """The colour in CIELAB for a person with this vision."""
    parts = linear(colour)
    red, green, blue = (
        min(1, max(0, sum(weight * part for weight, part in zip(row, parts, strict=True)))) for row in VISIONS[vision]
    )
    x = _root((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047)
    y = _root(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    z = _root((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _root(amount: float) -> float:
    return float(amount ** (1 / 3)) if amount > 0.008856 else 7.787 * amount + 16 / 116


@pytest.mark.parametrize("vision", VISIONS)
def test_any_two_colours_are_different(vision: str) -> None:
    def distance(one: str, other: str) -> float:
        pairs = zip(lab(one, vision), lab(other, vision), strict=True)
        return float(sum((a - b) ** 2 for a, b in pairs) ** 0.5)

    assert len(colours()) == 8
    alike = [pair for pair in itertools.combinations(colours(), 2) if distance(*pair) < LEAST_DISTANCE]
    assert alike == []


@pytest.mark.parametrize("colour", colours())
def test_black_text_is_readable_on_each(colour: str) -> None:
    assert (luminance(colour) + 0.05) / 0.05 >= LEAST_CONTRAST
