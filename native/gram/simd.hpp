// Fixed-width vectors: the widest of the instruction set for which the translation unit is compiled.
//
// This header and everything that includes it is compiled once per instruction set, inside namespace
// mercer::MERCER_ISA. Such translation units must not instantiate templates of the standard library. The linker keeps
// one copy of each template instance, and might keep one that an older processor cannot run.
#pragma once

#include <cstdint>
#include <utility>
#ifdef __SSE2__
#include <immintrin.h>
#endif

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

// Typedefs instead of aliases, because Clang ignores a lower alignment in an alias.
template <>
struct Simd<double> {
    using Vec = double __attribute__((vector_size(kVectorBytes)));
    using Int = int64_t __attribute__((vector_size(kVectorBytes)));
    typedef double Unaligned __attribute__((vector_size(kVectorBytes), aligned(8), may_alias));
};

template <>
struct Simd<float> {
    using Vec = float __attribute__((vector_size(kVectorBytes)));
    using Int = int32_t __attribute__((vector_size(kVectorBytes)));
    typedef float Unaligned __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
};

template <>
struct Simd<int32_t> {
    using Vec = Simd<float>::Int;
    typedef int32_t Unaligned __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
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

template <class Real, int Distance, int... Lane>
MERCER_INLINE void turn_step(VecOf<Real>* rows, std::integer_sequence<int, Lane...> lanes) {
    constexpr int kLane = kLanesOf<Real>;
#pragma GCC unroll 16
    for (int r = 0; r < kLane; ++r) {  // swaps pairs of blocks
        if (r & Distance) continue;
        const VecOf<Real> upper = rows[r], lower = rows[r + Distance];
        rows[r] = __builtin_shufflevector(upper, lower, (Lane & Distance ? kLane + Lane - Distance : Lane)...);
        rows[r + Distance] =
            __builtin_shufflevector(upper, lower, (Lane & Distance ? kLane + Lane : Lane + Distance)...);
    }
    if constexpr (Distance > 1) turn_step<Real, Distance / 2>(rows, lanes);
}

// Transposes a square of kLanesOf<Real> vectors, in place.
template <class Real>
MERCER_INLINE void turn(VecOf<Real>* rows) {
    turn_step<Real, kLanesOf<Real> / 2>(rows, std::make_integer_sequence<int, kLanesOf<Real>>());
}

// a b + c, rounded as in the vectors of tiles: once, if the processor has fused multiply-add.
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

#if defined(__AVX512F__)
MERCER_INLINE Vec multiply_add(Vec a, Vec b, Vec c) { return _mm512_fmadd_pd(a, b, c); }
#elif defined(__FMA__)
MERCER_INLINE Vec multiply_add(Vec a, Vec b, Vec c) { return _mm256_fmadd_pd(a, b, c); }
#else
MERCER_INLINE Vec multiply_add(Vec a, Vec b, Vec c) { return a * b + c; }
#endif

// Loads kLanes numbers as doubles; float32 numbers are converted.
MERCER_INLINE Vec load(const double* p) { return load_vector(p); }
#if defined(__AVX512F__)
MERCER_INLINE Vec load(const float* p) { return _mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(p)); }
#else
MERCER_INLINE Vec load(const float* p) {
    using Narrow = float __attribute__((vector_size(kVectorBytes / 2)));
    typedef float NarrowUnaligned __attribute__((vector_size(kVectorBytes / 2), aligned(4), may_alias));
    return __builtin_convertvector(static_cast<Narrow>(*reinterpret_cast<const NarrowUnaligned*>(p)), Vec);
}
#endif

MERCER_INLINE Vec broadcast(double x) { return fill(x); }
// Minimum and maximum; the result is b if a or b is NaN. The overloads below use the processor's single instruction,
// which compilers do not generate from this code.
template <class V>
MERCER_INLINE V min(V a, V b) {
    return a < b ? a : b;
}
template <class V>
MERCER_INLINE V max(V a, V b) {
    return a > b ? a : b;
}
#if defined(__AVX512F__)  // masked forms, because GCC 12 warns about the others
MERCER_INLINE Vec max(Vec a, Vec b) { return _mm512_maskz_max_pd(0xff, a, b); }
MERCER_INLINE VecOf<float> max(VecOf<float> a, VecOf<float> b) { return _mm512_maskz_max_ps(0xffff, a, b); }
MERCER_INLINE Vec min(Vec a, Vec b) { return _mm512_maskz_min_pd(0xff, a, b); }
MERCER_INLINE VecOf<float> min(VecOf<float> a, VecOf<float> b) { return _mm512_maskz_min_ps(0xffff, a, b); }
#elif defined(__AVX2__)
MERCER_INLINE Vec max(Vec a, Vec b) { return _mm256_max_pd(a, b); }
MERCER_INLINE VecOf<float> max(VecOf<float> a, VecOf<float> b) { return _mm256_max_ps(a, b); }
MERCER_INLINE Vec min(Vec a, Vec b) { return _mm256_min_pd(a, b); }
MERCER_INLINE VecOf<float> min(VecOf<float> a, VecOf<float> b) { return _mm256_min_ps(a, b); }
#elif defined(__SSE2__)
MERCER_INLINE Vec max(Vec a, Vec b) { return _mm_max_pd(a, b); }
MERCER_INLINE VecOf<float> max(VecOf<float> a, VecOf<float> b) { return _mm_max_ps(a, b); }
MERCER_INLINE Vec min(Vec a, Vec b) { return _mm_min_pd(a, b); }
MERCER_INLINE VecOf<float> min(VecOf<float> a, VecOf<float> b) { return _mm_min_ps(a, b); }
#endif

MERCER_INLINE double sum(Vec v) {
    double total = 0.0;
    for (int lane = 0; lane < kLanes; ++lane) total += v[lane];
    return total;
}

template <class Real, int Distance, int... Lane>
MERCER_INLINE VecOf<Real> fold_least(VecOf<Real> value, std::integer_sequence<int, Lane...> lanes) {
    constexpr int kLane = kLanesOf<Real>;
    value = min(__builtin_shufflevector(value, value, ((Lane + Distance) % kLane)...), value);
    if constexpr (Distance > 1)
        return fold_least<Real, Distance / 2>(value, lanes);
    else
        return value;
}

// The smallest value of all lanes, in each lane.
template <class Real>
MERCER_INLINE VecOf<Real> least_of(VecOf<Real> value) {
    constexpr int kLane = kLanesOf<Real>;
    return fold_least<Real, kLane / 2>(value, std::make_integer_sequence<int, kLane>());
}

struct Winner {
    double value;
    int64_t at;
};

// The smallest value of all lanes and its position. Ties go to the smallest position, so that the result does not
// depend on the vector width.
template <class Real>
MERCER_INLINE Winner least_of(VecOf<Real> value, VecOf<Real> at) {
    const VecOf<Real> least = least_of<Real>(value);
    at = least_of<Real>(value == least ? at : fill(static_cast<Real>(__builtin_inf())));
    return {static_cast<double>(least[0]), static_cast<int64_t>(at[0])};
}

// 1/x for positive x, with a relative error below 1e-5. This is enough for selections, and faster than a division.
// kReciprocal minus the bits of x gives the bits of 1/x with an error of at most 5.1 %; each of two Newton steps
// squares the error. For x above a quarter of the largest number the result may be NaN or negative.
template <class Real>
constexpr auto kReciprocal = int64_t{0x7fde623822fc16e6};
template <>
constexpr auto kReciprocal<float> = int32_t{0x7ef311c7};

template <class Real>
MERCER_INLINE VecOf<Real> about_one_over(VecOf<Real> x) {
    using Int = typename Simd<Real>::Int;
    const VecOf<Real> first = reinterpret_cast<VecOf<Real>>(kReciprocal<Real> - reinterpret_cast<Int>(x));
    const VecOf<Real> second = first * (2 - x * first);
    return second * (2 - x * second);
}

// 2^f for |f| <= 1/2, by minimax polynomials that are exactly 1 at 0. Relative errors: 3e-17 (double) and 2e-8 (float).
MERCER_INLINE Vec power_of_two(Vec f) {
    Vec s = broadcast(0x1.e79a71499363ep-32);
    s = s * f + 0x1.e61b5e1eff552p-28;
    s = s * f + 0x1.b5267dcc0dd43p-24;
    s = s * f + 0x1.62bfc793bb70ep-20;
    s = s * f + 0x1.ffcbfba9018bep-17;
    s = s * f + 0x1.4309130edd427p-13;
    s = s * f + 0x1.5d87fe78cd8c0p-10;
    s = s * f + 0x1.3b2ab6fba00fep-7;
    s = s * f + 0x1.c6b08d7049fe7p-5;
    s = s * f + 0x1.ebfbdff82c5a4p-3;
    s = s * f + 0x1.62e42fefa39efp-1;
    return s * f + 1.0;
}

MERCER_INLINE VecOf<float> power_of_two(VecOf<float> f) {
    VecOf<float> s = fill(0x1.41fbbcp-13f);
    s = s * f + 0x1.5f3e54p-10f;
    s = s * f + 0x1.3b2d4cp-7f;
    s = s * f + 0x1.c6aee8p-5f;
    s = s * f + 0x1.ebfbdcp-3f;
    s = s * f + 0x1.62e430p-1f;
    return s * f + 1.0f;
}

template <class Real>
struct Exponent;

// kShift + x has x, rounded to an integer, in the low bits of the significand. ln 2 = kLn2Hi + kLn2Lo, and products of
// kLn2Hi with these integers are exact.
template <>
struct Exponent<double> {
    static constexpr double kShift = 0x1.8p52, kLog2e = 0x1.71547652b82fep0, kLn2Hi = 0x1.62e42fefa0000p-1,
                            kLn2Lo = 0x1.cf79abc9e3b3ap-40;
    static constexpr double kLeast = -1020.0, kMost = 1024.0, kNoOverflow = 1023.5;
    static constexpr int kSignificand = 52;
};

template <>
struct Exponent<float> {
    static constexpr float kShift = 0x1.8p23f, kLog2e = 0x1.715476p0f, kLn2Hi = 0x1.62e4p-1f, kLn2Lo = 0x1.7f7d1cp-20f;
    static constexpr float kLeast = -124.0f, kMost = 128.0f, kNoOverflow = 127.5f;
    static constexpr int kSignificand = 23;
};

// s 2^n for the integer n in the low bits of `shifted`, by adding n to the exponent. NaN stays NaN.
template <class Real>
MERCER_INLINE VecOf<Real> scale_by_power(VecOf<Real> s, VecOf<Real> shifted) {
    using Int = typename Simd<Real>::Int;
    return reinterpret_cast<VecOf<Real>>(reinterpret_cast<Int>(s) +
                                         (reinterpret_cast<Int>(shifted) << Exponent<Real>::kSignificand));
}

// 2^t for t <= 0 or NaN. Results below about 2^kLeast are 0. The relative error is two units in the last place, plus ln
// 2 times the absolute error of t.
#ifdef __AVX512F__
// Tables of 2^(k/16) in double precision, 2^(k/32) in single precision, and the relative rounding errors of the latter.
// kShift / 16 + t has t, rounded to sixteenths, in the low bits of the significand; the lowest four bits are k. With
// the table the rest of t is so small that the polynomial needs only half (double) or a third (float) of its terms.
alignas(64) constexpr double kSixteenths[16] = {0x1p0,
                                                0x1.0b5586cf9890fp0,
                                                0x1.172b83c7d517bp0,
                                                0x1.2387a6e756238p0,
                                                0x1.306fe0a31b715p0,
                                                0x1.3dea64c123422p0,
                                                0x1.4bfdad5362a27p0,
                                                0x1.5ab07dd485429p0,
                                                0x1.6a09e667f3bcdp0,
                                                0x1.7a11473eb0187p0,
                                                0x1.8ace5422aa0dbp0,
                                                0x1.9c49182a3f090p0,
                                                0x1.ae89f995ad3adp0,
                                                0x1.c199bdd85529cp0,
                                                0x1.d5818dcfba487p0,
                                                0x1.ea4afa2a490dap0};
alignas(64) constexpr float kThirtySeconds[32] = {
    0x1p0f,        0x1.059b0ep0f, 0x1.0b5586p0f, 0x1.11301ep0f, 0x1.172b84p0f, 0x1.1d4874p0f, 0x1.2387a6p0f,
    0x1.29e9e0p0f, 0x1.306fe0p0f, 0x1.371a74p0f, 0x1.3dea64p0f, 0x1.44e086p0f, 0x1.4bfdaep0f, 0x1.5342b6p0f,
    0x1.5ab07ep0f, 0x1.6247ecp0f, 0x1.6a09e6p0f, 0x1.71f75ep0f, 0x1.7a1148p0f, 0x1.82589ap0f, 0x1.8ace54p0f,
    0x1.93737cp0f, 0x1.9c4918p0f, 0x1.a5503cp0f, 0x1.ae89fap0f, 0x1.b7f770p0f, 0x1.c199bep0f, 0x1.cb720ep0f,
    0x1.d5818ep0f, 0x1.dfc974p0f, 0x1.ea4afap0f, 0x1.f50766p0f};
alignas(64) constexpr float kRoundedOff[32] = {0,
                                               -0x1.947414p-25f,
                                               0x1.8d96d4p-25f,
                                               -0x1.dda2fcp-25f,
                                               -0x1.9c0c22p-27f,
                                               -0x1.a2fbb2p-25f,
                                               0x1.964904p-25f,
                                               -0x1.2b0dbcp-25f,
                                               0x1.125002p-25f,
                                               -0x1.cde8cep-26f,
                                               0x1.370be4p-25f,
                                               0x1.336de2p-30f,
                                               -0x1.0a3550p-25f,
                                               -0x1.c541b4p-26f,
                                               -0x1.00d8acp-27f,
                                               -0x1.6cb284p-25f,
                                               0x1.26055cp-26f,
                                               0x1.8b2bb8p-26f,
                                               -0x1.05cb44p-25f,
                                               -0x1.1c2142p-26f,
                                               0x1.67a1cap-28f,
                                               -0x1.348e56p-25f,
                                               0x1.a3b5e4p-28f,
                                               -0x1.0b7ec8p-25f,
                                               -0x1.f9c304p-27f,
                                               -0x1.e4c886p-26f,
                                               -0x1.6961b4p-28f,
                                               -0x1.b5151ep-28f,
                                               -0x1.a5217cp-28f,
                                               -0x1.ab7132p-26f,
                                               0x1.61428ep-28f,
                                               -0x1.2ad5f8p-27f};

MERCER_INLINE Vec exp2_nonpositive(Vec t) {
    const Vec shifted = t + Exponent<double>::kShift / 16, n = shifted - Exponent<double>::kShift / 16, f = t - n;
    const Vec power = _mm512_permutex2var_pd(_mm512_load_pd(kSixteenths), reinterpret_cast<__m512i>(shifted),
                                             _mm512_load_pd(kSixteenths + 8));
    Vec s = broadcast(0x1.430a994c1488fp-13);
    s = s * f + 0x1.5d89be3a57b15p-10;
    s = s * f + 0x1.3b2ab6fa97f9ap-7;
    s = s * f + 0x1.c6b08d6e8a6acp-5;
    s = s * f + 0x1.ebfbdff82c59dp-3;
    s = s * f + 0x1.62e42fefa39fdp-1;
    const __mmask8 counts = _mm512_cmp_pd_mask(n, fill(Exponent<double>::kLeast), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_pd(counts, power * (s * f) + power, n);  // scalef rounds n down
}
MERCER_INLINE VecOf<float> exp2_nonpositive(VecOf<float> t) {
    const VecOf<float> shifted = t + Exponent<float>::kShift / 32, n = shifted - Exponent<float>::kShift / 32,
                       f = t - n;
    const auto k = reinterpret_cast<__m512i>(shifted);
    const VecOf<float> power = _mm512_permutex2var_ps(_mm512_load_ps(kThirtySeconds), k,
                                                      _mm512_load_ps(kThirtySeconds + 16)),
                       off = _mm512_permutex2var_ps(_mm512_load_ps(kRoundedOff), k, _mm512_load_ps(kRoundedOff + 16));
    const VecOf<float> s = f * 0x1.ebfd1cp-3f + 0x1.62e584p-1f;
    const __mmask16 counts = _mm512_cmp_ps_mask(n, fill(Exponent<float>::kLeast), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(counts, power * (s * f + off) + power, n);
}
#else
template <class V>
MERCER_INLINE V exp2_nonpositive(V t) {
    using Real = decltype(t[0] + t[0]);
    using E = Exponent<Real>;
    const V clamped = max(fill(E::kLeast), t);
    const V shifted = clamped + E::kShift;
    const V result = scale_by_power<Real>(power_of_two(clamped - (shifted - E::kShift)), shifted);
    return t < E::kLeast ? V{} : result;
}
#endif

// exp(x), with an error of about two units in the last place. Results below 2^kLeast are 0; overflow gives +inf.
template <class V>
MERCER_INLINE V exp(V x) {
    using Real = decltype(x[0] + x[0]);
    using E = Exponent<Real>;
    const V t = x * E::kLog2e;
    const V shifted = min(max(fill(E::kLeast), t), fill(E::kNoOverflow)) + E::kShift;
    const V n = shifted - E::kShift;
    const V fraction = min(max(fill(Real{-1}), ((x - n * E::kLn2Hi) - n * E::kLn2Lo) * E::kLog2e), fill(Real{1}));
    // Computed as half of the result, twice, because 2^kMost is not representable.
    const V half = scale_by_power<Real>(power_of_two(fraction), shifted - 1);
    V result = half + half;
    result = t < E::kLeast ? V{} : result;
    result = t >= E::kMost ? fill(static_cast<Real>(__builtin_inf())) : result;
    return x == x ? result : x;
}

// tanh(x), with an error of about ten units in the last place, for small x too. For |x| < 1/16 it is the Taylor series
// to x^13 (remainder below 4e-18 x); otherwise it is computed from exponentials.
template <class V>
MERCER_INLINE V tanh(V x) {
    using Real = decltype(x[0] + x[0]);
    const V s = x * x;
    V series = fill(static_cast<Real>(21844.0 / 6081075.0));
    series = series * s - static_cast<Real>(1382.0 / 155925.0);
    series = series * s + static_cast<Real>(62.0 / 2835.0);
    series = series * s - static_cast<Real>(17.0 / 315.0);
    series = series * s + static_cast<Real>(2.0 / 15.0);
    series = series * s - static_cast<Real>(1.0 / 3.0);
    const V small = x + x * (s * series);
    const V large = 1 - 2 / (exp(2 * x) + 1);
    return s < static_cast<Real>(1.0 / 256.0) ? small : large;
}

template <class V>
MERCER_INLINE V sqrt(V v) {
    using Real = decltype(v[0] + v[0]);
    V root;
    for (int lane = 0; lane < kLanesOf<Real>; ++lane)
        root[lane] = sizeof(Real) == sizeof(double) ? static_cast<Real>(__builtin_sqrt(static_cast<double>(v[lane])))
                                                    : static_cast<Real>(__builtin_sqrtf(static_cast<float>(v[lane])));
    return root;
}
#if defined(__AVX512F__)
MERCER_INLINE Vec sqrt(Vec v) { return _mm512_maskz_sqrt_pd(0xff, v); }
MERCER_INLINE VecOf<float> sqrt(VecOf<float> v) { return _mm512_maskz_sqrt_ps(0xffff, v); }
#elif defined(__AVX2__)
MERCER_INLINE Vec sqrt(Vec v) { return _mm256_sqrt_pd(v); }
MERCER_INLINE VecOf<float> sqrt(VecOf<float> v) { return _mm256_sqrt_ps(v); }
#endif

// log(x), with an error of a few units in the last place for normal x > 0; +inf for x = +inf; NaN otherwise. x = 2^n m
// with m between 1/sqrt(2) and sqrt(2). log(m) = 2 atanh(s) with s = (m - 1)/(m + 1), |s| < 0.172, by the series of
// atanh, whose remainder is below 2e-18 |s|.
template <class V>
MERCER_INLINE V log(V x) {
    using Real = decltype(x[0] + x[0]);
    using E = Exponent<Real>;
    using Int = typename Simd<Real>::Int;
    using Whole = decltype(Int{}[0] + Int{}[0]);
    constexpr Whole kUnit = Whole{1} << E::kSignificand;
    const V root = fill(static_cast<Real>(0x1.6a09e667f3bcdp-1));
    const Int bits = reinterpret_cast<Int>(x), low = reinterpret_cast<Int>(root);
    const Int shifted = bits - low;  // its exponent changes at 2^n / sqrt(2)
    const Int n = shifted >> E::kSignificand;
    const V m = reinterpret_cast<V>((shifted & (kUnit - 1)) + low);
    const V s = (m - 1) / (m + 1), t = s * s;
    V series = fill(static_cast<Real>(1.0 / 21.0));
    for (int k = 19; k >= 3; k -= 2) series = series * t + static_cast<Real>(1.0 / k);
    const V power = __builtin_convertvector(n, V);
    const V result = power * E::kLn2Hi + (2 * s + (2 * s * (t * series) + power * E::kLn2Lo));
    const V infinity = fill(static_cast<Real>(__builtin_inf()));
    return x < infinity ? (x > 0 ? result : infinity - infinity) : x;
}

}  // namespace mercer::MERCER_ISA
