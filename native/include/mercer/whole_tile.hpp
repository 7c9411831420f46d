// Inner products of rows of small whole numbers, many to an instruction, and exact.
#pragma once

#include <cstdint>

#include "mercer/view.hpp"

namespace mercer {

// What a packed row says of itself, behind its units.
enum WholeNumbers { kSquares, kLift, kWholeNumbers };  // the sum of squares; of bytes, 128 times their sum

// Squares of rows stay below, so that squared distances fit into 32 bits.
constexpr int64_t kMostSquares = int64_t{1} << 29;

constexpr int64_t units_of(int64_t n_features, bool bytes) {
    return bytes ? (n_features + 3) / 4 : (n_features + 1) / 2;
}

// tile[r][c] = factor (left[n_units][r] + right[n_units][c] - 2 <left[.][r], right[.][c]>), for as many rows and
// columns as a tile of single precision has; left[unit][row], right[unit][column]. Of bytes, those on the right have
// 128 subtracted, for processors multiply bytes with signed ones.
using WholeTile = void (*)(const int32_t* left, const int32_t* right, int64_t n_units, bool bytes, float factor,
                           float* tile);

// The multiples of a row of numbers, as units, and what the row says of itself; whether each is one, to half a unit of
// single precision.
using WholeRow = bool (*)(const void* row, Scalar scalar, int64_t stride, int64_t n_features, double step, bool bytes,
                          int32_t* units);

namespace avx512_vnni {  // for processors that multiply and add whole numbers
void whole_tile(const int32_t*, const int32_t*, int64_t, bool, float, float*);
bool whole_row(const void*, Scalar, int64_t, int64_t, double, bool, int32_t*);
}  // namespace avx512_vnni

}  // namespace mercer
