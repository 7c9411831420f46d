// Tiles of rows of bits, compiled once per instruction set (see simd.hpp).
#include "gram/bit_tile.hpp"

#include "gram/simd.hpp"
#ifdef __ARM_NEON
#include <arm_neon.h>
#endif

namespace mercer::MERCER_ISA {
namespace {

using Words __attribute__((vector_size(kVectorBytes))) = uint64_t;

MERCER_INLINE Words load_words(const uint64_t* p) {
    Words some;
    __builtin_memcpy(&some, p, sizeof(some));
    return some;
}

// count_ones counts the one bits in each lane, or in each byte of a lane, where that is faster. sum_counts turns sums
// of such counts over at most kWordsPerSum words into counts of each lane.
#if defined(__AVX512VPOPCNTDQ__)
constexpr int64_t kWordsPerSum = INT64_MAX;
MERCER_INLINE Words count_ones(Words x) {
    return reinterpret_cast<Words>(_mm512_popcnt_epi64(reinterpret_cast<__m512i>(x)));
}
MERCER_INLINE Words sum_counts(Words counts) { return counts; }
#elif defined(__AVX512BW__)
constexpr int64_t kWordsPerSum = 31;  // a byte holds 31 counts of up to 8 bits
MERCER_INLINE Words count_ones(Words x) {
    const __m512i table = _mm512_set4_epi32(0x04030302, 0x03020201, 0x03020201, 0x02010100);
    const __m512i digit = _mm512_set1_epi8(15), bits = reinterpret_cast<__m512i>(x);
    const __m512i low = _mm512_shuffle_epi8(table, _mm512_and_si512(bits, digit));
    const __m512i high = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(bits, 4), digit));
    return reinterpret_cast<Words>(_mm512_add_epi8(low, high));
}
MERCER_INLINE Words sum_counts(Words counts) {
    return reinterpret_cast<Words>(_mm512_sad_epu8(reinterpret_cast<__m512i>(counts), _mm512_setzero_si512()));
}
#elif defined(__AVX2__)
constexpr int64_t kWordsPerSum = 31;
MERCER_INLINE Words count_ones(Words x) {
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2,
                                           2, 3, 2, 3, 3, 4);
    const __m256i digit = _mm256_set1_epi8(15), bits = reinterpret_cast<__m256i>(x);
    const __m256i low = _mm256_shuffle_epi8(table, _mm256_and_si256(bits, digit));
    const __m256i high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bits, 4), digit));
    return reinterpret_cast<Words>(_mm256_add_epi8(low, high));
}
MERCER_INLINE Words sum_counts(Words counts) {
    return reinterpret_cast<Words>(_mm256_sad_epu8(reinterpret_cast<__m256i>(counts), _mm256_setzero_si256()));
}
#elif defined(__ARM_NEON)
constexpr int64_t kWordsPerSum = 31;
MERCER_INLINE Words count_ones(Words x) { return reinterpret_cast<Words>(vcntq_u8(reinterpret_cast<uint8x16_t>(x))); }
MERCER_INLINE Words sum_counts(Words counts) {
    return reinterpret_cast<Words>(vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(reinterpret_cast<uint8x16_t>(counts)))));
}
#else
constexpr int64_t kWordsPerSum = 31;
MERCER_INLINE Words count_ones(Words x) {
    x -= (x >> 1) & 0x5555555555555555;
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333);
    return (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
}
MERCER_INLINE Words sum_counts(Words counts) {
    counts = (counts & 0x00ff00ff00ff00ff) + ((counts >> 8) & 0x00ff00ff00ff00ff);
    counts += counts >> 16;
    counts += counts >> 32;
    return counts & 0xffff;
}
#endif

// table[lowest hexadecimal digit of each lane].
MERCER_INLINE Vec lookup(const double* table, Words at) {
#if defined(__AVX512F__)
    return _mm512_permutex2var_pd(load(table), reinterpret_cast<__m512i>(at), load(table + kLanes));
#else
    Vec looked_up;
    for (int lane = 0; lane < kLanes; ++lane) looked_up[lane] = table[at[lane] & 15];
    return looked_up;
#endif
}

// counts[r][c] = the number of one bits of join(the word of row r, the word of column c), summed over the words.
template <class Join>
MERCER_INLINE void count_tile(const uint64_t* left, const uint64_t* right, int64_t n_words, uint64_t* counts,
                              Join join) {
    constexpr int kColumns = 2 * kLanes;
    for (int64_t k = 0; k < n_words;) {
        const bool adds = k > 0;
        const int64_t last = n_words - k > kWordsPerSum ? k + kWordsPerSum : n_words;
        Words low[kTileRows], high[kTileRows];
#pragma GCC unroll 12
        for (int r = 0; r < kTileRows; ++r) low[r] = high[r] = Words{};
        for (; k < last; ++k) {
            const Words right_low = load_words(right + k * kColumns),
                        right_high = load_words(right + k * kColumns + kLanes);
#pragma GCC unroll 12
            for (int r = 0; r < kTileRows; ++r) {
                const uint64_t word = left[k * kTileRows + r];
                low[r] += count_ones(join(right_low, word));
                high[r] += count_ones(join(right_high, word));
            }
        }
#pragma GCC unroll 12
        for (int r = 0; r < kTileRows; ++r) {
            uint64_t* out = counts + r * kColumns;
            Words one = sum_counts(low[r]), two = sum_counts(high[r]);
            if (adds) one += load_words(out), two += load_words(out + kLanes);
            __builtin_memcpy(out, &one, sizeof(one));
            __builtin_memcpy(out + kLanes, &two, sizeof(two));
        }
    }
}

template <int kDigits>
void tile_of(const uint64_t* left, const uint64_t* right, int64_t n_words, const double* powers, double* tile) {
    constexpr int kSize = 2 * kLanes * kTileRows;
    uint64_t counts[kSize];
    if constexpr (kDigits == 0)
        count_tile(left, right, n_words, counts, [](Words a, uint64_t b) MERCER_LAMBDA_INLINE { return a & b; });
    else
        count_tile(left, right, n_words, counts, [](Words a, uint64_t b) MERCER_LAMBDA_INLINE { return a ^ b; });
#pragma GCC unroll 4
    for (int i = 0; i < kSize; i += kLanes) {
        const Words count = load_words(counts + i);
        if constexpr (kDigits == 0) {
            store(tile + i, __builtin_convertvector(reinterpret_cast<Simd<double>::Int>(count), Vec));
        } else {
            Vec value = lookup(powers, count);
#pragma GCC unroll 4
            for (int d = 1; d < kDigits; ++d) value *= lookup(powers + 16 * d, count >> (4 * d));
            store(tile + i, value);
        }
    }
}

}  // namespace

void bit_tile(const uint64_t* left, const uint64_t* right, int64_t n_words, const double* powers, int n_digits,
              double* tile) {
    switch (n_digits) {
        case 0:
            return tile_of<0>(left, right, n_words, powers, tile);
        case 1:
            return tile_of<1>(left, right, n_words, powers, tile);
        case 2:
            return tile_of<2>(left, right, n_words, powers, tile);
        case 3:
            return tile_of<3>(left, right, n_words, powers, tile);
        case 4:
            return tile_of<4>(left, right, n_words, powers, tile);
        default:
            return tile_of<kMostDigits>(left, right, n_words, powers, tile);
    }
}

}  // namespace mercer::MERCER_ISA
