/*
 * loaded: an MPI program that lists the plugin files which a rank has mapped, one path per line, after
 * MPI_Init and one message to each neighbour, so that a transport has been chosen and used.
 *
 * Layer: none, a program on mpi.h only. Built and run by contrib/setup and test/stock to prove, from
 * /proc/self/maps, which files an MPI job really uses. It must never take the word of an MCA parameter
 * or of ompi_info for that.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints the path of each mapped mca_*.so once; the lines of one file follow each other in the list. */
static int list_plugins(int rank)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4352], last[4096] = "";

    if (NULL == maps) {
        perror("/proc/self/maps");
        return 1;
    }
    while (NULL != fgets(line, sizeof(line), maps)) {
        char *path = strchr(line, '/');
        const char *name;
        if (NULL == path) {
            continue;
        }
        path[strcspn(path, "\n")] = '\0';
        name = strrchr(path, '/') + 1;
        if (0 == strncmp(name, "mca_", 4) && 0 != strcmp(path, last)) {
            printf("rank %d: %s\n", rank, path);
            snprintf(last, sizeof(last), "%s", path);
        }
    }
    fclose(maps);
    return 0;
}

int main(int argc, char **argv)
{
    int rank, size, rc;
    /* Larger than any eager limit, so that the single-copy provider is asked for as well. */
    enum { BYTES = 1 << 20 };
    char *out = malloc(BYTES), *in = malloc(BYTES);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (NULL == out || NULL == in) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(out, 1 + rank % 100, BYTES);
    MPI_Sendrecv(out, BYTES, MPI_CHAR, (rank + 1) % size, 0, in, BYTES, MPI_CHAR,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    rc = 1 + (rank + size - 1) % size % 100 == in[BYTES - 1] ? list_plugins(rank) : 1;
    if (1 < argc && 0 == strcmp(argv[1], "env") && 0 == rank) {
        const char *path = getenv("OMPI_MCA_mca_base_component_path");
        printf("component path: %s\n", NULL == path ? "(default)" : path);
    }
    MPI_Finalize();
    free(out);
    free(in);
    return rc;
}
