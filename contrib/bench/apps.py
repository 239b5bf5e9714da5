# SPDX-License-Identifier: BSD-3-Clause
"""Real programs from the distribution's packages, each run to its own verification.

Called by suites.py. A program that is not installed leaves a note with the package's name.
"""

import glob
import os
import re
import shutil
import subprocess

from engine import ForeignJob
from records import Value

# A Lennard-Jones melt: 4 x n^3 atoms, energy must be conserved.
LAMMPS_INPUT = """\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {n} 0 {n} 0 {n}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 20 check no
fix 1 all nve
thermo 50
run {steps}
"""

SCALAPACK_INPUT = """\
'LU factorization'
'MPI'
'LU.out'
6       device out
1       number of problem sizes
{n}     values of M
{n}     values of N
1       number of NB's
64      values of NB
1       number of NRHS's
1       values of NRHS
1       number of NBRHS's
1       values of NBRHS
1       number of process grids
{p}     values of P
{q}     values of Q
1.0     threshold
F       (T or F) condition estimate and refinement
"""


class LammpsJob(ForeignJob):
    """Molecular dynamics with LAMMPS."""

    def __init__(self, np, n, steps):
        super().__init__("apps", "lammps", np, 300.0)
        self.n, self.steps = n, steps

    def setup(self, folder):
        (folder / "in.melt").write_text(LAMMPS_INPUT.format(n=self.n, steps=self.steps))

    def command(self, folder):
        return [lammps_binary(), "-in", "in.melt", "-log", "none"]

    def parse(self, folder, stdout):
        return parse_lammps(stdout, 4 * self.n ** 3)


def lammps_binary():
    """Path of the packaged LAMMPS, or None."""
    return shutil.which("lmp") or shutil.which("lammps")


def parse_lammps(text, atoms):
    """([time], problem): atoms must not be lost and the total energy must stay."""
    loop = re.search(r"^Loop time of (\S+) on \d+ procs for \d+ steps with (\d+) atoms", text, re.M)
    head = re.search(r"^\s*Step .*TotEng.*$", text, re.M)
    if not loop or not head:
        return [], "LAMMPS did not come to the end"
    column = head.group(0).split().index("TotEng")
    rows = []
    for line in text[head.end():loop.start()].splitlines():
        words = line.split()
        if len(words) > column and words[0].isdigit():
            rows.append(float(words[column]))
    if int(loop.group(2)) != atoms:
        return [], f"LAMMPS lost atoms: {loop.group(2)} of {atoms} are left"
    if len(rows) < 2 or abs(rows[-1] - rows[0]) > 0.01 * abs(rows[0]):
        return [], f"LAMMPS: energy not conserved: {rows[:1]} became {rows[-1:]}"
    return [Value("lammps_melt_s", "s", float(loop.group(1)))], ""


class RingtestJob(ForeignJob):
    """mpi4py's own ring benchmark, which checks what comes round."""

    def __init__(self, np, size, loops):
        super().__init__("apps", "mpi4py", np, 120.0)
        self.size, self.loops = size, loops

    def command(self, folder):
        return ["/usr/bin/python3", "-m", "mpi4py.bench", "ringtest", "-n", str(self.size), "-l",
                str(self.loops), "-s", "5"]

    def parse(self, folder, stdout):
        found = re.search(r"time for (\d+) loops = (\S+) seconds", stdout)
        if not found:
            return [], "mpi4py's ring test printed no time"
        return [Value("mpi4py_ring_us", "us", float(found.group(2)) / self.loops * 1e6,
                      self.size)], ""


def mpi4py_there():
    """Whether the distribution's mpi4py is installed."""
    return os.path.exists("/usr/bin/python3") and subprocess.run(
        ["/usr/bin/python3", "-c", "import mpi4py.bench"], capture_output=True,
        check=False).returncode == 0


class ScalapackJob(ForeignJob):
    """ScaLAPACK's LU test driver, which checks its residuals."""

    def __init__(self, np, n):
        super().__init__("apps", "scalapack", np, 180.0)
        self.n = n

    def setup(self, folder):
        q = next(k for k in range(int(self.np ** 0.5), 0, -1) if self.np % k == 0)
        (folder / "LU.dat").write_text(SCALAPACK_INPUT.format(n=self.n, p=q, q=self.np // q))

    def command(self, folder):
        return [scalapack_binary()]

    def parse(self, folder, stdout):
        return parse_scalapack(stdout)


def scalapack_binary():
    """Path of the packaged test driver for Open MPI, or None."""
    found = glob.glob("/usr/lib/*/scalapack/openmpi-tests/xdlu")
    return found[0] if found else None


def parse_scalapack(text):
    """([GFLOPS], problem) from the driver's table."""
    rows = re.findall(r"^WALL\s.*?(\S+)\s+(\S+)\s+(PASSED|FAILED)\s*$", text, re.M)
    if not rows:
        return [], "ScaLAPACK's driver printed no result"
    if any(state != "PASSED" for _, _, state in rows):
        return [], "ScaLAPACK: a residual is too large"
    return [Value("scalapack_lu_GFLOPS", "GFLOPS", float(rows[0][0]) / 1000)], ""


def has_fortran(mpi):
    """Whether an Open MPI knows Fortran's types, which BLACS asks for even from C."""
    info = os.path.join(os.path.dirname(mpi.mpirun), "ompi_info")
    done = subprocess.run([info, "--parsable"], env=mpi.env, capture_output=True, text=True,
                          check=False)
    return "bindings:mpif.h:yes" in done.stdout
