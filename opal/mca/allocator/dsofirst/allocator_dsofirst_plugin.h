/*
 * allocator_dsofirst_plugin.h: will MCA be able to use this plugin file?
 *
 * Layer: L1 (OPAL types, no MCA variable, no singleton).
 * Called by allocator_dsofirst_component.c before it hides a linked-in component.
 * Must never answer yes about a file that MCA's loader would then refuse: the user would be left
 * with neither.
 */

#ifndef ALLOCATOR_DSOFIRST_PLUGIN_H
#define ALLOCATOR_DSOFIRST_PLUGIN_H

#include "opal_config.h"

#include <stdbool.h>
#include <stddef.h>

/** Room for the reason of a refusal: a path and a message of the dynamic loader fit. */
#define ALLOCATOR_DSOFIRST_REASON_MAX 1024

/**
 * @brief Check a plugin file: present, readable, whole, made for this series, loadable, and the
 * component it claims to be.
 *
 * @param[in]  path       as MCA's repository keeps it, without ".so"
 * @param[in]  framework  for instance "smsc"
 * @param[in]  component  for instance "cma"
 * @param[in]  series     series of the running Open MPI, for instance "5.0"
 * @param[out] reason     ALLOCATOR_DSOFIRST_REASON_MAX bytes: why not, one line; empty when the
 * answer is yes
 * @return whether MCA can use it
 *
 * **Cost** one map of the file, one dlopen and dlclose: about 0.1 ms.
 */
bool allocator_dsofirst_plugin_usable(const char *path, const char *framework,
                                      const char *component, const char *series, char *reason);

#endif /* ALLOCATOR_DSOFIRST_PLUGIN_H */
