# SPDX-License-Identifier: BSD-3-Clause
"""Finding MPI, building the C programs, starting ranks and cleaning up after them.

Called by run_ab.py, run, ab and tune. Knows nothing of what is measured. Must never leave a
process behind: every launch is bounded in time and its whole process tree is ended with it.
"""

import ctypes
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PR_SET_CHILD_SUBREAPER = 36
CFLAGS = ["-std=gnu11", "-O2", "-g", "-pthread", "-Wall", "-Wextra"]
# Programs that are built with an MPI's compiler, and those that know no MPI.
MPI_PROGRAMS = {
    "bench_mpi": ["bench_mpi.c", "bench_mpi_lat.c", "bench_mpi_bw.c", "bench_mpi_onesided.c",
                  "bench_mpi_beside.c", "bench_mpi_sendrecv.c", "bench_common.c"],
    "bench_chapel": ["bench_chapel.c", "bench_common.c"],
    "bench_smd0": ["bench_smd0.c", "bench_common.c"],
}
PLAIN_PROGRAMS = {
    "bench_floor": ["bench_floor.c", "bench_common.c"],
    "bench_ceiling": ["bench_ceiling.c", "bench_common.c"],
    "bench_pin": ["bench_pin.c", "bench_common.c"],
    "bench_maps": ["bench_maps.c", "bench_common.c"],
}


class BenchError(Exception):
    """Something the user can act on; the text is one line."""


@dataclass
class Mpi:
    """One MPI installation."""
    flavour: str            # "ompi" or "mpich"
    mpirun: str
    mpicc: str
    version: str
    env: dict
    plugin_dir: str = ""    # where our plugins are ("" if there are none)
    binaries: dict = field(default_factory=dict)


def cache_dir():
    """Folder for compiled programs; outside the checkout."""
    base = os.environ.get("SMX_BUILD_DIR")
    if base and os.access(base, os.W_OK):
        return Path(base) / "bench"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sm-bench"


def setup_environment(ompi=None, quiet=False):
    """The environment in which Open MPI and our plugins work, from contrib/setup if need be."""
    env = dict(os.environ)
    if ompi:
        env["PATH"] = f"{ompi}/bin:{env.get('PATH', '')}"
        env["LD_LIBRARY_PATH"] = f"{ompi}/lib:{env.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        env.setdefault("SMX_OMPI_DIR", str(ompi))
    elif not env.get("SMX_OMPI_DIR"):
        setup = ROOT / "contrib" / "setup"
        if setup.exists():
            script = f'set -e; text="$({shlex.quote(str(setup))} --print-env)"; ' \
                     'eval "$text"; exec env -0'
            done = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL if quiet else None, check=False)
            if done.returncode != 0:
                raise BenchError("contrib/setup failed; its last lines above say why")
            env = dict(item.split("=", 1) for item in done.stdout.decode().split("\0")
                       if "=" in item)
    if os.geteuid() == 0:
        for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                     "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"):
            env.setdefault(name, "1")
    return env


def find_ompi(env):
    """The Open MPI of an environment, as an Mpi; BenchError if there is none."""
    prefix = env.get("SMX_OMPI_DIR")
    mpirun = shutil.which("mpirun", path=f"{prefix}/bin" if prefix else env.get("PATH"))
    mpicc = shutil.which("mpicc", path=f"{prefix}/bin" if prefix else env.get("PATH"))
    if not mpirun or not mpicc:
        raise BenchError("no mpirun and mpicc found: run contrib/setup, or give --ompi DIR")
    done = subprocess.run([mpirun, "--version"], env=env, capture_output=True, text=True,
                          check=False)
    found = re.search(r"Open MPI\)?\s+v?(\d+\.\d+\S*)", done.stdout)
    if not found:
        raise BenchError(f"{mpirun} is not Open MPI's")
    return Mpi("ompi", mpirun, mpicc, found.group(1), env, env.get("SMX_PLUGIN_DIR", ""))


def find_mpich(env):
    """MPICH from the distribution's package, as an Mpi, or None."""
    mpirun = shutil.which("mpiexec.mpich", path=env.get("PATH"))
    mpicc = shutil.which("mpicc.mpich", path=env.get("PATH"))
    if not mpirun or not mpicc:
        return None
    clean = {k: v for k, v in env.items()
             if k != "LD_LIBRARY_PATH" and not k.startswith(("OMPI_", "PMIX_", "PRTE_"))}
    done = subprocess.run([mpirun, "--version"], env=clean, capture_output=True, text=True,
                          check=False)
    found = re.search(r"Version:\s+(\S+)", done.stdout)
    return Mpi("mpich", mpirun, mpicc, found.group(1) if found else "unknown", clean)


def _compile(name, sources, compiler, flags, tag, env):
    """Compile a program once per compiler, flags and source text; returns its path."""
    digest = hashlib.sha256(" ".join([compiler, tag, *flags]).encode())
    for source in sorted({*sources, *(p.name for p in HERE.glob("bench_*.h"))}):
        digest.update((HERE / source).read_bytes())
    folder = cache_dir() / f"{name}-{digest.hexdigest()[:16]}"
    target = folder / name
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f".{name}.{os.getpid()}"
        text = " ".join(flags)
        command = [compiler, *flags, f'-DBENCH_CFLAGS="{text}"', "-o", str(fresh),
                   *[str(HERE / s) for s in sources], "-lm"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"cannot compile {name} with {compiler}:\n{done.stderr.strip()}")
        fresh.rename(target)
    return str(target)


def build(mpi, name="bench_mpi"):
    """Path of one of our MPI programs, built for that MPI."""
    if name not in mpi.binaries:
        flags = list(CFLAGS)
        if mpi.flavour == "mpich":
            # Its prototypes give the status array a size; MPI_STATUSES_IGNORE then looks too small.
            flags.append("-Wno-stringop-overflow")
        mpi.binaries[name] = _compile(name, MPI_PROGRAMS[name], mpi.mpicc, flags, mpi.version,
                                      mpi.env)
    return mpi.binaries[name]


def build_plain(name):
    """Path of one of our programs (or the library bench_maps) that know no MPI."""
    if name not in _plain:
        flags = list(CFLAGS)
        if name == "bench_maps":
            flags += ["-shared", "-fPIC", "-fvisibility=hidden"]
        compiler = os.environ.get("CC") or shutil.which("gcc") or "cc"
        _plain[name] = _compile(name, PLAIN_PROGRAMS[name], compiler, flags, "", None)
    return _plain[name]


_plain = {}


def mpirun_command(mpi, np, mpi_args, program):
    """The argument list that starts np unbound ranks (the programs pin themselves)."""
    if mpi.flavour == "mpich":
        return [mpi.mpirun, "-n", str(np), *mpi_args, *program]
    spread = ["--bind-to", "none"]
    if np > (len(os.sched_getaffinity(0)) or 1):
        spread += ["--map-by", ":OVERSUBSCRIBE"]
    return [mpi.mpirun, "-np", str(np), *spread, *mpi_args, *program]


@dataclass
class Outcome:
    """What became of one launch."""
    code: int           # exit status; negative: signal
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool

    def problem(self):
        """One line saying what went wrong, or '' if nothing did."""
        last = [line for line in self.stderr.splitlines() if line.strip(" -=*")]
        tail = f": {last[0].strip()[:160]}" if last else ""
        if self.timed_out:
            return f"exceeded its time ({self.seconds:.0f} s)"
        if self.code < 0:
            return f"ended by signal {-self.code}{tail}"
        return f"exit status {self.code}{tail}" if self.code else ""


def _children(pid):
    """All living descendants of pid as (pid, start time), by one walk over /proc."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            fields = text[text.rindex(")") + 2:].split()
            parents[int(entry)] = (int(fields[1]), fields[19])
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        for child, (its_parent, start) in parents.items():
            if its_parent == parent:
                found.append((child, start))
                todo.append(child)
    return found


def _start_time(pid):
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text[text.rindex(")") + 2:].split()[19]


def _adopt_orphans():
    """Make this process the parent of descendants whose own parent ends (Linux): so that one that
    has put itself in the background is still found and ended."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        pass


def _end_family():
    """End all descendants of this process for certain. Returns how many there were."""
    count = 0
    for _ in range(5):
        family = [(pid, start) for pid, start in _children(os.getpid())
                  if _start_time(pid) == start]
        for pid, start in family:
            if _start_time(pid) == start:  # a reused number is somebody else's process
                try:
                    os.kill(pid, signal.SIGKILL)
                    count += 1
                except ProcessLookupError:
                    pass
        for pid, _ in family:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass  # its parent was another one of the family
        if not family:
            break
    return count


def _end(process, patience=3.0):
    """End a launcher, politely at first, and everything that it left."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return _end_family()


def launch(command, env, timeout, cwd=None):
    """Run a command to its end or its time limit and end whatever it leaves behind.

    The driver has no other children while this runs. On Ctrl-C the tree is ended first. Output
    goes through files: a process that outlives the command could hold a pipe open.
    """
    _adopt_orphans()
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=err, start_new_session=True)
        except OSError as error:
            return Outcome(127, "", f"{command[0]}: {error.strerror}", 0.0, False)
        timed_out = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _end(process)
        seconds = time.monotonic() - start
        texts = []
        for f in (out, err):
            f.seek(0)
            texts.append(f.read().decode(errors="replace"))
    return Outcome(process.returncode, *texts, seconds, timed_out)
