// Tiles of rows of bits, compiled once per instruction set (see simd.hpp).
#include "gram/bit_tile.hpp"

#include "gram/simd.hpp"

namespace mercer::MERCER_ISA {
namespace {

using Words __attribute__((vector_size(kVectorBytes))) = uint64_t;

MERCER_INLINE Words load_words(const uint64_t* p) {
    Words some;
    __builtin_memcpy(&some, p, sizeof(some));
    return some;
}

// The number of one bits in each lane.
MERCER_INLINE Words count_ones(Words x) {
#if defined(__AVX512VPOPCNTDQ__)
    return reinterpret_cast<Words>(_mm512_popcnt_epi64(reinterpret_cast<__m512i>(x)));
#else
    x -= (x >> 1) & 0x5555555555555555;
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
    x += x >> 8;
    x += x >> 16;
    x += x >> 32;
    return x & 0x7f;
#endif
}

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

template <int kDigits>
void tile_of(const uint64_t* left, const uint64_t* right, int64_t n_words, const double* powers, double* tile) {
    constexpr int kColumns = 2 * kLanes;
    Words low[kTileRows], high[kTileRows];
#pragma GCC unroll 12
    for (int r = 0; r < kTileRows; ++r) low[r] = high[r] = Words{};
    for (int64_t k = 0; k < n_words; ++k) {
        const Words right_low = load_words(right + k * kColumns),
                    right_high = load_words(right + k * kColumns + kLanes);
#pragma GCC unroll 12
        for (int r = 0; r < kTileRows; ++r) {
            const uint64_t word = left[k * kTileRows + r];
            low[r] += count_ones(right_low ^ word);
            high[r] += count_ones(right_high ^ word);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < kTileRows; ++r) {
        Vec one = lookup(powers, low[r]), two = lookup(powers, high[r]);
#pragma GCC unroll 2
        for (int d = 1; d < kDigits; ++d) {
            one *= lookup(powers + 16 * d, low[r] >> (4 * d));
            two *= lookup(powers + 16 * d, high[r] >> (4 * d));
        }
        store(tile + r * kColumns, one);
        store(tile + r * kColumns + kLanes, two);
    }
}

}  // namespace

void bit_tile(const uint64_t* left, const uint64_t* right, int64_t n_words, const double* powers, int n_digits,
              double* tile) {
    if (n_digits == 1) return tile_of<1>(left, right, n_words, powers, tile);
    if (n_digits == 2) return tile_of<2>(left, right, n_words, powers, tile);
    tile_of<3>(left, right, n_words, powers, tile);
}

}  // namespace mercer::MERCER_ISA
