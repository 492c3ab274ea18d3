"""All studies, in the order of the document: a new one is its file and a line here."""

from __future__ import annotations

from iopea.guarantees.alpha import Alpha
from iopea.guarantees.growth import Growth
from iopea.guarantees.price import Bounds
from iopea.guarantees.robustness import Robustness
from iopea.guarantees.study import Study
from iopea.guarantees.survival import Survival
from iopea.guarantees.width import Width

#: Every study by its name.
STUDIES: dict[str, Study] = {
    study.name: study for study in (Survival(), Growth(), Width(), Alpha(), Bounds(), Robustness())
}
