# SPDX-License-Identifier: BSD-3-Clause
"""The MPI configurations that are compared, and the proof that each one is what it says.

Called by run_ab.py, run, ab and tune. A subject is data: launcher arguments, environment, what
must and must not be mapped into its ranks, and how to get it where it is missing.
"""

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

NO_SINGLE_COPY = ["--mca", "smsc", "^cma,knem,xpmem"]
SM = ["--mca", "pml", "ob1", "--mca", "btl", "sm,self"]
BUILTIN = ["--mca", "allocator", "^dsofirst"]
# Its error line per window where UCX has no device is not the subject's fault.
QUIET = ["--mca", "osc", "^ucx"]


@dataclass
class Subject:
    """One way to run an MPI program."""
    name: str
    label: str
    flavour: str = "ompi"
    args: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    ours: tuple = ()        # plugin files of ours that must be mapped
    hint: str = ""          # how to get it


SUBJECTS = {s.name: s for s in [
    Subject("builtin", "Open MPI sm + cma", args=[*BUILTIN, *SM, *QUIET, "--mca", "smsc", "cma"]),
    Subject("builtin-nocma", "Open MPI sm, no single copy",
            args=[*BUILTIN, *SM, *QUIET, *NO_SINGLE_COPY]),
    Subject("ours", "ours", args=[*SM, *QUIET, "--mca", "smsc", "cma"],
            ours=("mca_smsc_cma.so", "mca_btl_sm.so"), hint="contrib/setup builds it"),
    Subject("ours-cma", "Open MPI sm + our cma",
            args=["--mca", "allocator_dsofirst_components", "smsc:cma", *SM, *QUIET,
                  "--mca", "smsc", "cma"],
            ours=("mca_smsc_cma.so",), hint="contrib/setup builds it"),
    Subject("ours-nosc", "ours, no single copy", args=[*SM, *QUIET, *NO_SINGLE_COPY],
            ours=("mca_btl_sm.so",), hint="contrib/setup builds it"),
    Subject("ours-nocoop", "ours, no cooperation",
            args=[*SM, *QUIET, "--mca", "smsc", "cma", "--mca", "btl_sm_cooperate_limit", "0"],
            ours=("mca_smsc_cma.so", "mca_btl_sm.so"), hint="contrib/setup builds it"),
    Subject("ucx", "UCX (posix + cma)", args=[*BUILTIN, "--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any",
                                            "--mca", "opal_common_ucx_devices", "any"],
            env={"UCX_TLS": "posix,cma,self", "UCX_WARN_UNUSED_ENV_VARS": "n"},
            hint="an Open MPI configured --with-ucx (contrib/setup builds it so)"),
    Subject("mpich", "MPICH", flavour="mpich", env={"MPIR_CVAR_CH4_CMA_ENABLE": "1"},
            hint="apt-get install mpich libmpich-dev"),
    Subject("mpich-nocma", "MPICH without cma", flavour="mpich",
            env={"MPIR_CVAR_CH4_CMA_ENABLE": "0", "UCX_TLS": "posix,self"},
            hint="apt-get install mpich libmpich-dev"),
    Subject("knem", "Open MPI sm + knem", args=[*BUILTIN, *SM, *QUIET, "--mca", "smsc", "knem"],
            hint="load the knem kernel module (/dev/knem)"),
    Subject("xpmem", "Open MPI sm + xpmem",
            args=[*BUILTIN, *SM, *QUIET, "--mca", "smsc", "xpmem"],
            hint="load the xpmem kernel module (/dev/xpmem)"),
]}


def ours_dir_files(plugin_dir):
    """Names of our plugins that exist in the plugin folder."""
    names = {"mca_smsc_cma.so", "mca_btl_sm.so", "mca_allocator_dsofirst.so"}
    return {n for n in names if plugin_dir and (Path(plugin_dir) / n).exists()}


def present(subject, ompi, mpich):
    """'' if the subject can run here, else why not and how to get it."""
    mpi = ompi if subject.flavour == "ompi" else mpich
    if mpi is None:
        return f"{subject.label}: not installed; {subject.hint}"
    if subject.name in ("knem", "xpmem") and not os.path.exists(f"/dev/{subject.name}"):
        return f"{subject.label}: no /dev/{subject.name}; {subject.hint}"
    if subject.ours:
        have = ours_dir_files(mpi.plugin_dir)
        missing = [n for n in subject.ours if n not in have]
        if missing:
            where = mpi.plugin_dir or "no plugin folder (SMX_PLUGIN_DIR)"
            return f"{subject.label}: {', '.join(missing)} not in {where}; {subject.hint}"
    return ""


def check_files(subject, files, plugin_dir):
    """Compare what the ranks had mapped with what the subject promises.

    `files` is the list of the context record: {"ranks": [...], "paths": [...]}.
    Returns a list of problems, empty if the run measured what it says.
    """
    problems = []
    folder = os.path.realpath(plugin_dir) if plugin_dir else None
    for group in files:
        mine = {os.path.basename(p) for p in group["paths"]
                if folder and os.path.dirname(os.path.realpath(p)) == folder}
        who = ",".join(map(str, group["ranks"]))
        for name in subject.ours:
            if name not in mine:
                problems.append(f"rank {who}: our {name} was not loaded")
        for name in sorted(mine - set(subject.ours) - {"mca_allocator_dsofirst.so"}):
            if not (subject.ours and name == "mca_smsc_cma.so"):
                problems.append(f"rank {who}: our {name} was loaded in {subject.name}")
    return problems


_sums = {}


def sha256(path):
    """Checksum of a file, remembered by name, size and time; '' if it cannot be read."""
    try:
        stat = os.stat(path)
        key = (path, stat.st_size, stat.st_mtime_ns)
        if key not in _sums:
            _sums[key] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        return _sums[key]
    except OSError:
        return ""
