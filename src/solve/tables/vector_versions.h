// Functions that are compiled for three instruction sets of x86, of which the loader picks one.
// What such a function calls has to be inlined, so that it is compiled once per version, too.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sanitizers start too late for the loader's choice between versions of a function.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TRIREME_VECTOR_VERSIONS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TRIREME_VECTOR_VERSIONS
#endif
