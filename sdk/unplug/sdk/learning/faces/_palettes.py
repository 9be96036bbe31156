"""Colours by name (sRGB, 0..255), and the other names. They are the words that prompts use."""

from __future__ import annotations

RGB = tuple[float, float, float]

# From light to dark; `Identity.skin` walks along this list.
SKIN: tuple[tuple[str, RGB], ...] = (
    ("porcelain", (247, 216, 200)),
    ("fair", (240, 200, 174)),
    ("light", (230, 184, 150)),
    ("olive", (212, 164, 124)),
    ("tan", (198, 144, 102)),
    ("brown", (170, 117, 82)),
    ("dark brown", (140, 93, 65)),
    ("deep", (112, 73, 53)),
)

HAIR: dict[str, RGB] = {
    "black": (40, 34, 36),
    "dark brown": (70, 48, 36),
    "brown": (108, 72, 46),
    "light brown": (150, 108, 70),
    "blond": (220, 182, 118),
    "strawberry blond": (214, 146, 92),
    "red": (168, 78, 40),
    "auburn": (118, 54, 38),
}
GREY_HAIR: RGB = (196, 194, 194)

EYES: dict[str, RGB] = {
    "brown": (104, 66, 38),
    "dark brown": (66, 42, 28),
    "hazel": (132, 104, 56),
    "green": (92, 130, 88),
    "blue": (84, 134, 178),
    "grey": (124, 142, 152),
}

COLOURS: dict[str, RGB] = {
    "cream": (246, 234, 212),
    "white": (240, 241, 242),
    "sand": (222, 200, 166),
    "peach": (248, 198, 168),
    "coral": (236, 126, 104),
    "red": (196, 68, 66),
    "burgundy": (128, 46, 62),
    "mustard": (222, 174, 74),
    "olive green": (128, 132, 80),
    "sage": (168, 190, 164),
    "green": (84, 142, 104),
    "teal": (58, 134, 138),
    "mint": (180, 222, 204),
    "sky blue": (158, 202, 232),
    "blue": (82, 128, 190),
    "navy": (46, 62, 100),
    "lavender": (194, 180, 222),
    "purple": (124, 92, 156),
    "pink": (240, 184, 196),
    "grey": (160, 166, 174),
    "charcoal": (74, 80, 90),
}

FRAMES: dict[str, RGB] = {
    "black glasses": (36, 34, 38),
    "tortoiseshell glasses": (104, 64, 38),
    "gold glasses": (178, 140, 76),
    "blue glasses": (52, 84, 138),
}

HAIR_STYLES = (
    "short hair",
    "side-parted hair",
    "spiky hair",
    "buzz cut",
    "curly hair",
    "afro",
    "bob",
    "bob with bangs",
    "long straight hair",
    "long wavy hair",
    "bun",
    "ponytail",
    "bald",
)
BACKGROUNDS = ("plain", "gradient", "glow", "stripes", "dots", "bokeh", "hills")
COLLARS = ("crew", "vee", "shirt")
WORN = ("eye patch", "clown nose", "face mask")
"""Things that a face can wear, which the shipped base never saw."""
DRAWN = ("pencil drawing", "poster print")
"""Styles of a whole picture, which it never saw either."""


def mix(a: RGB, b: RGB, t: float) -> RGB:
    """Linear blend: `a` at t = 0, `b` at t = 1."""
    return (a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t)


def scale(a: RGB, k: float) -> RGB:
    """A colour made darker (k < 1) or lighter, kept within 0..255."""
    return (min(255.0, a[0] * k), min(255.0, a[1] * k), min(255.0, a[2] * k))


def skin_colour(tone: float, undertone: float) -> RGB:
    """Skin colour of a tone in 0..1, shifted by its undertone (-1 pink, 1 golden)."""
    at = min(max(tone, 0.0), 1.0) * (len(SKIN) - 1)
    low = min(int(at), len(SKIN) - 2)
    r, g, b = mix(SKIN[low][1], SKIN[low + 1][1], at - low)
    return (r, g * (1.0 + 0.02 * undertone), b * (1.0 - 0.05 * undertone))


def skin_word(tone: float) -> str:
    """The palette's word for a skin tone."""
    return SKIN[round(min(max(tone, 0.0), 1.0) * (len(SKIN) - 1))][0]
