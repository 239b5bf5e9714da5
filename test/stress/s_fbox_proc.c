/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fast box between real processes; the test is in s_fbox.h.
 */
#include "s_fbox.h"
