// Fixed-width vectors of doubles, the widest the instruction set of this translation unit has.
//
// This header and everything that includes it is compiled once per instruction set, inside namespace
// mercer::MERCER_ISA. Such translation units must not instantiate templates of the standard library:
// the linker keeps one copy of each, and could keep one that an older processor cannot run.
#pragma once

#include <cstdint>

#ifndef MERCER_ISA
#define MERCER_ISA baseline
#endif

#define MERCER_INLINE inline __attribute__((always_inline))
#define MERCER_LAMBDA_INLINE __attribute__((always_inline))

namespace mercer::MERCER_ISA {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kTileRows = 12;  // 12 x 2 accumulators of the 32 registers
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
constexpr int kTileRows = 6;  // 6 x 2 accumulators of the 16 registers
#else
constexpr int kVectorBytes = 16;
constexpr int kTileRows = 6;
#endif

constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(double));

using Vec = double __attribute__((vector_size(kVectorBytes)));
using VecInt = int64_t __attribute__((vector_size(kVectorBytes)));
using VecUnaligned = double __attribute__((vector_size(kVectorBytes), aligned(8), may_alias));

MERCER_INLINE Vec load(const double* p) { return *reinterpret_cast<const VecUnaligned*>(p); }
// As many single-precision numbers as a Vec has lanes, widened.
MERCER_INLINE Vec load(const float* p) {
    using Narrow = float __attribute__((vector_size(kVectorBytes / 2)));
    using NarrowUnaligned = float __attribute__((vector_size(kVectorBytes / 2), aligned(4), may_alias));
    return __builtin_convertvector(static_cast<Narrow>(*reinterpret_cast<const NarrowUnaligned*>(p)), Vec);
}
MERCER_INLINE void store(double* p, Vec v) { *reinterpret_cast<VecUnaligned*>(p) = v; }
MERCER_INLINE Vec broadcast(double x) { return Vec{} + x; }
MERCER_INLINE Vec min(Vec a, Vec b) { return a < b ? a : b; }
MERCER_INLINE Vec max(Vec a, Vec b) { return a > b ? a : b; }

// a * b + c, rounded as the vectors' products are: once where the instruction set has fused multiply-add.
MERCER_INLINE double multiply_add(double a, double b, double c) {
#ifdef __FMA__
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

MERCER_INLINE double sum(Vec v) {
    double total = 0.0;
    for (int lane = 0; lane < kLanes; ++lane) total += v[lane];
    return total;
}

MERCER_INLINE double smallest(Vec v) {
    double best = v[0];
    for (int lane = 1; lane < kLanes; ++lane) best = v[lane] < best ? v[lane] : best;
    return best;
}

MERCER_INLINE double largest(Vec v) {
    double best = v[0];
    for (int lane = 1; lane < kLanes; ++lane) best = v[lane] > best ? v[lane] : best;
    return best;
}

// exp(x) to about one unit in the last place: x = n ln 2 + r with |r| <= ln(2)/2, Taylor to r^13 / 13!
// (remainder below 5e-18), then n is added to the exponent. Results below the normal range are 0, above it +inf.
MERCER_INLINE Vec exp(Vec x) {
    constexpr double kLog2e = 0x1.71547652b82fep0, kLn2Hi = 0x1.62e42fefa0000p-1, kLn2Lo = 0x1.cf79abc9e3b3ap-40;
    constexpr double kShift = 0x1.8p52;  // adding it leaves the rounded integer in the low bits of the significand
    const Vec clamped = min(max(x, broadcast(-708.0)), broadcast(709.0));
    const Vec shifted = clamped * kLog2e + kShift;
    const Vec n = shifted - kShift;
    const Vec r = (clamped - n * kLn2Hi) - n * kLn2Lo;
    Vec s = broadcast(1.0 / 6227020800.0);
    s = s * r + 1.0 / 479001600.0;
    s = s * r + 1.0 / 39916800.0;
    s = s * r + 1.0 / 3628800.0;
    s = s * r + 1.0 / 362880.0;
    s = s * r + 1.0 / 40320.0;
    s = s * r + 1.0 / 5040.0;
    s = s * r + 1.0 / 720.0;
    s = s * r + 1.0 / 120.0;
    s = s * r + 1.0 / 24.0;
    s = s * r + 1.0 / 6.0;
    s = s * r + 0.5;
    s = s * r + 1.0;
    s = s * r + 1.0;
    const VecInt exponent = (reinterpret_cast<VecInt>(shifted) + 1023) << 52;
    Vec result = s * reinterpret_cast<Vec>(exponent);
    result = x < -708.0 ? Vec{} : result;
    result = x > 709.0 ? broadcast(__builtin_inf()) : result;
    return x == x ? result : x;
}

// tanh(x) with an absolute error of about 1e-16.
MERCER_INLINE Vec tanh(Vec x) { return 1.0 - 2.0 / (exp(2.0 * x) + 1.0); }

}  // namespace mercer::MERCER_ISA
