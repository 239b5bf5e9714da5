# SPDX-License-Identifier: BSD-3-Clause
"""What a user of mpi4py does, checked byte by byte: pickled objects, buffers, probes, collectives, windows, and
executors whose workers are spawned. Prints TAP on rank 0. Run by test/external/run over the packaged mpi4py."""

import array
import sys

from mpi4py import MPI

SIZES = [0, 1, 63, 4095, 4096, 4097, 32768, 65537, 1000003]
COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
RIGHT, LEFT = (RANK + 1) % SIZE, (RANK - 1) % SIZE
RESULTS = []


def pattern(rank, size, salt=0):
    """Bytes that depend on their sender, their number and their place."""
    word = bytes((rank * 37 + salt * 11 + i * 7) & 255 for i in range(251))
    return (word * (size // 251 + 1))[:size]


def check(name, good):
    """One line, good only if it is so on every rank."""
    good = COMM.allreduce(bool(good), op=MPI.LAND)
    RESULTS.append(good)
    if RANK == 0:
        print(f"{'ok' if good else 'not ok'} {len(RESULTS)} - {name}", flush=True)


def objects():
    """Objects of many sizes travel pickled, some with a size unknown to the receiver."""
    good = True
    for tag, size in enumerate(SIZES):
        mine = {"from": RANK, "data": pattern(RANK, size, tag), "list": list(range(tag))}
        got = COMM.sendrecv(mine, dest=RIGHT, sendtag=tag, source=LEFT, recvtag=tag)
        good &= got == {"from": LEFT, "data": pattern(LEFT, size, tag), "list": list(range(tag))}
        request = COMM.isend(mine, dest=RIGHT, tag=tag)
        message = COMM.mprobe(source=LEFT, tag=tag)
        good &= message.recv()["data"] == pattern(LEFT, size, tag)
        request.wait()
    check("pickled objects arrive as they were sent", good)


def buffers():
    """Uppercase calls on buffers, blocking, at once and persistent."""
    good = True
    for tag, size in enumerate(SIZES):
        out, into = bytearray(pattern(RANK, size, tag)), bytearray(size)
        COMM.Sendrecv(out, dest=RIGHT, sendtag=tag, recvbuf=into, source=LEFT, recvtag=tag)
        good &= bytes(into) == pattern(LEFT, size, tag)
        into = bytearray(size)
        requests = [COMM.Irecv(into, source=MPI.ANY_SOURCE, tag=100 + tag), COMM.Issend(out, dest=RIGHT, tag=100 + tag)]
        MPI.Request.Waitall(requests)
        good &= bytes(into) == pattern(LEFT, size, tag)
        into = bytearray(size)
        requests = [COMM.Recv_init(into, source=LEFT, tag=200 + tag), COMM.Send_init(out, dest=RIGHT, tag=200 + tag)]
        for _ in range(3):
            MPI.Prequest.Startall(requests)
            MPI.Request.Waitall(requests)
        good &= bytes(into) == pattern(LEFT, size, tag)
        for request in requests:
            request.Free()
    check("buffers arrive in every mode", good)


def collectives():
    """Collectives of objects and of buffers."""
    good = COMM.allgather((RANK, pattern(RANK, 9000))) == [(r, pattern(r, 9000)) for r in range(SIZE)]
    good &= COMM.alltoall([pattern(RANK, 5000, r) for r in range(SIZE)]) == [pattern(r, 5000, RANK) for r in range(SIZE)]
    good &= COMM.bcast(pattern(0, 200000) if RANK == 0 else None) == pattern(0, 200000)
    good &= COMM.scatter([r * r for r in range(SIZE)] if RANK == 0 else None) == RANK * RANK
    total = array.array("q", [0]) * 50000
    COMM.Allreduce(array.array("q", [RANK + 1]) * 50000, total)
    good &= total == array.array("q", [SIZE * (SIZE + 1) // 2]) * 50000
    check("collectives give the right values", good)


def windows():
    """One-sided traffic into the right neighbour's memory."""
    size = 100003
    memory = bytearray(size)
    window = MPI.Win.Create(memory, comm=COMM)
    out = bytearray(pattern(RANK, size))
    window.Fence()
    # The standard lets a put read its buffer until the epoch is closed: it must outlive the call.
    window.Put(out, RIGHT)
    window.Fence()
    good = bytes(memory) == pattern(LEFT, size)
    got = bytearray(size)
    window.Lock(RIGHT, MPI.LOCK_SHARED)
    window.Get(got, RIGHT)
    window.Unlock(RIGHT)
    good &= bytes(got) == pattern(RANK, size)
    window.Fence()
    window.Free()
    check("windows hold what was put", good)


def work(item):
    """What a spawned worker does."""
    number, data = item
    return number, bytes(reversed(data))


def executors():
    """Workers are spawned processes that talk to us over a communicator of their own."""
    from mpi4py.futures import MPIPoolExecutor
    items = [(n, pattern(n, size, n)) for n, size in enumerate(SIZES * 2)]
    with MPIPoolExecutor(max_workers=2) as pool:
        got = list(pool.map(work, items))
    check("spawned workers answer every task", got == [(n, bytes(reversed(d))) for n, d in items])


def main():
    """The plan, then the parts."""
    parts = [executors] if "futures" in sys.argv[1:] else [objects, buffers, collectives, windows]
    if RANK == 0:
        print(f"1..{len(parts)}", flush=True)
    for part in parts:
        part()
    return 0 if all(RESULTS) else 1


if __name__ == "__main__":
    sys.exit(main())
