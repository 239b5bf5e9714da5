/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tables of scenarios for the explorer, one per m_*.c, each ended by an entry without a name.
 *
 * Included by m_*.c and by m_main.c only.
 */
#ifndef TEST_MODEL_M_SCENARIOS_H
#define TEST_MODEL_M_SCENARIOS_H

#include "explore.h"

extern const sm_scenario_t m_litmus[], m_fbox[], m_doorbell[], m_coop[], m_wake[], m_stream[];

#endif
