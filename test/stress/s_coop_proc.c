/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Cooperation board between real processes; the test is in s_coop.h.
 */
#include "s_coop.h"
