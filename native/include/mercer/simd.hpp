// Fixed-width vectors, the widest the instruction set of this translation unit has.
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

template <class Real>
struct Simd;

template <>
struct Simd<double> {
    using Vec = double __attribute__((vector_size(kVectorBytes)));
    using Int = int64_t __attribute__((vector_size(kVectorBytes)));
    using Unaligned = double __attribute__((vector_size(kVectorBytes), aligned(8), may_alias));
};

template <>
struct Simd<float> {
    using Vec = float __attribute__((vector_size(kVectorBytes)));
    using Int = int32_t __attribute__((vector_size(kVectorBytes)));
    using Unaligned = float __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
};

template <class Real>
using VecOf = typename Simd<Real>::Vec;
using Vec = VecOf<double>;

template <class Real>
constexpr int kLanesOf = kVectorBytes / static_cast<int>(sizeof(Real));
constexpr int kLanes = kLanesOf<double>;

template <class Real>
MERCER_INLINE VecOf<Real> load_vector(const Real* p) {
    return *reinterpret_cast<const typename Simd<Real>::Unaligned*>(p);
}
template <class Real>
MERCER_INLINE void store(Real* p, VecOf<Real> v) {
    *reinterpret_cast<typename Simd<Real>::Unaligned*>(p) = v;
}
template <class Real>
MERCER_INLINE VecOf<Real> fill(Real x) {
    return VecOf<Real>{} + x;
}

// a b + c with the rounding that the tiles' vectors have: one where the processor multiplies and adds at once.
template <class Real>
MERCER_INLINE Real multiply_add(Real a, Real b, Real c) {
#ifdef __FMA__
    if constexpr (sizeof(Real) == sizeof(double))
        return __builtin_fma(a, b, c);
    else
        return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

// kLanes numbers as doubles, widened where they are stored in single precision.
MERCER_INLINE Vec load(const double* p) { return load_vector(p); }
MERCER_INLINE Vec load(const float* p) {
    using Narrow = float __attribute__((vector_size(kVectorBytes / 2)));
    using NarrowUnaligned = float __attribute__((vector_size(kVectorBytes / 2), aligned(4), may_alias));
    return __builtin_convertvector(static_cast<Narrow>(*reinterpret_cast<const NarrowUnaligned*>(p)), Vec);
}

MERCER_INLINE Vec broadcast(double x) { return fill(x); }
template <class V>
MERCER_INLINE V min(V a, V b) {
    return a < b ? a : b;
}
template <class V>
MERCER_INLINE V max(V a, V b) {
    return a > b ? a : b;
}

MERCER_INLINE double sum(Vec v) {
    double total = 0.0;
    for (int lane = 0; lane < kLanes; ++lane) total += v[lane];
    return total;
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
    const Simd<double>::Int exponent = (reinterpret_cast<Simd<double>::Int>(shifted) + 1023) << 52;
    Vec result = s * reinterpret_cast<Vec>(exponent);
    result = x < -708.0 ? Vec{} : result;
    result = x > 709.0 ? broadcast(__builtin_inf()) : result;
    return x == x ? result : x;
}

// The same in single precision: Taylor to r^7 / 7! (remainder below 6e-9), results below the normal range are 0.
MERCER_INLINE VecOf<float> exp(VecOf<float> x) {
    using Int = Simd<float>::Int;
    constexpr float kLog2e = 0x1.715476p0f, kLn2Hi = 0x1.62e4p-1f, kLn2Lo = 0x1.7f7d1cp-20f, kShift = 0x1.8p23f;
    const VecOf<float> clamped = min(max(x, fill(-87.0f)), fill(88.0f));
    const VecOf<float> shifted = clamped * kLog2e + kShift;
    const VecOf<float> n = shifted - kShift;
    const VecOf<float> r = (clamped - n * kLn2Hi) - n * kLn2Lo;
    VecOf<float> s = fill(1.0f / 5040.0f);
    s = s * r + 1.0f / 720.0f;
    s = s * r + 1.0f / 120.0f;
    s = s * r + 1.0f / 24.0f;
    s = s * r + 1.0f / 6.0f;
    s = s * r + 0.5f;
    s = s * r + 1.0f;
    s = s * r + 1.0f;
    const Int exponent = (reinterpret_cast<Int>(shifted) + 127) << 23;
    VecOf<float> result = s * reinterpret_cast<VecOf<float>>(exponent);
    result = x < -87.0f ? VecOf<float>{} : result;
    result = x > 88.0f ? fill(__builtin_inff()) : result;
    return x == x ? result : x;
}

// tanh(x) with an absolute error of about the unit roundoff.
template <class V>
MERCER_INLINE V tanh(V x) {
    return 1 - 2 / (exp(2 * x) + 1);
}

}  // namespace mercer::MERCER_ISA
