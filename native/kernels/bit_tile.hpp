// Gaussian values between rows of bits: a function of how many bits differ, looked up digit by digit.
#pragma once

#include <cstdint>

namespace mercer {

constexpr int kMostDigits = 3;  // hexadecimal ones, of the number of bits that differ
constexpr int64_t kMostBits = (int64_t{1} << 4 * kMostDigits) - 1;

constexpr int64_t words_of(int64_t n_bits) { return (n_bits + 63) / 64; }

// tile[r][c] = the product over d of powers[d][the d-th digit of the number of bits that differ], for as many rows and
// columns as a tile of double precision has; left[word][row], right[word][column], powers[n_digits][16].
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
namespace avx512_popcnt {  // for processors that count the bits of a vector's lanes
void bit_tile(const uint64_t*, const uint64_t*, int64_t, const double*, int, double*);
}

}  // namespace mercer
