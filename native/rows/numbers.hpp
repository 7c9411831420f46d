// The types of the numbers of a table, and vectors of them as doubles.
#pragma once

#include "gram/simd.hpp"
#include "rows/table.hpp"

namespace mercer::MERCER_ISA {

// Loads kLanes numbers as doubles.
MERCER_INLINE Vec load_numbers(const double* p) { return load(p); }
MERCER_INLINE Vec load_numbers(const float* p) { return load(p); }
#if defined(__AVX512F__)
MERCER_INLINE Vec load_numbers(const int8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm512_maskz_cvtepi32_pd(0xff, _mm256_cvtepi8_epi32(bytes));
}
MERCER_INLINE Vec load_numbers(const uint8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm512_maskz_cvtepi32_pd(0xff, _mm256_cvtepu8_epi32(bytes));
}
#elif defined(__AVX2__)
MERCER_INLINE __m128i load_four(const void* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof(four));
    return _mm_cvtsi32_si128(four);
}
MERCER_INLINE Vec load_numbers(const int8_t* p) { return _mm256_cvtepi32_pd(_mm_cvtepi8_epi32(load_four(p))); }
MERCER_INLINE Vec load_numbers(const uint8_t* p) { return _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(load_four(p))); }
#else
template <class Number>
MERCER_INLINE Vec load_numbers(const Number* p) {
    Vec loaded;
    for (int lane = 0; lane < kLanes; ++lane) loaded[lane] = static_cast<double>(p[lane]);
    return loaded;
}
#endif

using LaneMask = Simd<double>::Int;  // -1 for lanes that are kept, and 0 for the others

// The lanes that are kept; 0 in the others, whatever is in them.
MERCER_INLINE Vec only(Vec x, LaneMask mask) { return reinterpret_cast<Vec>(reinterpret_cast<LaneMask>(x) & mask); }

// A number from memory in all lanes. In AVX-512, a broadcast from a register would take a unit that multiplies.
MERCER_INLINE Vec broadcast_from(const double* p) {
#if defined(__AVX512F__)
    return _mm512_set1_pd(*p);
#elif defined(__AVX2__)
    return _mm256_broadcast_sd(p);
#else
    return broadcast(*p);
#endif
}

// Calls visit with a null pointer to the type of the table's numbers.
template <class Visit>
bool with_numbers(const LinearTable& table, Visit visit) {
    switch (table.value) {
        case LinearTable::Value::f32:
            return visit(static_cast<const float*>(nullptr));
        case LinearTable::Value::f64:
            return visit(static_cast<const double*>(nullptr));
        case LinearTable::Value::i8:
            return visit(static_cast<const int8_t*>(nullptr));
        default:
            return visit(static_cast<const uint8_t*>(nullptr));
    }
}

}  // namespace mercer::MERCER_ISA
