"""AgeDB: ``NUMBER_NAME_AGE_SEX.jpg``; who is in the picture, how old, and whether f or m."""

from __future__ import annotations

from ..source import Listing, Sample, SampleProblem, existing_dir, not_empty
from .age_tables import age_of
from .files import FileSource
from .listed import image_files

SEXES = {"f": "female", "m": "male"}


class AgeDBSource(FileSource):
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

    def __init__(self, argument: str) -> None:
        self.root = existing_dir(argument, "agedb")

    def listing(self) -> Listing:
        """Samples with age, subject and sex; another file name is a problem."""
        samples: list[Sample] = []
        found = image_files(self.root)
        problems = found.problems
        for path in found.files:
            name = found.name(path)
            try:
                person, age, sex = parse_name(path.name)
                samples.append(
                    Sample(id=name, payload=path, age=age, subject=person, attributes={"sex": sex})
                )
            except ValueError as error:
                problems.append(SampleProblem(id=name, reason=str(error)))
        not_empty(
            samples,
            problems,
            f"agedb:{self.root}",
            "Give the folder of files named NUMBER_NAME_AGE_f.jpg",
            found.left_out,
        )
        return Listing(samples=tuple(samples), problems=tuple(problems), left_out=found.left_out)


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
