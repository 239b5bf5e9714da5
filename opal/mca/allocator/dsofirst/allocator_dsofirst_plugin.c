/*
 * allocator_dsofirst_plugin.c: will MCA be able to use this plugin file?
 *
 * Layer: L1; see allocator_dsofirst_plugin.h.
 */

#include "opal_config.h"

#include "allocator_dsofirst_plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opal/mca/mca.h"

#include "allocator_dsofirst_elf.h"

/* framework and component names have an upper length in mca.h; the rest is "mca_",
 * "_built_for" and zero */
#define SYMBOL_MAX (MCA_BASE_MAX_TYPE_NAME_LEN + MCA_BASE_MAX_COMPONENT_NAME_LEN + 32)

/* Series first and from the bytes of the file: code made for another series must not run at all. */
static bool series_fits(const char *file, const char *framework, const char *component,
                        const char *series, char *reason)
{
    char symbol[SYMBOL_MAX], made_for[32];
    allocator_dsofirst_elf_result_t result;
    struct stat status;
    void *image = MAP_FAILED;
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    if (0 > fd || 0 != fstat(fd, &status)) {
        snprintf(reason, ALLOCATOR_DSOFIRST_REASON_MAX, "cannot be read (%s)", strerror(errno));
    } else if (!S_ISREG(status.st_mode) || 0 == status.st_size) {
        snprintf(reason, ALLOCATOR_DSOFIRST_REASON_MAX, "is no shared object");
    } else if (MAP_FAILED
               == (image = mmap(NULL, (size_t) status.st_size, PROT_READ, MAP_PRIVATE, fd, 0))) {
        snprintf(reason, ALLOCATOR_DSOFIRST_REASON_MAX, "cannot be mapped (%s)", strerror(errno));
    }
    if (0 <= fd) {
        close(fd);
    }
    if (MAP_FAILED == image) {
        return false;
    }
    snprintf(symbol, sizeof(symbol), "mca_%s_%s_built_for", framework, component);
    result = allocator_dsofirst_elf_text(image, (size_t) status.st_size, symbol, made_for,
                                         sizeof(made_for));
    munmap(image, (size_t) status.st_size);
    switch (result) {
    case ALLOCATOR_DSOFIRST_ELF_OK:
        if (0 == strcmp(series, made_for)) {
            return true;
        }
        snprintf(reason, ALLOCATOR_DSOFIRST_REASON_MAX, "was made for Open MPI %s.x, not for %s.x",
                 made_for, series);
        return false;
    case ALLOCATOR_DSOFIRST_ELF_NO_SYMBOL:
        snprintf(reason, ALLOCATOR_DSOFIRST_REASON_MAX,
                 "does not say for which Open MPI it was made");
        return false;
    case ALLOCATOR_DSOFIRST_ELF_TRUNCATED:
        snprintf(reason, ALLOCATOR_DSOFIRST_REASON_MAX,
                 "is damaged (shorter than its headers say)");
        return false;
    case ALLOCATOR_DSOFIRST_ELF_NOT_ELF:
    default:
        snprintf(reason, ALLOCATOR_DSOFIRST_REASON_MAX, "is no shared object");
        return false;
    }
}

/* What MCA's repository asks of a file, asked beforehand. */
static bool loads(const char *file, const char *framework, const char *component, char *reason)
{
    char symbol[SYMBOL_MAX];
    const mca_base_component_t *found;
    bool fits = false;
    void *handle = dlopen(file, RTLD_LAZY | RTLD_LOCAL);

    if (NULL == handle) {
        const char *why = dlerror();
        snprintf(reason, ALLOCATOR_DSOFIRST_REASON_MAX, "cannot be loaded (%s)",
                 NULL == why ? "no cause given" : why);
        return false;
    }
    snprintf(symbol, sizeof(symbol), "mca_%s_%s_component", framework, component);
    found = dlsym(handle, symbol);
    if (NULL == found) {
        snprintf(reason, ALLOCATOR_DSOFIRST_REASON_MAX, "has no %s", symbol);
    } else if (MCA_BASE_VERSION_MAJOR != found->mca_major_version
               || MCA_BASE_VERSION_MINOR != found->mca_minor_version) {
        snprintf(reason, ALLOCATOR_DSOFIRST_REASON_MAX, "is for MCA %d.%d, not for %d.%d",
                 found->mca_major_version, found->mca_minor_version, MCA_BASE_VERSION_MAJOR,
                 MCA_BASE_VERSION_MINOR);
    } else if (0 != strncmp(framework, found->mca_type_name, sizeof(found->mca_type_name))
               || 0
                      != strncmp(component, found->mca_component_name,
                                 sizeof(found->mca_component_name))) {
        snprintf(reason, ALLOCATOR_DSOFIRST_REASON_MAX,
                 "holds another component than its name says");
    } else {
        fits = true;
    }
    /* MCA loads what fits in a moment. Unloading it before and after, and once more at the end,
     * would cost each process more than a millisecond. */
    if (!fits) {
        dlclose(handle);
    }
    return fits;
}

bool allocator_dsofirst_plugin_usable(const char *path, const char *framework,
                                      const char *component, const char *series, char *reason)
{
    char file[PATH_MAX];
    int len = snprintf(file, sizeof(file), "%s.so", path);

    reason[0] = '\0';
    if (0 > len || sizeof(file) <= (size_t) len) {
        snprintf(reason, ALLOCATOR_DSOFIRST_REASON_MAX, "has too long a name");
        return false;
    }
    return series_fits(file, framework, component, series, reason)
           && loads(file, framework, component, reason);
}
