/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Stands in for Open MPI's opal_config.h so that layer-0 files of the components compile without
 * Open MPI: in unit tests, under sanitizers, in a model checker.
 *
 * Only what a layer-0 file may rely on: the system's extensions.
 */
#ifndef OPAL_CONFIG_H
#define OPAL_CONFIG_H

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE 1
#endif

#endif /* OPAL_CONFIG_H */
