"""Measured guarantees of the library: studies with checks that pass or fail.

A new study needs its file and a line here.
"""

from iopea.studies.guarantees.alpha import Alpha
from iopea.studies.guarantees.bounds import Bounds
from iopea.studies.guarantees.growth import Growth
from iopea.studies.guarantees.robustness import Robustness
from iopea.studies.guarantees.study import Study
from iopea.studies.guarantees.survival import Survival
from iopea.studies.guarantees.width import Width

#: Every study by its name, in the order of the document.
STUDIES: dict[str, Study] = {
    study.name: study for study in (Survival(), Growth(), Width(), Alpha(), Bounds(), Robustness())
}
