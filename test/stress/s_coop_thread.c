/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Cooperation board between threads, for ThreadSanitizer; the test is in s_coop.h.
 */
#define S_THREADS 1
#include "s_coop.h"
