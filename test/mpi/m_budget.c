/*
 * Copyright (c) 2026 The authors of this project.
 * SPDX-License-Identifier: BSD-3-Clause
 */
/**
 * @file
 * A ping-pong of 8 bytes whose instructions are counted from outside: test/mpi/run starts rank 0 under
 * callgrind, which looks at the transport's immediate send only, and divides by the number printed
 * here. Every byte is checked. No times are taken.
 *
 * Options: --messages=N.
 */
#include "mpi_check.h"

#define TAG 1000

int main(int argc, char **argv)
{
    chk_init(argc, argv, MPI_THREAD_SINGLE);
    const uint64_t messages = chk_opt_u64("messages", 20000);
    const int peer = 1 - chk_rank;
    unsigned char out[8];
    unsigned char in[8];
    if (2 != chk_np) {
        chk_skip_all("needs two ranks");
    }
    chk_phase("ping-pong");
    for (uint64_t i = 0; i < messages; i++) {
        const chk_msg_t mine = {chk_rank, TAG, i, 8};
        const chk_msg_t theirs = {peer, TAG, i, 8};
        chk_fill(&mine, 0, out, 8);
        if (0 == chk_rank) {
            CHK(MPI_Send(out, 8, MPI_BYTE, peer, TAG, MPI_COMM_WORLD));
        }
        CHK(MPI_Recv(in, 8, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (1 == chk_rank) {
            CHK(MPI_Send(out, 8, MPI_BYTE, peer, TAG, MPI_COMM_WORLD));
        }
        chk_verify(&theirs, 0, in, 8);
    }
    chk_diag("%llu sends counted", (unsigned long long) messages);
    chk_result("%llu messages of 8 bytes each way", (unsigned long long) messages);
    return chk_done();
}
