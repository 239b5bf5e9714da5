/*
 * Copyright (c) 2026 The project's contributors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fast box between threads, for ThreadSanitizer; the test is in s_fbox.h.
 */
#define S_THREADS 1
#include "s_fbox.h"
