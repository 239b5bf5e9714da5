/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Doorbell between real processes; the test is in s_doorbell.h.
 */
#include "s_doorbell.h"
