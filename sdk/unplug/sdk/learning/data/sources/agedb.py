"""AgeDB: ``NUMBER_NAME_AGE_SEX.jpg``; who is in the picture, how old, and whether f or m."""

from __future__ import annotations

from ..source import Listing, Sample
from .age_tables import age_of
from .listed import FolderSource, image_files

SEXES = {"f": "female", "m": "male"}


class AgeDBSource(FolderSource):
    """``agedb:DIR``.

    568 people with 29 pictures each on average: a split that draws pictures, as the widely used
    ones do, has the same people on both sides. `unplug` splits by the name.

    Example:
        >>> parse_name("11706_OliviaHussey_31_f.jpg")
        ('OliviaHussey', 31.0, 'female')

    Reference:
        Moschoglou et al., AgeDB: the first manually collected, in-the-wild age database, 2017. The
        file names: as ``facebase/to_json/agedb_to_json.py`` of Paplham and Franc's
        Facial-Age-Estimation-Benchmark reads them.
    """

    kind, expected = "agedb", "Give the folder of files named NUMBER_NAME_AGE_f.jpg"

    def listing(self) -> Listing:
        """Samples with age, subject and sex; another file name is a problem."""
        listed = image_files(self.root)
        for path in listed.files:
            name = listed.name(path)
            with listed.reading(name):
                person, age, sex = parse_name(path.name)
                listed.samples.append(
                    Sample(id=name, payload=path, age=age, subject=person, attributes={"sex": sex})
                )
        return self.of(listed)


def parse_name(name: str) -> tuple[str, float, str]:
    """Person, age in years and sex in an AgeDB file name; `ValueError` where it is another."""
    parts = name.partition(".")[0].split("_")
    if (
        len(parts) < 4
        or not (parts[0].isascii() and parts[0].isdigit())
        or parts[-1] not in SEXES
        or not "".join(parts[1:-2])
    ):
        raise ValueError("the file name is not NUMBER_NAME_AGE_SEX")
    age = age_of(parts[-2])
    if age is None:
        raise ValueError("the file name has no age")
    return "_".join(parts[1:-2]), age, SEXES[parts[-1]]
