// Numbers of four classes in a vector, for the descent of several classes on the same rows.
#pragma once

#include <cstdint>

#include "gram/simd.hpp"

namespace mercer::MERCER_ISA {

// Vectors of 32 bytes have two calling conventions; here, all functions that take them are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

// Numbers of `kClassesAtATime` classes.
using Four = double __attribute__((vector_size(32)));
using Mask = int64_t __attribute__((vector_size(32)));  // -1 for classes that are chosen, and 0 for the others
typedef double UnalignedFour __attribute__((vector_size(32), aligned(8), may_alias));

MERCER_INLINE Four load_four(const double* p) { return *reinterpret_cast<const UnalignedFour*>(p); }
MERCER_INLINE void store_four(double* p, Four x) { *reinterpret_cast<UnalignedFour*>(p) = x; }
MERCER_INLINE Four choose(Mask mask, Four a, Four b) { return mask ? a : b; }
MERCER_INLINE Four larger(Four a, Four b) { return a > b ? a : b; }
MERCER_INLINE Four smaller(Four a, Four b) { return a < b ? a : b; }
MERCER_INLINE Four size_of(Four x) { return choose(x < 0.0, -x, x); }
MERCER_INLINE Mask mask_of(unsigned bits) {
    const Mask places = {1, 2, 4, 8};
    return (places & static_cast<int64_t>(bits)) != 0;
}
MERCER_INLINE unsigned bits_of(Mask mask) {
    return static_cast<unsigned>((mask[0] & 1) | (mask[1] & 2) | (mask[2] & 4) | (mask[3] & 8));
}

}  // namespace mercer::MERCER_ISA
