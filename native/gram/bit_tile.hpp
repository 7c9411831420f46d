// Tiles of rows of bits: how many bits two rows have in common, or Gaussian kernel values. A Gaussian value depends
// only on the number of bits that differ (the Hamming distance): it is a product of table entries, one for each
// hexadecimal digit of that number.
#pragma once

#include <cstdint>

namespace mercer {

constexpr int kMostDigits = 5;  // largest number of hexadecimal digits of a Hamming distance
constexpr int64_t kMostBits = (int64_t{1} << 4 * kMostDigits) - 1;

constexpr int64_t words_of(int64_t n_bits) { return (n_bits + 63) / 64; }

// tile[r][c] = the product over d of powers[d][d-th digit of the Hamming distance of row r and column c]; without
// digits, the number of bits that are 1 in both. The tile has the shape of a double-precision tile. Layouts:
// left[word][row], right[word][column], powers[n_digits][16].
using BitTile = void (*)(const uint64_t* left, const uint64_t* right, int64_t n_words, const double* powers,
                         int n_digits, double* tile);

namespace baseline {
void bit_tile(const uint64_t*, const uint64_t*, int64_t, const double*, int, double*);
}
namespace avx2 {
void bit_tile(const uint64_t*, const uint64_t*, int64_t, const double*, int, double*);
}
namespace avx512 {
void bit_tile(const uint64_t*, const uint64_t*, int64_t, const double*, int, double*);
}
namespace avx512_popcnt {  // for processors with AVX512_VPOPCNTDQ, which counts the one bits of each lane
void bit_tile(const uint64_t*, const uint64_t*, int64_t, const double*, int, double*);
}

}  // namespace mercer
